"""How cells end, rest, wait and begin again, with intents open or not."""

# tidy: the ways to end and to begin again are compared with each other.
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.kernel.inputs import Operate
from tallystick.model.cells import COMPLETED, FAILED, RUNNING, SUSPENDED
from tallystick.model.records import (
    CellCancelRequested,
    CellFailed,
    CellResumed,
    CellSkipped,
    CellSuspended,
    Dropped,
    EventAdmitted,
    IntentAttached,
    IntentOpened,
    ReceiptSettled,
    Ticked,
)
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import Rig, check, refused
from tests.worlds import (
    ASK,
    GO,
    LAB,
    LAB_ARMS,
    READ,
    ask,
    go,
    lab_documents,
    lab_function,
)

CODE = ("t/code@1", "lab")
COMPLETION = "sys/WorkflowCompleted@1"
Deed = Callable[[Any, Any, Any], Outcome]


def deed(status: str = RUNNING, *effects: Any, delete: bool = False, **more: Any) -> Deed:
    """A deed with a fixed outcome."""
    reason = {"code": "t.gave_up", "message": "gave up"} if status == FAILED else None

    def run(following: Any, _value: Any, _ctx: Any) -> Outcome:
        state = None if delete else following
        return Outcome(state, status=status, reason=reason, effects=list(effects), **more)

    return run


def read(ident: str) -> dict[str, Any]:
    params = {"workflow": LAB, "key": canon.encode(ident)}
    return {"effect": READ, "params": params, "cap_slot": "main"}


def echo(ident: str, do: str = "note") -> dict[str, Any]:
    return {"schema": GO, "value": go(ident, do)}


DEEDS = {
    "ask": deed(RUNNING, ask()),
    "key": deed(RUNNING, ask("k", idempotency_key=b"k")),
    "end": deed(COMPLETED, result={"n": 1}),
    "fail": deed(FAILED),
    "delete": deed(delete=True),
}


def lab(*, lab_arms: dict[str, str] | None = None, flow: Any = None, **deeds: Deed) -> Rig:
    functions = {CODE: lab_function(**{**DEEDS, **deeds})}
    return Rig(lab_documents(lab_arms=lab_arms, flow=flow), functions)


def statuses(rig: Rig, intent: bytes) -> list[str]:
    return [r.status for r in rig.records(ReceiptSettled) if r.intent == intent]


def completions(rig: Rig) -> list[Any]:
    found = [e for e in rig.records(EventAdmitted) if e.schema == COMPLETION]
    return [canon.decode(e.value) for e in found]


# ---- the end --------------------------------------------------------------------------------


@pytest.mark.clause("X-26")
@pytest.mark.parametrize(
    ("do", "status", "code"), [("end", COMPLETED, None), ("fail", FAILED, "t.gave_up")]
)
def test_end(do: str, status: str, code: str | None) -> None:
    """KN-19: an ended cell says so once, cancels what it had open, and drops what comes later."""
    rig = lab()
    rig.send(GO, go("a", "ask"))
    (job,) = rig.jobs.of(ASK)
    rig.send(GO, go("a", do), run=False)
    rig.send(GO, go("a", "late"), run=False)
    rig.run()
    assert rig.cell(LAB, "a").status == status
    assert statuses(rig, job.intent) == ["cancelled"]
    (said,) = completions(rig)
    assert said["status"] == {"$tag": status}
    assert said["code"] == code
    assert said["workflow"] == LAB
    assert said["key"] == canon.encode("a")
    assert said["result"] == (canon.encode({"n": 1}) if do == "end" else None)
    assert rig.send(GO, go("a", "later")).kind == "unrouted"
    assert [(d.what, d.reason) for d in rig.records(Dropped)] == [
        ("mail", "terminal"),
        ("event", "terminal"),
    ]
    state = rig.state_root()
    assert rig.settle(job, {"a": "late"}).detail == "late"
    assert rig.state_root() == state
    assert rig.cell(LAB, "a").status == status
    check(rig)


ENDINGS = {
    "completed": {"status": COMPLETED},
    "failed": {"status": FAILED},
    "deleted": {"delete": True},
    "completed and deleted": {"status": COMPLETED, "delete": True},
}
LAST_WISHES: dict[str, dict[str, Any]] = {
    "denied": {"effect": {**ask(), "cap_slot": "none"}},
    "internal": {"effect": read("b")},
    "outside": {"effect": ask()},
    "settled key": {"effect": ask("k", idempotency_key=b"k")},
    "itself": {"events": [echo("a")]},
}


@pytest.mark.clause("K-35", "X-26")
@pytest.mark.invariant("I19")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("wish", LAST_WISHES)
def test_last_wish(ending: str, wish: str) -> None:
    """KN-19: what the last tick asks for cannot wake the cell that it ends.

    A receipt that comes in the same frame (denied, internal, remembered) finds the cell ended;
    an event to itself is dropped, or begins a new cell after a delete.
    """
    more = dict(LAST_WISHES[wish])
    effects = [more.pop("effect")] if "effect" in more else []
    given = ENDINGS[ending]
    last = deed(given.get("status", RUNNING), *effects, delete="delete" in given, **more)  # type: ignore[attr-defined, operator]
    rig = lab(last=last)
    rig.send(GO, go("a", "key"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "once"})
    rig.send(GO, go("a", "last"))
    cell = rig.cell(LAB, "a")
    if "delete" not in given:  # type: ignore[operator]
        assert cell.status == given["status"]  # type: ignore[index]
        assert not cell.mailbox
        assert not cell.inflight
        assert rig.state(LAB, "a")["log"] == ["key", "ok:", "last"]
    elif wish == "itself":
        assert cell.status == RUNNING
        assert rig.state(LAB, "a")["log"] == ["note"]
    else:
        assert cell is None
    assert not list(rig.world.intents.entries())
    check(rig)


@pytest.mark.clause("X-26")
def test_completed_process_stays() -> None:
    """D5: completed is sticky for a process; an entity reopens and keeps its state."""
    process = lab()
    process.send(GO, go("a", "end"))
    process.send(GO, go("a"))
    assert process.state(LAB, "a")["log"] == ["end"]
    check(process)
    entity = lab(flow={"lifecycle": "entity"})
    entity.send(GO, go("a", "end"))
    assert entity.cell(LAB, "a").status == COMPLETED
    entity.send(GO, go("a"))
    assert entity.state(LAB, "a")["log"] == ["end", "note"]
    assert entity.cell(LAB, "a").shown_status("entity") == COMPLETED
    check(entity)


@pytest.mark.clause("X-26")
def test_entity_at_rest_says_nothing() -> None:
    """An entity at rest between events announces no end."""
    rig = lab(flow={"lifecycle": "entity"})
    rig.send(GO, go("a"))
    assert rig.cell(LAB, "a").shown_status("entity") == COMPLETED
    assert not completions(rig)
    check(rig)


# ---- K-35: delete ---------------------------------------------------------------------------


@pytest.mark.clause("K-35")
@pytest.mark.invariant("I19")
def test_delete() -> None:
    """KN-19: null deletes the cell; its late receipt is evidence, its successor starts anew."""
    rig = lab()
    rig.send(GO, go("a", "ask"))
    (job,) = rig.jobs.of(ASK)
    rig.send(GO, go("a", "delete"))
    assert rig.cell(LAB, "a") is None
    assert statuses(rig, job.intent) == ["cancelled"]
    rig.send(GO, go("a"))
    state = rig.state_root()
    assert rig.settle(job, {"a": "x"}).detail == "late"
    assert rig.state_root() == state
    assert rig.state(LAB, "a")["log"] == ["note"]
    check(rig)


@pytest.mark.clause("K-35")
def test_delete_with_mail() -> None:
    """KN-19: events that wait behind the delete begin a new cell; old receipts do not reach it."""
    rig = lab()
    rig.send(GO, go("a", "ask"))
    (job,) = rig.jobs.of(ASK)
    rig.send(GO, go("a", "delete"), run=False)
    rig.settle(job, {"a": "x"}, run=False)
    rig.send(GO, go("a", "again"), run=False)
    rig.run()
    assert rig.state(LAB, "a")["log"] == ["again"]
    assert rig.cell(LAB, "a").status == RUNNING
    assert [(d.what, d.reason) for d in rig.records(Dropped)] == [("mail", "no_instance")]
    check(rig)


@pytest.mark.clause("K-35")
def test_deleted_cells_leave_no_trace() -> None:
    """K-35: a world whose cells were all deleted has the cells root of one that never had any."""
    rig = lab()
    before = rig.world.cells_of(LAB).written().root
    for name in "abc":
        rig.send(GO, go(name))
    assert rig.world.cell_count == 3
    for name in "bca":
        rig.send(GO, go(name, "delete"))
    assert rig.world.cells_of(LAB).written().root == before
    assert rig.world.cell_count == 0
    check(rig)


@pytest.mark.clause("K-35")
def test_reset() -> None:
    """K-35: an unkeyed cell is reset, not removed."""
    way = {"event": GO, "workflow": LAB}
    documents = lab_documents(flow={"key_schema": None}, subscriptions=[way])
    rig = Rig(documents, {CODE: lab_function(**DEEDS)})
    rig.send(GO, go("x", "ask"))
    rig.send(GO, go("x", "delete"))
    assert rig.state(LAB) is None
    assert not rig.cell(LAB).inflight
    rig.send(GO, go("y"))
    assert rig.state(LAB) == {"id": "y", "log": ["note"]}
    check(rig)


# ---- operators ------------------------------------------------------------------------------


@pytest.mark.clause("X-26")
def test_suspend_resume() -> None:
    """KN-19: a suspended cell keeps mail, receipts and intents; resumed it goes on in order."""
    rig = lab()
    rig.send(GO, go("a", "ask"))
    rig.operate("suspend", LAB, "a")
    assert rig.cell(LAB, "a").status == SUSPENDED
    rig.send(GO, go("a", "one"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"})
    assert rig.state(LAB, "a")["log"] == ["ask"]
    assert len(rig.cell(LAB, "a").mailbox) == 2
    rig.operate("resume", LAB, "a")
    assert rig.state(LAB, "a")["log"] == ["ask", "one", "ok:"]
    (suspended,), (resumed,) = rig.records(CellSuspended), rig.records(CellResumed)
    assert (suspended.principal, suspended.reason) == ("alice", "because")
    assert (resumed.principal, resumed.reason) == ("alice", "because")
    check(rig)


@pytest.mark.clause("X-26")
def test_skip() -> None:
    """KN-19: skip drops the front entry alone, with a record that names it."""
    rig = lab()
    rig.send(GO, go("a"))
    rig.operate("suspend", LAB, "a")
    first = rig.send(GO, go("a", "bad"))
    rig.send(GO, go("a", "good"))
    rig.operate("skip", LAB, "a")
    rig.operate("resume", LAB, "a")
    assert rig.state(LAB, "a")["log"] == ["note", "good"]
    assert [s.input_seq for s in rig.records(CellSkipped)] == [first.seq]
    check(rig)


@pytest.mark.clause("X-26")
def test_cancel_with_arm() -> None:
    """KN-19: cancel is a delivery when the workflow has an arm; it decides what to do."""
    rig = lab()
    rig.send(GO, go("a", "ask"))
    rig.operate("cancel", LAB, "a", deadline_ns=7)
    assert rig.state(LAB, "a")["log"] == ["ask", "cancel"]
    assert rig.cell(LAB, "a").inflight
    assert [c.deadline_ns for c in rig.records(CellCancelRequested)] == [7]
    check(rig)


@pytest.mark.clause("X-26")
@pytest.mark.parametrize("forced", [True, False])
@pytest.mark.parametrize("suspended", [True, False])
def test_cancel_fails_the_cell(forced: bool, suspended: bool) -> None:
    """KN-19: without an arm, or by force, cancel fails the cell and cancels its open intents."""
    arms = LAB_ARMS if forced else {k: v for k, v in LAB_ARMS.items() if k != "Cancel"}
    rig = lab(lab_arms=dict(arms))
    rig.send(GO, go("a", "ask"))
    if suspended:
        rig.operate("suspend", LAB, "a")
        rig.send(GO, go("a", "waits"))
    rig.operate("cancel", LAB, "a", force=forced)
    cell = rig.cell(LAB, "a")
    assert cell.status == FAILED
    assert not cell.mailbox
    assert not cell.inflight
    assert statuses(rig, rig.jobs.of(ASK)[0].intent) == ["cancelled"]
    assert [f.principal for f in rig.records(CellFailed)] == ["alice"]
    assert [c["code"] for c in completions(rig)] == ["cancelled"]
    check(rig)


@pytest.mark.clause("X-26")
def test_cancel_of_one_effect() -> None:
    """KN-19: an operator gives up one effect: it settles cancelled, and its cell goes on."""
    rig = lab()
    rig.send(GO, go("a", "ask"))
    intent = rig.jobs.of(ASK)[0].intent
    rig.operate("cancel", "", intent=intent)
    assert statuses(rig, intent) == ["cancelled"]
    assert rig.cell(LAB, "a").status != FAILED
    assert rig.state(LAB, "a")["log"] == ["ask", "cancelled:"]
    check(rig)


@pytest.mark.clause("X-26")
@pytest.mark.parametrize(
    ("before", "verb", "code"),
    [
        ([], "resume", "cell.wrong_status"),
        ([], "skip", "cell.wrong_status"),
        (["suspend"], "suspend", "cell.wrong_status"),
        (["suspend"], "skip", "cell.wrong_status"),
        (["end"], "suspend", "cell.wrong_status"),
        (["end"], "cancel", "cell.wrong_status"),
        (["fail"], "resume", "cell.wrong_status"),
        ([], "dance", "operate.unknown_verb"),
        (["nobody"], "suspend", "cell.unknown"),
        ([], "release", "effect.not_open"),
        ([], "attempt", "effect.not_open"),
    ],
)
def test_refused_verbs(before: list[str], verb: str, code: str) -> None:
    """KN-19: a verb that does not fit the cell is refused, and the root stays."""
    rig = lab()
    rig.send(GO, go("a"))
    name = "a"
    for word in before:
        if word == "nobody":
            name = "b"
        elif word == "suspend":
            rig.operate(word, LAB, "a")
        else:
            rig.send(GO, go("a", word))
    key = canon.encode(name)
    given = Operate(rig.clock.sample(), verb, "alice", "because", LAB, key, bytes(32))
    assert refused(rig, given).code == code
    check(rig)


@pytest.mark.clause("X-26")
def test_release_needs_a_hold() -> None:
    """Only an intent held by a fork or a restore is released by hand."""
    rig = lab()
    rig.send(GO, go("a", "ask"))
    (job,) = rig.jobs.of(ASK)
    given = Operate(rig.clock.sample(), "release", "alice", "because", intent=job.intent)
    assert refused(rig, given).code == "effect.not_held"
    check(rig)


@pytest.mark.clause("K-47")
def test_key_without_arm() -> None:
    """D8: a remembered receipt is not delivered to a workflow that has no arm for it."""
    rig = lab(lab_arms={"Go": GO})
    rig.send(GO, go("a", "key"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "once"})
    rig.send(GO, go("a", "key"))
    assert rig.state(LAB, "a")["log"] == ["key", "key"]
    assert len(rig.records(IntentOpened)) == 1
    assert len(rig.records(IntentAttached)) == 1
    assert len(rig.records(Ticked)) == 2
    check(rig)
