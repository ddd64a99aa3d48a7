"""A completed key that is asked for again: its outputs stand, or are written again (R8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.reactions import actions, keys, runs
from tallystick.reactions.actions import Setting
from tallystick.reactions.cell import Asked, Body, Turn


def check(turn: Turn, body: Body, setting: Setting) -> None:
    """Read every recorded output; without any, nothing is left to be waited for."""
    body["cursor"] = None
    if not body["outputs"]:
        return
    round_ = len(body["attempts"])
    reads: dict[str, Any] = {}
    for j, path in enumerate(sorted(body["outputs"])):
        ref = f"check:{round_}.{turn.seq}.{j}"
        reads[ref] = path
        params = {"workspace": setting.trigger["workspace_id"], "path": path, "max": None}
        turn.ask(Asked(actions.FILE_READ, params, ref, "read"))
    body["cursor"] = {"reads": reads, "moved": []}


def checked(turn: Turn, body: Body, ref: str, outcome: Mapping[str, Any]) -> bool:
    """Take one read; true when all of them stand as recorded."""
    cursor = body["cursor"]
    path = cursor["reads"].pop(ref)
    found = outcome["payload"]["content_id"] if outcome["status"] == "ok" else None
    if found != body["outputs"][path]["post_id"]:
        cursor["moved"].append(path)
    if cursor["reads"]:
        return False
    if not cursor["moved"]:
        body["cursor"] = None
        return True
    _restore(turn, body, sorted(cursor["moved"]))
    return False


def _restore(turn: Turn, body: Body, moved: list[str]) -> None:
    """A new attempt that writes the recorded bytes: no decision, no model."""
    trigger = turn.read(body["trigger"])
    number = len(body["attempts"]) + 1
    started = {"kind": "replay", "decision_id": body["decision_id"], "now_ns": turn.now_ns}
    attempt = runs.new_attempt(trigger, body["run_key"], number, started)
    body["attempts"].append(attempt)
    setting = Setting(
        turn.definition(trigger["definition_hash"]),
        trigger,
        turn.manifest(trigger["inputs"]),
        attempt["run_id"],
        body["run_key"],
        {},
        body["known"],
    )
    reads: dict[str, Any] = {}
    for j, path in enumerate(moved):
        post_id = body["outputs"][path]["post_id"]
        content = None if post_id is None else actions.Bytes(None, post_id)
        effect = actions.FILE_DELETE if post_id is None else actions.FILE_WRITE
        ref = f"restore:{number}.{j}"
        reads[ref] = path
        turn.ask(actions.change(setting, effect, {"path": path}, content)._replace(ref=ref))
    body["cursor"] = {"reads": reads, "moved": [], "failed": None}


def restored(
    turn: Turn, body: Body, ref: str, outcome: Mapping[str, Any]
) -> tuple[str, str | None] | None:
    """Take one write; not None when the attempt has ended: its state and code."""
    cursor = body["cursor"]
    path = cursor["reads"].pop(ref)
    row = body["outputs"][path]
    ok = outcome["status"] == "ok"
    code = None if ok else outcome["code"]
    place = (row["action"], len(body["attempts"][-1]["actions"]))
    definition_hash = turn.read(body["trigger"])["definition_hash"]
    action = {
        "name": row["action"],
        "ordinal": place[1],
        "kind": "file.write" if row["post_id"] is not None else "file.delete",
        "action_key": keys.action_key(definition_hash, body["run_key"], place, {"path": path}),
        "status": "ok" if ok else "failed",
        "code": code,
        "outputs": [[path, row["post_id"]]] if ok else [],
        "receipt_id": outcome["intent"],
        "at_ns": turn.now_ns,
    }
    body["attempts"][-1] = runs.append(body["attempts"][-1], action)
    cursor["failed"] = cursor["failed"] or code
    if cursor["reads"]:
        return None
    return (runs.COMPLETE, None) if cursor["failed"] is None else (runs.FAILED, cursor["failed"])
