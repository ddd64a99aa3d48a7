"""Faults: whatever module code does, the cell pays and nobody else."""

# tidy: every fault code stands in one table.
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.errors import LimitExceeded, TickFault
from tallystick.kernel.inputs import Activate, Planned
from tallystick.kernel.tick import NOTE_BYTES_MAX
from tallystick.model.cells import FAILED, RUNNING, SUSPENDED
from tallystick.model.records import EventAdmitted, ReceiptSettled, Ticked, WorkflowFaulted
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import Rig, bundle_of, check
from tests.worlds import (
    ASK,
    FAULT,
    GO,
    LAB,
    WATCH,
    WATCHING,
    ask,
    go,
    lab_documents,
    lab_function,
    module,
    opt,
    record,
    schema,
    watch_documents,
    watch_function,
)

CODE = ("t/code@1", "lab")
WAYS = [{"event": GO, "workflow": LAB, "key_field": "id"}, *WATCHING]
Deed = Callable[[Any, Any, Any], Any]


def raising(code: str) -> Deed:
    """What a lane that meters or watches its code would raise."""

    def run(_following: Any, _value: Any, _ctx: Any) -> Outcome:
        if code in ("fuel", "history_max", "inbox_max"):
            raise LimitExceeded(code, 10, 11)
        raise TickFault("the lane says no", code=code)

    return run


def crashing(_following: Any, _value: Any, _ctx: Any) -> Outcome:
    raise ValueError("bug")


def answering(**given: Any) -> Deed:
    return lambda following, _value, _ctx: Outcome(following, **given)


def echo(following: Any, _value: Any, _ctx: Any) -> Outcome:
    """Go on for ever: each tick sends the next."""
    return Outcome(following, events=[{"schema": GO, "value": go(following["id"], "bad")}])


def event(text: str = "note", **more: Any) -> dict[str, Any]:
    return {"schema": GO, "value": go("z", text), **more}


LOG = {"level": "info", "message": "m"}
# code -> (limits, deed): the smallest tick that ends in it.
FAULTS: dict[str, tuple[dict[str, int], Deed]] = {
    "fuel": ({}, raising("fuel")),
    "effects_max": ({"effects_max": 2}, answering(effects=[ask()] * 3)),
    "events_max": ({"events_max": 2}, answering(events=[event()] * 3)),
    "event_bytes_max": ({"event_bytes_max": 64}, answering(events=[event("x" * 99)])),
    "output_bytes_max": ({"output_bytes_max": 300}, answering(effects=[ask("x" * 400)])),
    "state_bytes_max": (
        {"state_bytes_max": 200},
        lambda following, _v, _c: Outcome({"id": following["id"], "log": ["x" * 300]}),
    ),
    "inflight_max": ({"inflight_max": 2}, answering(effects=[ask()] * 3)),
    "hops_max": ({"hops_max": 5}, echo),
    "logs_max": ({"logs_max": 1}, answering(logs=[LOG] * 2)),
    "metrics_max": ({"metrics_max": 1}, answering(metrics={"a": 1, "b": 2})),
    "history_max": ({}, raising("history_max")),
    "inbox_max": ({}, raising("inbox_max")),
    "trap": ({}, raising("trap")),
    "exception": ({}, crashing),
    "bad_output": ({}, lambda _f, _v, _c: Outcome({"id": 7})),
    "bad_key": ({}, answering(events=[event(key=canon.encode("other"))])),
    "set_order": ({}, raising("set_order")),
    "foreign_await": ({}, raising("foreign_await")),
    "checkpoint_busy": ({}, raising("checkpoint_busy")),
    "nondeterministic": ({}, raising("nondeterministic")),
}
# What a tick may just do under these limits; a log entry has a size of its own.
WHOLE = {**LOG, "message": "x" * (NOTE_BYTES_MAX - len(canon.encode(LOG)) - 1)}
WHOLE["message"] += "x" * (NOTE_BYTES_MAX - len(canon.encode(WHOLE)))
assert len(canon.encode(WHOLE)) == NOTE_BYTES_MAX
ENOUGH: dict[str, Deed] = {
    "effects_max": answering(effects=[ask()] * 2),
    "events_max": answering(events=[event()] * 2),
    "inflight_max": answering(effects=[ask()] * 2),
    "logs_max": answering(logs=[WHOLE]),
    "metrics_max": answering(metrics={"a": 1}),
}
LIMITS = [name for name in FAULTS if name.endswith("_max") or name == "fuel"]


def lab(bad: Deed, *, on_fault: str = "fail", limits: Any = None, **more: Any) -> Rig:
    def asking(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[ask()])

    functions = {
        CODE: lab_function(bad=bad, ask=asking),
        ("t/code@1", "watch"): watch_function,
        **more.pop("functions", {}),
    }
    documents = lab_documents(
        *watch_documents(),
        *more.pop("extra", ()),
        subscriptions=more.pop("ways", WAYS),
        flow={"on_fault": on_fault, **more.pop("flow", {})},
        limits=limits or {},
        **more,
    )
    return Rig(documents, functions)


def judge_fault(rig: Rig, code: str, on_fault: str, neighbour: Any) -> None:
    """What KN-04 says of every fault, whatever its code."""
    (fault,) = rig.records(WorkflowFaulted)
    cell = rig.cell(LAB, "a")
    assert fault.code == code
    assert fault.action == ("failed" if on_fault == "fail" else "suspended")
    assert cell.status == (FAILED if on_fault == "fail" else SUSPENDED)
    assert len(cell.mailbox) == (0 if on_fault == "fail" else 2)
    if on_fault == "suspend":
        assert (cell.mailbox[0].seq, cell.mailbox[0].index) == (fault.input_seq, fault.input_index)
    mine = [t.after for t in rig.records(Ticked) if t.key == canon.encode("a")]
    assert cell.state_hash == mine[-1]
    assert rig.cell(LAB, "b").state_hash == neighbour
    assert rig.cell(LAB, "b").status == RUNNING
    assert len(rig.cell(LAB, "b").inflight) == 1
    assert rig.cell(LAB, "z") is None
    (told,) = [e for e in rig.records(EventAdmitted) if e.schema == FAULT]
    value = canon.decode(told.value)
    assert (value["workflow"], value["code"], value["input_seq"]) == (LAB, code, fault.input_seq)
    heard = [f"Fault:{code}"] + (["Done:failed"] if on_fault == "fail" else [])
    assert rig.state(WATCH)["log"] == heard
    again = [r for r in rig.folded().recent if r]
    assert again == list(rig.world.recent)
    check(rig)


@pytest.mark.clause("K-08", "X-03", "X-04")
@pytest.mark.invariant("I15", "I16")
@pytest.mark.parametrize("on_fault", ["fail", "suspend"])
@pytest.mark.parametrize("code", FAULTS)
def test_fault(code: str, on_fault: str) -> None:
    """KN-04: journaled, failed or suspended as declared, state and neighbours untouched.

    Verification runs the tick again and finds the same fault at the same seq.
    """
    limits, bad = FAULTS[code]
    rig = lab(bad, on_fault=on_fault, limits=limits)
    if code == "nondeterministic":
        on_fault = "suspend"  # a tick with two answers says nothing about the cell: it is kept
    rig.send(GO, go("b", "ask"))
    rig.send(GO, go("a", "ask"))
    neighbour = rig.cell(LAB, "b").state_hash
    rig.send(GO, go("a", "bad"), run=False)
    rig.driver.tick()
    if code != "hops_max":
        rig.send(GO, go("a", "after"), run=False)
    rig.run()
    if code == "hops_max" and on_fault == "suspend":
        rig.send(GO, go("a", "after"))
    judge_fault(rig, code, on_fault, neighbour)
    (fault,) = rig.records(WorkflowFaulted)
    if code in LIMITS:
        assert fault.limit["name"] == code
        assert fault.limit["got"] > fault.limit["max"]
    said = [r.status for r in rig.records(ReceiptSettled)]
    assert said == (["cancelled"] if on_fault == "fail" else [])


@pytest.mark.clause("X-04", "X-26")
def test_suspended_fault_is_mended() -> None:
    """KN-04: after a fault an operator resumes (it faults again) or skips the entry."""
    rig = lab(crashing, on_fault="suspend")
    rig.send(GO, go("a"))
    rig.send(GO, go("a", "bad"))
    rig.send(GO, go("a", "after"))
    rig.operate("resume", LAB, "a")
    assert rig.cell(LAB, "a").status == SUSPENDED
    assert len(rig.records(WorkflowFaulted)) == 2
    rig.operate("skip", LAB, "a")
    rig.operate("resume", LAB, "a")
    assert rig.state(LAB, "a")["log"] == ["note", "after"]
    check(rig)


# ---- faults from definitions ----------------------------------------------------------------

OLD = "t/Was@1"


def upcasting(**functions: Any) -> dict[str, Any]:
    """The lab with an older event schema and an upcast from it."""
    pure = {"pure": {"up": {"input": OLD, "output": GO}}}
    return {
        "extra": [
            schema(OLD, record(id={"text": {}}, what=opt({"text": {}}))),
            module("t/pure@1", **pure),
            {
                "$kind": "defupcast",
                "name": "t/up@1",
                "from": OLD,
                "to": GO,
                "impl": {"module": "t/pure@1", "entrypoint": "up"},
            },
        ],
        "functions": {("t/pure@1", "up"): functions["up"]},
    }


def up(given: Any) -> Any:
    old = given["input"]
    return {"output": {"id": old["id"], "do": old["what"], "n": 0}}


@pytest.mark.clause("X-20")
@pytest.mark.parametrize("on_fault", ["fail", "suspend"])
def test_upcast_failed(on_fault: str) -> None:
    """KN-04: an upcast that fails is the cell's fault at its tick; the journal keeps the event."""
    rig = lab(crashing, on_fault=on_fault, **upcasting(up=up))
    rig.send(GO, go("b", "ask"))
    rig.send(OLD, {"id": "a", "what": "first"})
    neighbour = rig.cell(LAB, "b").state_hash
    rig.send(OLD, {"id": "a", "what": None}, run=False)
    rig.send(GO, go("a", "after"), run=False)
    rig.run()
    judge_fault(rig, "upcast_failed", on_fault, neighbour)
    kept = [e for e in rig.records(EventAdmitted) if e.schema == OLD]
    assert canon.decode(kept[-1].value) == {"id": "a", "what": None}


@pytest.mark.clause("X-20", "K-35")
@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_failed_upcast_waits(how: str) -> None:
    """An entry whose upcast failed may be dropped unread when its cell ends before."""
    rig = lab(lambda *_: Outcome(None), **upcasting(up=up))
    rig.send(GO, go("a"))
    rig.send(GO, go("a", "bad"), run=False)
    rig.send(OLD, {"id": "a", "what": None}, run=False)
    if how == "cancel":
        rig.operate("cancel", LAB, "a", force=True)
        assert rig.cell(LAB, "a").status == FAILED
    rig.run()
    check(rig)


@pytest.mark.clause("X-21", "K-08")
@pytest.mark.parametrize("on_fault", ["fail", "suspend"])
def test_migration_failed(on_fault: str) -> None:
    """KN-04: a state of a version that the new code does not read is a fault, not a guess."""
    rig = lab(crashing, on_fault=on_fault)
    rig.send(GO, go("b", "ask"))
    rig.send(GO, go("a", "ask"))
    neighbour = rig.cell(LAB, "b").state_hash
    manifest, blobs = bundle_of(
        lab_documents(
            *watch_documents(),
            subscriptions=WAYS,
            flow={"on_fault": on_fault, "state_version": 2},
        )
    )
    cells = {name: rig.cell(LAB, name) for name in "ab"}
    plan = {(LAB, canon.encode(name)): Planned(cell.last_seq) for name, cell in cells.items()}
    sample = rig.clock.sample()
    given = Activate(sample, manifest, manifest, rig.manifest, blobs, "alice", plan=plan)
    assert rig.do(given).kind == "activated"
    rig.send(GO, go("a", "next"), run=False)
    rig.send(GO, go("a", "after"), run=False)
    rig.run()
    # Whatever the cell declares: a failed upgrade ends no cell (06 section 9).
    judge_fault(rig, "migration_failed", "suspend", neighbour)


# ---- hostile code ---------------------------------------------------------------------------


class MuteError(Exception):
    """An exception that cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def dying(error: BaseException) -> Deed:
    def run(_following: Any, _value: Any, _ctx: Any) -> Outcome:
        raise error

    return run


HOSTILE: dict[str, tuple[str, Deed]] = {
    "no words": ("exception", dying(MuteError())),
    "half a character": ("exception", dying(ValueError("\ud800"))),
    "long words": ("exception", dying(ValueError("x" * 100_000))),
    "deep": ("exception", dying(RecursionError("deep"))),
    "own code": ("exception", dying(TickFault("mine", code="made.up"))),
    "not an outcome": ("bad_output", lambda *_: object()),
    "a set": ("bad_output", lambda f, *_: {"id": f["id"], "log": {"x"}}),
    "half a text": ("bad_output", lambda f, *_: {"id": "\ud800", "log": []}),
    "unknown status": ("bad_output", lambda f, *_: Outcome(f, status="resting")),
    "reason alone": ("bad_output", lambda f, *_: Outcome(f, reason={"code": "x", "message": ""})),
    "result alone": ("bad_output", lambda f, *_: Outcome(f, result=1)),
    "failed without reason": ("bad_output", lambda f, *_: Outcome(f, status=FAILED)),
    "unknown event": ("bad_output", answering(events=[{"schema": "t/No@1", "value": 1}])),
    "system event": ("bad_output", answering(events=[{"schema": FAULT, "value": {}}])),
    "ill-typed event": ("bad_output", answering(events=[{"schema": GO, "value": {}}])),
    "event field": ("bad_output", answering(events=[event(more=1)])),
    "effect field": ("bad_output", answering(effects=[{**ask(), "more": 1}])),
    "long key": ("bad_output", answering(effects=[ask(idempotency_key=b"x" * 129)])),
    "negative timeout": ("bad_output", answering(effects=[ask(timeout_ns=-1)])),
    "log level": ("bad_output", answering(logs=[{"level": "loud", "message": "m"}])),
    "annotations": ("bad_output", answering(ann={"x": 1})),
    "long log": ("logs_max", answering(logs=[{"level": "info", "message": "x" * 2000}])),
    "half a tag": ("exception", answering(events=[event(tags=["\ud800"])])),
}


@pytest.mark.clause("K-08", "K-34", "X-04")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    """K-08: no answer and no exception of a module stops the world."""
    code, bad = HOSTILE[name]
    rig = lab(bad)
    rig.send(GO, go("a"))
    rig.send(GO, go("a", "bad"))
    (fault,) = rig.records(WorkflowFaulted)
    assert fault.code == code
    assert len(fault.message) <= 1024
    assert rig.state(LAB, "a")["log"] == ["note"]
    rig.send(GO, go("b"))
    assert rig.state(LAB, "b")["log"] == ["note"]
    check(rig)


@pytest.mark.clause("X-10")
def test_endless_timeout() -> None:
    """A timeout beyond all time is an open end, not a crash."""
    rig = lab(answering(effects=[ask(timeout_ns=2**64 - 1)]))
    rig.send(GO, go("a", "bad"))
    assert len(rig.jobs.of(ASK)) == 1
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"})
    assert rig.state(LAB, "a")["log"] == ["bad", "ok:"]
    check(rig)


@pytest.mark.clause("K-08", "X-01")
@pytest.mark.parametrize("answer", [{"output": {"id": 7}}, {"wrong": 1}, None])
def test_init_function_fails(answer: Any) -> None:
    """A tick whose event needs a first state that cannot be made faults; the world goes on."""
    way = {
        "event": GO,
        "workflow": LAB,
        "key_field": "id",
        "init_fn": {"module": "t/pure@1", "entrypoint": "first"},
    }

    def first(given: Any) -> Any:
        ident = given["input"]["id"]
        return answer if ident == "z" else {"output": {"id": ident, "log": ["born"]}}

    pure = {"pure": {"first": {"input": GO, "output": "t/State@1"}}}
    rig = lab(
        answering(events=[event()]),
        ways=[way],
        extra=[module("t/pure@1", **pure)],
        functions={("t/pure@1", "first"): first},
    )
    rig.send(GO, go("a"))
    assert rig.state(LAB, "a")["log"] == ["born", "note"]
    rig.send(GO, go("a", "bad"))
    assert [f.code for f in rig.records(WorkflowFaulted)] == ["bad_key"]
    assert rig.cell(LAB, "z") is None
    check(rig)


@pytest.mark.clause("X-03")
@pytest.mark.parametrize("name", ENOUGH)
def test_a_limit_may_be_reached(name: str) -> None:
    """KN-04: a limit is the most that is allowed; only what passes it is a fault."""
    rig = lab(ENOUGH[name], limits=FAULTS[name][0])
    rig.send(GO, go("a", "bad"))
    assert rig.records(WorkflowFaulted) == []
    assert rig.state(LAB, "a")["log"] == ["bad"]
    check(rig)
