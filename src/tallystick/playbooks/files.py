"""File tasks of an execution that a reaction answers for: the cell asks for them, with a stamp.

The stamp stands in the intent, which is durable before the write, as it does for the reaction's
own writes (08 sections 7 and 10); a worker that wrote by itself would leave bytes of nobody.
The slots `read` and `write` are narrowed from the reaction's, so its scopes hold here too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tallystick.playbooks.tasks import failure

if TYPE_CHECKING:  # a play uses these functions
    from tallystick.playbooks.play import Play

READ: Final = "sys/file.read@1"
WRITE: Final = "sys/file.write@1"
DELETE: Final = "sys/file.delete@1"
EFFECTS: Final = (READ, WRITE, DELETE)

Outcome = dict[str, Any]


def stamp_of(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """In whose name an execution writes; None when its workers write by their own grants."""
    parent = state["parent"]
    found: Mapping[str, Any] | None = None if parent is None else parent.get("stamp")
    return found


def ask(play: Play, name: str, ref: str, unit: dict[str, Any]) -> Outcome | None:
    """Ask for what a file task wants; an outcome when nobody does such a thing."""
    from tallystick.playbooks.play import Asked  # noqa: PLC0415 - it uses this room

    del name
    stamp, wish = stamp_of(play.state), unit["wish"]
    assert stamp is not None, "only a stamped execution asks by its cell"
    inputs, timeout_ns = wish["inputs"], wish["timeout_ns"]
    path = str(inputs["path"])
    place = {"workspace": str(inputs.get("workspace", stamp["workspace"])), "path": path}
    # The bytes are in the store from here on: the state that waits names no text.
    unit["wish"] = {"kind": "file", "path": path}
    action = inputs["action"]
    if action == "read":
        play.asked.append(Asked(READ, {**place, "max": None}, ref, timeout_ns))
        return None
    if action not in ("write", "delete"):
        message = f"a file task of a reaction's playbook cannot {action}"
        return {"status": "error", "error": failure("not_found", "task.unserved", message)}
    post_id = play.values.put(_content(inputs)) if action == "write" else None
    params: dict[str, Any] = {
        **place,
        "expect": _expected(play, stamp, path),
        "mode": stamp["mode"],
        "stamp": {**stamp["base"], "path": path, "post_id": post_id},
    }
    if action == "write":
        params |= {"content": None, "content_ref": post_id}
    play.asked.append(Asked(WRITE if action == "write" else DELETE, params, ref, timeout_ns))
    return None


def _content(inputs: Mapping[str, Any]) -> bytes:
    data = inputs.get("data")
    text = inputs["text"] if "text" in inputs else data if isinstance(data, str) else None
    return json.dumps(data).encode() if text is None else str(text).encode()


def _expected(play: Play, stamp: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The bytes that may be replaced: what this execution or an earlier run wrote there."""
    written = play.state.get("written", {})
    held = play.values.blob(stamp["known"]["h"]).get(path)
    if path in written:
        held = None if written[path] is None else written[path]["h"]
    if held is None:
        return {"$tag": "absent", "$value": None}
    return {"$tag": "content", "$value": held}


def answered(play: Play, effect: str, payload: Mapping[str, Any]) -> Outcome:
    """What a file holds, or what was done to it, as the outcome of the task."""
    kept = {key: payload[key] for key in ("path", "size", "status") if key in payload}
    if effect == READ:
        raw = payload["bytes"]
        data: bytes = play.values.raw(payload["ref"]) if raw is None else raw
        kept["text"] = data.decode("utf-8", "replace")
    else:
        post_id = payload["post_id"]
        held = None if post_id is None else {"h": post_id}
        play.state.setdefault("written", {})[payload["path"]] = held
    return {"status": "ok", "result": kept}


def outputs(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a finished execution tells the reaction that answers for it."""
    if stamp_of(state) is None:
        return {}
    written = state.get("written", {})
    rows = [[path, None if held is None else held["h"]] for path, held in sorted(written.items())]
    return {"outputs": rows}
