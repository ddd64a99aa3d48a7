"""What comes of an action that was asked for: its receipts, read into a result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tallystick.reactions import actions
from tallystick.reactions.actions import Setting
from tallystick.reactions.cell import TIMER, Body, Turn
from tallystick.reactions.cell_acts import Ended, ended_as, put_frame
from tallystick.reactions.grants import PROPOSED
from tallystick.values import canon

SMALL: Final = 4096
PAGE: Final = 64
TEXTS_MAX: Final = 1 << 20


def outcome_of(turn: Turn, given: Mapping[str, Any]) -> dict[str, Any]:
    """A receipt in plain values: ok with its payload, or failed with a code."""
    status, payload = given["status"]["$tag"], canon.decode(given["receipt_payload"])
    base = {"intent": given["intent_hash"]}
    if status == "ok":
        if given["effect"] == TIMER:
            late = "the reaction that was asked did not end in time"
            return {**base, "status": "failed", "code": "action.timeout", "message": late}
        if given["effect"] == actions.FILE_READ:
            return {**base, "status": "ok", "payload": _read(turn, payload)}
        return {**base, "status": "ok", "payload": _kept(turn, payload)}
    code = payload["code"]
    if (status == "denied" and code.startswith("cap.")) or payload.get("kind") == "scope":
        code = "scope_violation"
    return {
        **base,
        "status": "failed",
        "code": _SPOKEN.get(code, code),
        "message": payload["message"],
    }


# What the executor says, in the words of a run.
_SPOKEN: Final = {"file.conflict": "conflict"}


def _read(turn: Turn, payload: Mapping[str, Any]) -> dict[str, Any]:
    """A file that was read: its bytes wait in the store, not in the state."""
    held = {"blob": payload["ref"]}
    if payload["bytes"] is not None:
        held = turn.keep_bytes(payload["bytes"])
    return {**{name: payload[name] for name in ("path", "content_id", "size")}, "held": held}


def _kept(turn: Turn, payload: Any) -> Any:
    """A payload without raw bytes: short texts inline, everything else a reference."""
    if isinstance(payload, bytes):
        held = turn.keep_bytes(payload)["blob"]
        return {"ref": held, "size": len(payload), "text": _text(payload)}
    if isinstance(payload, dict):
        return {key: _kept(turn, item) for key, item in payload.items()}
    if isinstance(payload, list):
        return [_kept(turn, item) for item in payload]
    return payload


def _text(data: bytes) -> str | None:
    if len(data) > actions.INLINE_MAX:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def gathered(turn: Turn, body: Body, ref: str, outcome: dict[str, Any]) -> bool:
    """Put one of many answers aside; false when it needs a closer look, as the last one does.

    Answers go to the store by pages, so that the state stays small while many are waited for.
    """
    cursor = body["cursor"]
    if outcome["status"] != "ok" or len(cursor["open"]) == 1:
        return False
    cursor["got"][ref] = {"path": cursor["open"].pop(ref), "outcome": outcome}
    if len(cursor["got"]) == PAGE:
        held = [{"blob": row["outcome"]["payload"]["held"]["blob"]} for row in _readings(cursor)]
        cursor["pages"].append({**turn.keep(cursor["got"]), "held": held})
        cursor["got"] = {}
    return True


def _readings(cursor: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [row for row in cursor["got"].values() if "held" in row["outcome"]["payload"]]


def took(
    turn: Turn, body: Body, setting: Setting, given: tuple[str, dict[str, Any]]
) -> Ended | None:
    """Take one receipt of the open action; not None when it was the last that was waited for."""
    ref, outcome = given
    cursor = body["cursor"]
    path = cursor["open"].pop(ref)
    base = {**cursor["base"]}
    cursor["got"][ref] = {"path": path, "outcome": outcome}
    if outcome["status"] == "failed" and outcome["code"] == "conflict":
        proposed = _proposal(turn, body, setting, path)
        if proposed is not None:
            return None
    if cursor["open"]:
        return None
    got = dict(cursor["got"])
    for page in cursor["pages"]:
        got.update(turn.read(page))
    rows = [got[each] for each in sorted(got, key=_ordinal)]
    failed = [row["outcome"] for row in rows if row["outcome"]["status"] == "failed"]
    intent = outcome["intent"]
    if failed:
        first = failed[0]
        told = {"code": first["code"], "message": first["message"], "intent": first["intent"]}
        return ended_as(base, "failed", **told)
    return _result(turn, body, setting, (base, rows, intent))


def _ordinal(ref: str) -> int:
    return int(ref.rpartition(".")[2])


def _proposal(turn: Turn, body: Body, setting: Setting, path: str) -> str | None:
    """With `propose_file` the bytes go beside the user's file instead."""
    cursor = body["cursor"]
    edit = cursor["edit"] or setting.definition["on_user_edit"]
    if edit != "propose_file" or path.endswith(PROPOSED) or cursor.get("content") is None:
        return None
    cursor["got"] = {}
    beside = path + PROPOSED
    content = actions.Bytes(None, cursor["content"]["blob"])
    asked = actions.proposal(setting, beside, content)
    attempt = len(body["attempts"])
    ref = f"act:{attempt}.{cursor['base']['ordinal']}.1"
    cursor["open"][ref] = beside
    key = f"{cursor['base']['action_key']}.1#{attempt}".encode()
    turn.ask(asked._replace(ref=ref, key=key))
    return ref


# tidy: one answer for each kind of action.
def _result(
    turn: Turn,
    body: Body,
    setting: Setting,
    given: tuple[dict[str, Any], list[dict[str, Any]], str],
) -> Ended:
    base, rows, intent = given
    payloads = [row["outcome"]["payload"] for row in rows]
    kind = base["kind"]
    if kind == "file.read":
        files = dict(setting.manifest["files"])
        for row, payload in zip(rows, payloads, strict=True):
            if files[row["path"]] != payload["content_id"]:
                message = f"{row['path']} has changed since it was observed"
                told = {"code": "input_moved", "message": message, "intent": intent}
                return ended_as(base, "failed", **told)
            # The observed bytes are there: what this reaction wrote, it wrote before they were.
            body["known"].pop(row["path"], None)
        value: Any = {"files": _files(turn, payloads)}
        if len(payloads) == 1:
            value = {**value, **value["files"][0]}
        return ended_as(base, "ok", held=_hold(turn, value), intent=intent)
    value = payloads[0]
    outputs: list[list[Any]] = []
    if kind in ("file.write", "file.delete"):
        outputs = [[value["path"], value["post_id"]]]
        if body["cursor"].get("emit_frame") is not None:
            content = actions.Bytes(None, body["cursor"]["content"]["blob"])
            target = setting.trigger["target"]["path"]
            put_frame(turn, setting, (target, body["cursor"]["emit_frame"], content), {})
    elif kind == "provider.call":
        body["spent"] += value["usage"]["tokens"]
        value = {**value, "ref": value["output_ref"]}
        if body["cursor"]["json"]:
            read = _json(turn, value["ref"])
            if read is None:
                bad = {"code": "provider.not_json", "message": "the model's words are not JSON"}
                return ended_as(base, "failed", intent=intent, **bad)
            value["json"] = read[0]
    elif kind == "playbook.run":
        failed = value["status"]["$tag"] != "completed"
        if failed:
            told = {"code": value["code"] or "playbook.failed", "message": value["message"]}
            return ended_as(base, "failed", intent=intent, **told)
        value = {"result": _called(turn, value["result"])}
        outputs = value["result"].pop("outputs")
    return ended_as(base, "ok", held=_hold(turn, value), intent=intent, outputs=outputs)


def _json(turn: Turn, ref: str) -> tuple[Any] | None:
    """The value that a model wrote as JSON, or None when it wrote something else."""
    try:
        return (json.loads(turn.bytes_of(ref)),)
    except ValueError:
        return None


def _called(turn: Turn, result: Mapping[str, Any] | None) -> Any:
    return None if result is None else canon.decode(turn.bytes_of(result["ref"]))


def _files(turn: Turn, payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The files of a read; texts are inline as far as all of them together are not large."""
    left = TEXTS_MAX
    found: list[dict[str, Any]] = []
    for payload in payloads:
        ref, size = payload["held"]["blob"], payload["size"]
        text = None
        if size <= min(left, actions.INLINE_MAX):
            text = _text(turn.bytes_of(ref))
            left -= size
        told = {name: payload[name] for name in ("path", "content_id", "size")}
        found.append({**told, "text": text, "ref": ref})
    return found


def _hold(turn: Turn, value: Any) -> dict[str, Any]:
    """A result as the body keeps it: small ones inline; what it refers to is held too."""
    held = turn.keep(value) if len(canon.encode(value)) > SMALL else {"value": value}
    return {**held, "refs": [{"blob": ref} for ref in _refs(value)]}


def _refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["ref"]] if isinstance(value.get("ref"), str) else []
        return own + [ref for item in value.values() for ref in _refs(item)]
    return [ref for item in value for ref in _refs(item)] if isinstance(value, list) else []
