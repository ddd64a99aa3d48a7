"""The built-in workflow `sys/playbook@1`: one cell plays one execution (07 section 10).

A tick takes one event, changes the net, and answers with the next state, the effects to ask for
and what happened, as the tick's annotation.
It is a function of state, event and context alone; stored values are read by hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tallystick.playbooks import child, ends, files, routes
from tallystick.playbooks.net import ROOT, Net, new_state
from tallystick.playbooks.plan import Plan, plan_named, plan_of
from tallystick.playbooks.play import (
    ASK,
    DEADLINE,
    STEP,
    TIMER,
    Asked,
    Play,
    Settled,
    iteration_of,
)
from tallystick.playbooks.tasks import failure
from tallystick.playbooks.values import Content, Values
from tallystick.playbooks.written import Memory, Written, whole_of, written
from tallystick.values import canon

SIGNALS_MAX: Final = 64


class Answer(NamedTuple):
    """What a tick of an execution answers, in plain values."""

    wrote: Written
    net: dict[str, Any]
    asked: list[Asked]
    trace: list[dict[str, Any]]
    blobs: dict[str, bytes]
    done: str | None
    result: Any
    plan: Plan
    ended: list[str]
    memory: Memory


def interpret(
    state: Mapping[str, Any] | None,
    event: Mapping[str, Any],
    now_ns: int,
    content: Content,
    memory: Memory | None = None,
) -> Answer:
    """One tick; `event` is the plain value of `sys/PlaybookEvent@1`.

    With `memory`, how it was written, the state is the whole one that a tick has left there.
    """
    values = Values(content)
    tag, given = event["$tag"], event["$value"]
    if state is None:
        assert tag == "Requested", "an execution begins with its request"
        return _begin(given, now_ns, values)
    apart = state["held"][0] if state["loops"] else None
    if memory is None:
        state, memory = whole_of(state, content), Memory()
    elif apart is not None:
        content(apart)  # what it names may be read once it was read itself
    doc = state["doc"]
    net = Net(state["net"], state["loops"], plan_named(doc, content), values)
    play = Play(net, now_ns, doc)
    if net.state["phase"] != "done":
        _TAKE[tag](play, given)
    return _answer(play, memory, apart)


def _begin(given: Mapping[str, Any], now_ns: int, values: Values) -> Answer:
    data = given["document"]
    doc = canon.hash_of(data)
    values.made[doc] = data
    plan = plan_of(data)
    workload = merged(plan.document["workload"], given["workload"] or {})
    state = new_state(given["execution"], values.keep(workload))
    state["principal"] = given["principal"]
    state["parent"] = given["parent"]
    play = Play(Net(state, {}, plan, values), now_ns, doc)
    play.net.note("playbook.started", by=given["principal"])
    deadline = plan.spec["deadline_ns"]
    if deadline is not None:
        params = {"deliver_at_ns": now_ns + deadline, "key": None}
        play.asked.append(Asked(TIMER, params, DEADLINE))
    play.net.token(plan.spec["entry_step"], ROOT, {"from": None, "run": None})
    play.drain()
    return _answer(play, Memory())


def merged(defaults: Any, given: Any) -> Any:
    """The request over the defaults: maps deep, everything else replaced."""
    if isinstance(defaults, Mapping) and isinstance(given, Mapping):
        both = {**defaults, **given}
        return {
            key: merged(defaults[key], given[key]) if key in defaults and key in given else value
            for key, value in both.items()
        }
    return given


def _answer(play: Play, memory: Memory, apart: str | None = None) -> Answer:
    """What a tick answers; `apart` is where its net stood before, if not in the state."""
    state = play.state
    done = state["status"] if state["phase"] == "done" else None
    result = None
    if done is not None:
        step = (state["parent"] or {}).get("return_step") or state["last"]
        last = state["results"].get(step or "")
        result = {
            "execution": state["execution"],
            "status": done,
            "step": step,
            "value": None if last is None else last["v"],
            **files.outputs(state),
        }
    wrote = written(play.doc, state, play.net.loops, memory, apart)
    lasting = play.values.lasting
    made = {
        name: data
        for name, data in play.values.made.items()
        if name in wrote.held or name in lasting or name == play.doc
    }
    told = (play.asked, play.net.trace, made | wrote.blobs, done, result, play.plan, play.ended)
    return Answer(wrote, state, *told, memory)


# ---- what comes in --------------------------------------------------------------------------


def _patched(play: Play, given: Mapping[str, Any]) -> None:
    play.net.set_ctx(given["set"] or {}, given["principal"])
    for key in given["unset"]:
        if play.state["ctx"].pop(key, None) is not None:
            play.net.changed[key] = play.net.changed["ctx"] = None
    play.net.note("ctx.patch", by=given["principal"], reason=given["reason"])
    play.drain()


def _signalled(play: Play, given: Mapping[str, Any]) -> None:
    for run in play.state["runs"].values():
        for ref, unit in list(run["open"].items()):
            wish = unit.get("wish", {})
            if wish.get("kind") == "signal" and wish["name"] == given["name"]:
                play.resume(ref, unit, {"status": "ok", "result": given["value"]})
                play.drain()
                return
    waiting = play.state["signals"].setdefault(given["name"], [])
    if sum(len(rows) for rows in play.state["signals"].values()) < SIGNALS_MAX:
        waiting.append(play.values.keep(given["value"]))
    else:
        play.net.note("signal.dropped", name=given["name"])


def _cancelled(play: Play, given: Mapping[str, Any]) -> None:
    ends.cancel(play, given["reason"], given["principal"])


def _again(play: Play, _given: Mapping[str, Any]) -> None:
    play.net.note("request.again")


def _rejected(play: Play, given: Mapping[str, Any]) -> None:
    error = failure("schema", given["error_code"], given["error_message"])
    _settle(play, given["issuer_ref"] or "", {"status": "error", "error": error})


def _receipt(play: Play, given: Mapping[str, Any]) -> None:
    ref, status = given["issuer_ref"] or "", given["status"]["$tag"]
    payload = canon.decode(given["receipt_payload"])
    if ref == DEADLINE:
        if status == "ok" and play.state["phase"] in ("running", "waiting"):
            ends.stop(play, "P407", "the deadline has passed")
            play.drain()
        return
    outcome: dict[str, Any]
    if status != "ok":
        outcome = {"status": "error", "error": _error(status, payload)}
    elif given["effect"] == STEP:
        outcome = {"status": "step", "step": payload}
    elif given["effect"] == ASK:
        answer = payload["answer"] if payload["choice"] is None else payload["choice"]
        outcome = {"status": "ok", "result": answer, "meta": {"principal": payload["by"]}}
    elif given["effect"] == child.CALL:
        outcome = child.answered(play, payload)
    elif given["effect"] in files.EFFECTS:
        outcome = files.answered(play, given["effect"], payload)
    elif given["effect"] == child.READ:
        outcome = {"status": "found", "payload": payload}
    else:
        outcome = {"status": "time"}
    _settle(play, ref, outcome)


def _error(status: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    if status == "denied":
        rule = {"rule": payload["rule"], "path": payload["path"]}
        return failure("denied", payload["code"], payload["message"], **rule)
    kind: str = status if status in ("timeout", "cancelled") else payload["kind"]
    if kind in ("crash", "no_outcome", "outcome_unknown"):
        kind = "worker_lost"
    return failure(kind, payload["code"], payload["message"], retryable=payload["retryable"])


def _settle(play: Play, ref: str, outcome: dict[str, Any]) -> None:
    """Give an outcome to the unit that waits under a reference; a late one finds nobody."""
    name = ref.partition("#")[0].partition("/")[0]
    unit = _open_unit(play, name, ref)
    if unit is not None:
        if outcome["status"] == "found":
            _found(play, name, ref, outcome["payload"])
        elif "wish" in unit:
            play.resume(ref, unit, _waited(play, unit["wish"], outcome))
        else:
            _step(play, name, unit, outcome)
    play.drain()


def _found(play: Play, name: str, ref: str, payload: Mapping[str, Any]) -> None:
    """The catalogue has told of a child: call it, or tell its task that there is none."""
    unit = play.state["runs"][name]["open"][ref]
    outcome = child.found(unit, payload)
    if outcome is not None:
        play.resume(ref, unit, outcome)
        return
    del play.state["runs"][name]["open"][ref]
    play.wait(name, unit)


def _open_unit(play: Play, name: str, ref: str) -> dict[str, Any] | None:
    """The unit that waits under a reference; a plain iteration is taken out of its loop."""
    run = play.state["runs"].get(name)
    if run is None:
        return None
    unit: dict[str, Any] | None = run["open"].get(ref)
    if unit is not None:
        if "wish" not in unit:
            del run["open"][ref]
        return unit
    i = iteration_of(ref)
    at = play.net.loops.get(name)
    if at is None or i is None or i not in at["open"]:
        return None
    at["open"].remove(i)
    return {"i": i, "k": 1}


def _waited(play: Play, wish: Mapping[str, Any], outcome: dict[str, Any]) -> dict[str, Any]:
    if outcome["status"] != "time":
        return outcome
    if wish["kind"] == "signal":
        message = f"no signal {wish['name']} came in time"
        return {"status": "error", "error": failure("timeout", "wait.timeout", message)}
    since = wish.get("since_ns", play.now_ns)
    return {"status": "ok", "result": {"waited_s": (play.now_ns - since) / 10**9}}


def _step(play: Play, name: str, unit: dict[str, Any], outcome: dict[str, Any]) -> None:
    """A worker has answered for a unit."""
    i = unit["i"]
    empty: dict[str, Any] = {"ctx": {}, "results": {}}
    if outcome["status"] != "step":
        routes.settle_unit(play, name, i, Settled(None, outcome["error"], empty))
        return
    told = outcome["step"]
    if told["status"] == "yield":
        play.wait(name, {**unit, "frame": told["frame"], "wish": told["wish"]})
        return
    frame = {"ctx": told["patches"] or {}, "results": told["results"] or {}}
    kept = None
    if told["ref"] is not None:
        kept = {"h": told["ref"], "n": told["size"], "shell": told["result"]}
    error = told["error"]
    if error is not None and told["tasks"]:
        error = {**error, "attempts": told["tasks"][-1]["attempts"]}
    routes.settle_unit(play, name, i, Settled(told["result"], error, frame, kept))


_TAKE: Final = {
    "Requested": _again,
    "Patched": _patched,
    "Signalled": _signalled,
    "Cancel": _cancelled,
    "Ended": _cancelled,
    "Rejected": _rejected,
    "Receipt": _receipt,
}
