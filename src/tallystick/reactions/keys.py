"""Keys of runs and actions: what makes two of them the same (08, R5 to R9).

No time, sequence, batch shape, depth or host is in any of them, so the same state gives the same
keys however it was come by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallystick.reactions.ids import H, text
from tallystick.values import canon


def input_digest(
    files: Iterable[tuple[str, str | None]],
    frames: Iterable[tuple[list[Any], str, str]],
    params: Mapping[str, Any],
) -> str:
    """R5: what a run reads; frames enter by content, so a text restated is no new input."""
    return text(
        H(
            "inputs@1",
            files=sorted([path, held] for path, held in files),
            frames=sorted([place, kind, held] for place, kind, held in frames),
            params=dict(params),
        )
    )


def kind_class(trigger: Mapping[str, Any]) -> str:
    """R6: a command is asked for, everything else is a state that was met."""
    return "command" if trigger["kind"] == "command" else "state"


def fingerprint(mode: str, trigger: Mapping[str, Any], changes: Iterable[Any] = ()) -> str:
    """R6: what makes two triggers the same; `changes` is asked for by the mode `delta` alone."""
    kind = kind_class(trigger)
    command = trigger["command"]
    if mode == "command" and command is not None:
        fields = {"name": command["name"], "args": command["args"], "key": command["key"]}
        return text(H("fingerprint@1", **fields))
    if mode == "delta":
        rows = sorted([c["path"], c["change"], c["before"], c["after"]] for c in changes)
        return text(H("fingerprint@1", kind=kind, changes=trigger["changes_ref"] or rows))
    target = trigger["target"]["target_id"]
    return text(H("fingerprint@1", kind=kind, target=target, inputs=trigger["input_digest"]))


def run_key(definition_hash: str, fingerprint_: str, target_id: str) -> str:
    """R7: the one run of this definition over this state of this target."""
    fields = {"definition": definition_hash, "fingerprint": fingerprint_, "target": target_id}
    return text(H("run_key@1", **fields))


def run_id(run_key_: str, attempt: int) -> str:
    """R7: one attempt at a run key."""
    return text(H("run@1", run_key=run_key_, attempt=attempt))


def label(trigger: Mapping[str, Any], run_key_: str, attempt: int) -> str:
    """The name that people use for an attempt; never a key."""
    path = trigger["target"]["path"]
    place = f"/{path}" if path else ""
    return f"{trigger['reaction']}{place}@{run_key_.partition(':')[2][:12]}#{attempt}"


def action_key(definition_hash: str, run_key_: str, place: tuple[str, int], params: Any) -> str:
    """R9: one action of a run by its name and ordinal, with the params it resolved to."""
    name, ordinal = place
    return text(
        H(
            "action@1",
            definition=definition_hash,
            run_key=run_key_,
            name=name,
            ordinal=ordinal,
            params=canon.hash_of(canon.encode(params)),
        )
    )
