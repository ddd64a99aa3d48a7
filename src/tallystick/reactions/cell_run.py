"""The built-in workflow `sys/reaction@1`: the attempts at one run key, one action after the other.

Theory of operation.
The cell is the unique constraint of its key: it begins an attempt, or finds that one is running or
done.
An attempt asks for one action, waits for its receipt, notes it and goes on; what an earlier attempt
has done under the same action key is not asked for again.
A completed key that is asked for again reads its outputs; if they are not as recorded, an attempt
of kind `replay` writes the recorded bytes, without a decision and without a model (R8).
"""

# tidy: one cell, everything that comes to it.
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.reactions import guards, runs
from tallystick.reactions.actions import Setting
from tallystick.reactions.cell import MS, Body, Told, Turn, settled, tell
from tallystick.reactions.cell_acts import WAITS, Ended, act, recorded
from tallystick.reactions.cell_answers import gathered, outcome_of, took
from tallystick.reactions.cell_replay import check, checked, restored
from tallystick.reactions.document import Definition
from tallystick.reactions.ids import H, text

LATE: Final = Told("late_append_rejected", "run.terminal", "G7")


def run(turn: Turn, body: Body | None, tag: str, value: Mapping[str, Any]) -> Body:
    """One tick of a run key."""
    if body is None:
        assert tag == "Start", "a run begins with its start"
        body = _new(value)
    _TAKE[tag](turn, body, value)
    return body


def _new(given: Mapping[str, Any]) -> Body:
    return {
        "run_key": given["run_key"],
        "workspace_id": given["trigger"]["workspace_id"],
        "trigger": None,
        "decision_id": None,
        "known": {},
        "attempts": [],
        "done": {},
        "results": {},
        "cursor": None,
        "outputs": {},
        "spent": 0,
        "stop": None,
    }


def setting_of(turn: Turn, body: Body) -> Setting:
    """The run as its actions see it."""
    trigger = turn.read(body["trigger"])
    results = {name: _value(turn, held) for name, held in body["results"].items()}
    return Setting(
        turn.definition(trigger["definition_hash"]),
        trigger,
        turn.manifest(trigger["inputs"]),
        body["attempts"][-1]["run_id"] if body["attempts"] else "",
        body["run_key"],
        results,
        {**body["known"], **_written(body)},
    )


def _written(body: Body) -> dict[str, str | None]:
    """What this attempt has written so far: it may be replaced by a later action."""
    actions = body["attempts"][-1]["actions"] if body["attempts"] else []
    return {path: post_id for action in actions for path, post_id in action["outputs"]}


def _value(turn: Turn, held: Mapping[str, Any]) -> Any:
    return turn.read(held) if "blob" in held else held["value"]


# ---- beginning ------------------------------------------------------------------------------


def _start(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    last = body["attempts"][-1] if body["attempts"] else None
    trigger = given["trigger"]
    if last is not None and not guards.is_terminal(last):
        tell(turn, trigger, Told("attached", None, "run_key"))
        turn.emit("RunSettled", settled(trigger, body["run_key"], "refused", code="attached"))
        return
    if last is not None and given["kind"] == "run" and _stands(last):
        tell(turn, trigger, Told("reused_failure", last["code"], "run_key"))
        told = settled(trigger, body["run_key"], "refused", code="reused_failure")
        turn.emit("RunSettled", told)
        return
    body["trigger"] = turn.keep_trigger(trigger)
    body["decision_id"] = given["decision_id"] or body["decision_id"]
    body["known"] = {row["path"]: row["post_id"] for row in given["outputs"]}
    if last is not None and last["state"] == runs.COMPLETE:
        check(turn, body, setting_of(turn, body))
        _ended_check(turn, body)
    else:
        _begin(turn, body, "run" if last is None else "retry")


def _stands(last: Mapping[str, Any]) -> bool:
    """True for an attempt whose failure is the answer until somebody asks for a retry."""
    return last["state"] != runs.COMPLETE and not runs.is_overtaken(last)


def _begin(turn: Turn, body: Body, kind: str) -> None:
    number = len(body["attempts"]) + 1
    started = {"kind": kind, "decision_id": body["decision_id"], "now_ns": turn.now_ns}
    trigger = turn.read(body["trigger"])
    body["attempts"].append(runs.new_attempt(trigger, body["run_key"], number, started))
    body["results"], body["stop"] = {}, None
    body["cursor"] = {"at": 0, "open": {}, "bytes": 0}
    definition = turn.definition(trigger["definition_hash"])
    if guards.is_fan_out(definition):
        finish(turn, body, runs.FAILED, "fanout_cap")
        return
    _advance(turn, body)
    if body["cursor"] is not None:
        turn.timer(f"end:{number}", turn.now_ns + definition["limits"]["duration_ms"] * MS)
        body["cursor"] = {**body["cursor"], "timed": True}


# ---- going on -------------------------------------------------------------------------------


def _advance(turn: Turn, body: Body) -> None:
    """Act until something has to be waited for, or the attempt ends."""
    while body["cursor"] is not None and not body["cursor"]["open"]:
        setting = setting_of(turn, body)
        at = body["cursor"]["at"]
        if body["stop"] is not None:
            finish(turn, body, runs.ABORTED, body["stop"])
        elif at == len(setting.definition["actions"]):
            finish(turn, body, runs.COMPLETE, None)
        else:
            ended = act(turn, body, setting, at)
            if ended is not None:
                _note(turn, body, setting.definition, ended)


def _note(turn: Turn, body: Body, definition: Definition, ended: Ended) -> None:
    """Put an ended action into the attempt, and see whether the attempt goes on."""
    body["attempts"][-1] = runs.append(body["attempts"][-1], recorded(ended, turn.now_ns))
    name = ended["name"]
    body["cursor"] = {**body["cursor"], "at": ended["ordinal"] + 1, "open": {}}
    if ended["status"] != "failed":
        body["results"][name] = ended["held"]
        if ended["status"] == "ok":
            body["done"][name] = {"action_key": ended["action_key"], "held": ended["held"]}
            for path, post_id in ended["outputs"]:
                body["known"][path] = post_id  # a later action may replace what this run wrote
                held = None if post_id is None else {"blob": post_id}
                body["outputs"][path] = {"action": name, "post_id": post_id, "held": held}
        return
    action = definition["actions"][ended["ordinal"]]
    if ended["code"] == "input_moved":
        finish(turn, body, runs.ABORTED, "input_moved")
    elif action["on_error"] == "fail":
        finish(turn, body, runs.FAILED, ended["code"])
    else:
        failed = {"status": "failed", "code": ended["code"]}
        body["results"][name] = {"value": failed}


# ---- ending ---------------------------------------------------------------------------------


# tidy: two events, all of their fields.
def finish(turn: Turn, body: Body, state: str, code: str | None) -> None:
    """End the attempt, and tell the lane, the workspace and whoever asks where things are from."""
    setting = setting_of(turn, body)
    ended = {"now_ns": turn.now_ns, "code": code, "result": None}
    attempt = runs.finish(body["attempts"][-1], state, ended)
    body["attempts"][-1] = attempt
    _stop_clock(turn, body)
    body["cursor"] = None
    made: dict[str, list[Any]] = {}
    for action in attempt["actions"]:
        made.setdefault(action["name"], []).extend(action["outputs"])
    outputs = [
        {"path": path, "post_id": post_id} for rows in made.values() for path, post_id in rows
    ]
    outcome = "replayed" if attempt["kind"] == "replay" and state == runs.COMPLETE else state
    if attempt["kind"] == "replay":
        tell(turn, setting.trigger, Told(outcome, code, "run_key"))
    turn.emit(
        "RunSettled",
        settled(
            setting.trigger,
            body["run_key"],
            outcome,
            run_id=attempt["run_id"],
            attempt=attempt["attempt"],
            kind=attempt["kind"],
            code=code,
            tokens=body["spent"],
            outputs=outputs,
        ),
    )
    _tell_asker(turn, setting.trigger, outcome)
    body["spent"] = 0
    told = runs.provenance(attempt, setting.trigger, setting.manifest, made)
    turn.emit(
        "Provenance",
        {
            "provenance_id": text(
                H(told["$type"], **{k: v for k, v in told.items() if k != "$type"})
            ),
            "workspace_id": body["workspace_id"],
            "run_id": attempt["run_id"],
            "object": told,
        },
    )


def _stop_clock(turn: Turn, body: Body) -> None:
    """A timer that nobody waits for would keep the world from resting."""
    if (body["cursor"] or {}).get("timed", False):
        turn.cancel(f"end:{len(body['attempts'])}")


def _ended_check(turn: Turn, body: Body) -> None:
    """The outputs were looked at: they stand, or the recorded bytes are written again."""
    if body["cursor"] is not None:
        return
    trigger = turn.read(body["trigger"])
    tell(turn, trigger, Told("reused", None, "run_key"))
    last = body["attempts"][-1]
    told = settled(
        trigger, body["run_key"], "reused", run_id=last["run_id"], attempt=last["attempt"]
    )
    turn.emit("RunSettled", {**told, "kind": "replay"})
    _tell_asker(turn, trigger, "reused")


# ---- receipts and control -------------------------------------------------------------------


def _receipt(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    ref = given["issuer_ref"] or ""
    word, _, rest = ref.partition(":")
    cursor = body["cursor"]
    if word == "cancelled":
        return
    if word == "end":
        if cursor is not None and "open" in cursor and int(rest) == len(body["attempts"]):
            body["cursor"] = {**cursor, "timed": False}
            finish(turn, body, runs.FAILED, "run.timeout")
    elif cursor is None or ref not in cursor.get("open", cursor.get("reads", {})):
        _late(turn, body, ref)
    elif word == "check":
        if checked(turn, body, ref, outcome_of(turn, given)):
            _ended_check(turn, body)
    elif word == "restore":
        done = restored(turn, body, ref, outcome_of(turn, given))
        if done is not None:
            finish(turn, body, *done)
    elif not gathered(turn, body, ref, outcome := outcome_of(turn, given)):
        setting = setting_of(turn, body)
        ended = took(turn, body, setting, (ref, outcome))
        if ended is not None:
            _note(turn, body, setting.definition, ended)
            _advance(turn, body)


def _late(turn: Turn, body: Body, ref: str) -> None:
    """G7: what comes after the end is refused; its receipt stays as evidence in the journal."""
    try:
        runs.append(body["attempts"][-1], {"name": ref})
    except runs.TerminalRunError:
        tell(turn, turn.read(body["trigger"]), LATE)


def _rejected(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    """An unreadable receipt ends the action with an error."""
    failed = {"status": "failed", "code": given["error_code"], "message": given["error_message"]}
    cursor, ref = body["cursor"], given["issuer_ref"] or ""
    if cursor is not None and ref in cursor.get("open", {}):
        setting = setting_of(turn, body)
        ended = took(turn, body, setting, (ref, {**failed, "intent": given["intent_hash"]}))
        if ended is not None:
            _note(turn, body, setting.definition, ended)
            _advance(turn, body)


def _controlled(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    last = body["attempts"][-1]
    if given["verb"] == "abort":
        if not guards.is_terminal(last) and "at" in (body["cursor"] or {}):
            body["stop"] = given["reason"]
            _advance(turn, body)
    elif given["verb"] == "ended":
        _awaited(turn, body, given)
    elif given["verb"] == "retry" and guards.is_terminal(last) and body["cursor"] is None:
        if last["state"] == runs.COMPLETE:
            check(turn, body, setting_of(turn, body))
            _ended_check(turn, body)
        else:
            _begin(turn, body, "retry")


def _awaited(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    """The reaction that an action waits for has ended."""
    cursor, ref = body["cursor"], given["principal"]
    if cursor is None or ref not in cursor.get("open", {}):
        return
    outcome: dict[str, Any] = {"status": "ok", "payload": {"outcome": given["reason"]}}
    if given["reason"] not in ("complete", "reused", "replayed"):
        failed = {"status": "failed", "code": "frame.generate", "message": given["reason"]}
        outcome = failed
    setting = setting_of(turn, body)
    ended = took(turn, body, setting, (ref, {**outcome, "intent": None}))
    assert ended is not None, "who waits for a reaction waits for nothing else"
    _note(turn, body, setting.definition, ended)
    _advance(turn, body)


def _tell_asker(turn: Turn, trigger: Mapping[str, Any], outcome: str) -> None:
    """Send the word of this run's end to the run that waits for it, if one does."""
    key = "" if trigger["command"] is None else trigger["command"]["key"]
    if key.startswith(WAITS):
        run_key, _, ref = key.removeprefix(WAITS).partition("#")
        told = {"run_key": run_key, "verb": "ended", "reason": outcome, "principal": ref}
        turn.emit("RunControl", told)


_TAKE: Final = {
    "Start": _start,
    "Controlled": _controlled,
    "Receipt": _receipt,
    "Rejected": _rejected,
}
