"""The pieces of an observation: what it says of triggers, outcomes, commands and the commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.node.watch_disk import Disk
from tallystick.reactions.observation import Derived, Request
from tallystick.reactions.tree import shown, unshown
from tallystick.reactions.watch import Difference
from tallystick.values import canon

PART_TRIGGERS: Final = 64
PART_BYTES: Final = 512 * 1024


def parts(derived: Derived) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Triggers and outcomes in portions that each fit one event; at least one, maybe empty."""
    found: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [([], [])]
    size = 0
    for which, rows in enumerate((derived.triggers, derived.outcomes)):
        for row in rows:
            bytes_ = len(canon.encode(row))
            count = len(found[-1][0]) + len(found[-1][1])
            if count and (count >= PART_TRIGGERS or size + bytes_ > PART_BYTES):
                found.append(([], []))
                size = 0
            found[-1][which].append(row)
            size += bytes_
    return found


def held_outcome(workspace_id: str, batch: Difference) -> list[dict[str, Any]]:
    """The record that says why nothing comes; none when something does."""
    if batch.held is None:
        return []
    quiet = batch.held == "no_change"
    return [
        {
            "trigger_id": None,
            "workspace_id": workspace_id,
            "reaction": "",
            "target": None,
            "outcome": "no_change" if quiet else "deferred",
            "code": None if quiet else batch.held,
            "guard": "watch",
            "paths": [],
            "count": 1,
        }
    ]


def request_of(told: Mapping[str, Any]) -> Request:
    """A command that a run asked for."""
    cause = told["cause"]
    return Request(
        told["reaction"],
        unshown(told["path"]),
        args=told["args"],
        key=told["key"],
        actor=cause["actor"],
        cause=cause,
    )


def made_by(triggers: list[dict[str, Any]], command: Request) -> list[str]:
    """The triggers that a command became."""
    return [
        trigger["trigger_id"]
        for trigger in triggers
        if trigger["kind"] == "command"
        and trigger["reaction"] == command.reaction
        and trigger["target"]["path"] == shown(command.path)
    ]


def git_commit(disk: Disk) -> str | None:
    """What HEAD of a repository names, as far as plain files tell."""
    head = disk.text(b".git/HEAD")
    if head is None:
        return None
    name = head.strip()
    if not name.startswith(b"ref: "):
        return name.decode("ascii", "replace") if len(name) in (40, 64) else None
    ref = name[5:]
    if b".." in ref:
        return None
    found = disk.text(b".git/" + ref)
    if found is not None:
        return found.strip().decode("ascii", "replace")
    for line in (disk.text(b".git/packed-refs") or b"").splitlines():
        commit, _, packed = line.partition(b" ")
        if packed == ref:
            return commit.decode("ascii", "replace")
    return None
