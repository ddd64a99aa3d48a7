"""Every kind of recorded input is run again, and edits change what they name."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import Conflict, Rejected, UnknownName
from tallystick.governance.compare import Live
from tallystick.governance.recorded import Step, steps
from tallystick.governance.rerun import Order, Rerun
from tallystick.governance.whatif import edited, read_edits
from tallystick.kernel.inputs import (
    Assume,
    Progress,
    RevokeGrant,
    RevokeKey,
    Submit,
    TrustKey,
)
from tallystick.kernel.roots import state_root
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.governance.stage import opened, shadowed
from tests.rig import OUTSIDER, Rig
from tests.worlds import (
    ASK,
    GO,
    LAB,
    LAB_ARMS,
    PROGRESS,
    TIMER,
    ask,
    go,
    lab_documents,
    lab_function,
)

CODE = ("t/code@1", "lab")
ARMS = {**LAB_ARMS, "Progress": PROGRESS}


def lab(**deeds: Any) -> Rig:
    def wait(following: Any, _value: Any, ctx: Any) -> Outcome:
        due = ctx["logical_now_ns"] + 5_000
        params = {"deliver_at_ns": due, "key": None}
        return Outcome(following, effects=[{"effect": TIMER, "params": params}])

    all_ = {
        "ask": lambda f, *_: Outcome(f, effects=[ask()]),
        "late": lambda f, *_: Outcome(f, effects=[ask(timeout_ns=4_000)]),
        "wait": wait,
        **deeds,
    }
    return Rig(lab_documents(lab_arms=ARMS, flow=FLOW), {CODE: lab_function(**all_)})


FLOW = {"context": "sys/WorkflowContext@1"}


def documents() -> list[dict[str, Any]]:
    return lab_documents(lab_arms=ARMS, flow=FLOW)


# tidy: one input after the other.
def played() -> tuple[Rig, int]:
    """A world in which every kind of input came once."""
    rig = lab()
    rig.send(GO, go("early", "ask"))
    begin = rig.world.seq
    rig.send(GO, go("a", "ask"))
    job = rig.jobs.of(ASK)[1]
    rest = (job.world, job.intent, 1, 1, "note", canon.encode("half"))
    rig.do(Progress(rig.clock.sample(), *rest))
    rig.run()
    rig.settle(job, {"a": "x"})
    rig.send(GO, go("b", "wait"))
    rig.pass_time(10_000)
    rig.send(GO, go("c", "late"))
    rig.pass_time(10_000)
    rig.send(GO, go("d", "ask"))
    rig.operate("cancel", "", intent=rig.jobs.of(ASK)[3].intent)
    rig.operate("suspend", LAB, "a")
    rig.send(GO, go("a", "x"))
    rig.operate("skip", LAB, "a")
    rig.operate("resume", LAB, "a")
    rig.operate("cancel", LAB, "b")
    rig.operate("cancel", LAB, "c", force=True)
    rig.do(TrustKey(rig.clock.sample(), OUTSIDER.public, ("*",), ("*",), "alice"))
    rig.do(RevokeKey(rig.clock.sample(), OUTSIDER.key_id, "alice", "lost"))
    rig.do(RevokeGrant(rig.clock.sample(), "timer", "alice", "misused"))
    rig.send(GO, go("late", "wait"))
    return rig, begin


@pytest.mark.clause("K-21")
def test_every_kind_of_input_is_run_again() -> None:
    """AG-18, control: under the same code every recorded input leads to the same ticks."""
    rig, begin = played()
    report = shadowed(rig, documents(), begin).report
    assert report["divergences"] == report["state_deltas"] == []
    assert report["missing_effects"] == report["unused_receipts"] == []
    assert report["totals"]["cells"] == 5
    assert report["totals"]["denials"] == 1
    kinds = {type(s.given).__name__ for s in steps(opened(rig, begin), tail(rig, begin))}
    assert kinds == {
        "Submit", "Assume", "Progress", "Clock", "Operate", "TrustKey", "RevokeKey", "RevokeGrant"
    }  # fmt: skip


def test_times_of_another_code_come_by_themselves() -> None:
    """06 section 7: a timer that only the candidate sets fires before the next recorded input."""
    rig = lab()
    rig.send(GO, go("a", "note"))
    begin = rig.world.seq
    rig.send(GO, go("a", "wait"))
    rig.clock.now_ns += 1_000_000
    rig.send(GO, go("b", "note"))
    report = shadowed(rig, documents(), begin).report
    fired = [e for e in report["observed_effects"] if e["effect"] == TIMER]
    assert [(e["answer"], e["status"]) for e in fired] == [("kernel", "ok")]


def tail(rig: Rig, begin: int) -> list[Any]:
    return list(rig.journal.read(rig.world.id, after=begin))


def what_if(rig: Rig, begin: int, raw: list[Any]) -> Any:
    """The world of a rig, had some inputs been others."""
    start = opened(rig, begin)
    frames = tail(rig, begin)
    recorded = Live(start, frames)
    todo = list(edited(steps(start, frames), read_edits(raw), start.active.catalogue))
    start.synthetic = True
    Rerun(start, Order()).run(todo, recorded)
    return start


def log(world: Any, key: str) -> list[str]:
    from tallystick.model.cells import CellId

    cell = world.cell(CellId(LAB, canon.encode(key)))
    found: list[str] = canon.decode(world.state_of(cell))["log"]
    return found


@pytest.mark.clause("X-08")
def test_edits_change_what_they_name() -> None:
    """AG-31: another receipt, another event, or none; the other cells end as recorded."""
    rig = lab()
    begin = rig.world.seq
    rig.send(GO, go("a", "ask"))
    rig.send(GO, go("b", "one"))
    rig.send(GO, go("b", "two"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"})
    by = {s.given.__class__.__name__: s.seq for s in steps(opened(rig, begin), tail(rig, begin))}
    first = [s.seq for s in steps(opened(rig, begin), tail(rig, begin))][1]
    raw = [
        {"seq": by["Assume"], "receipt": {"status": "error", "payload": {"code": "no"}}},
        {"seq": first, "event": go("b", "other")},
        {"seq": by["Submit"], "drop": True},
    ]
    made = what_if(rig, begin, raw)
    assert log(made, "a") == ["ask", "error:"]
    assert log(made, "b") == ["other"]
    same = what_if(rig, begin, [raw[0] | {"receipt": {"status": "ok", "payload": {"a": "x"}}}])  # type: ignore[operator]
    assert state_root(same) == rig.state_root()


BAD: list[Any] = [
    {},
    [],
    [1],
    [{"seq": "x", "drop": True}],
    [{"seq": 3}],
    [{"seq": 3, "drop": True, "event": {}}],
    [{"seq": 3, "drop": True, "more": 1}],
    [{"seq": 3, "receipt": {"status": "odd"}}],
    [{"seq": 3, "drop": True}, {"seq": 3, "drop": True}],
]


@pytest.mark.parametrize("raw", BAD, ids=[str(n) for n in range(len(BAD))])
def test_documents_that_are_no_edits(raw: Any) -> None:
    """AG-31: what is no list of edits is refused with its place."""
    with pytest.raises(Rejected) as bad:
        read_edits(raw)
    assert bad.value.code == "whatif.bad_edit"
    assert bad.value.where["path"].startswith("/edits")


@pytest.mark.parametrize(
    "change",
    [
        {"receipt": {"status": "ok", "payload": {"a": "x"}}},
        {"event": {"id": 7}},
        {"seq": 1, "drop": True},
    ],
    ids=["a receipt for an event", "a value that does not fit", "no input"],
)
def test_edits_that_name_something_else(change: dict[str, Any]) -> None:
    """AG-31: an edit of what is not there, or not of its kind, is refused."""
    rig = lab()
    begin = rig.world.seq
    rig.send(GO, go("a", "note"))
    (step,) = steps(opened(rig, begin), tail(rig, begin))
    with pytest.raises(Rejected) as bad:
        what_if(rig, begin, [{"seq": step.seq, **change}])
    assert bad.value.code == "whatif.bad_edit"


@pytest.mark.clause("X-08", "K-11")
def test_only_a_what_if_assumes_receipts() -> None:
    """AG-31: a world with an outside refuses an assumed receipt; a what-if, one for nothing."""
    rig = lab()
    rig.send(GO, go("a", "ask"))
    (job,) = rig.jobs.of(ASK)
    given = Assume(rig.clock.sample(), job.intent, "ok", canon.encode({"a": "x"}))
    before = rig.root()
    with pytest.raises(Conflict) as bad:
        rig.do(given)
    assert bad.value.code == "world.not_synthetic"
    assert rig.root() == before
    rig.world.synthetic = True
    with pytest.raises(UnknownName) as unknown:
        rig.do(given._replace(intent=bytes(32)))
    assert unknown.value.code == "effect.not_open"


def test_answers_wait_for_their_question() -> None:
    """06 section 7: a recorded receipt that comes before its request is kept for it."""
    rig = lab()
    begin = rig.world.seq
    rig.send(GO, go("a", "ask"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"})
    rig.send(GO, go("a", "note"))
    start, frames = opened(rig, begin), tail(rig, begin)
    recorded = Live(start, frames)
    asked, answer, after = steps(start, frames)
    start.synthetic = True
    trail = Rerun(start, Order()).run([answer, asked, after], recorded)
    assert [e.answer for e in trail.effects] == ["recorded"]
    assert trail.unused == []


def test_large_events_are_read_back() -> None:
    """06 section 7: an event that stands by digest is submitted as it was."""
    rig = lab()
    begin = rig.world.seq
    rig.send(GO, go("a", "x" * 70_000))
    (step,) = steps(opened(rig, begin), tail(rig, begin))
    assert isinstance(step, Step)
    assert isinstance(step.given, Submit)
    assert canon.decode(step.given.value)["do"] == "x" * 70_000


@pytest.mark.clause("X-08", "X-21")
def test_a_what_if_goes_through_an_upgrade() -> None:
    """AG-31: recorded changes of the manifest happen again; pinned cells stay pinned."""
    from tests.kernel.parcels import PARCEL, SENT, Release, parcel_rig, planned, upgrade

    rig = parcel_rig()
    begin = rig.world.seq
    for name in ("a", "b", "c"):
        rig.send(SENT, {"id": name, "kg": 1})
    upgrade(rig, Release("two"), planned(rig, a="pin"))
    for name in ("a", "b", "d"):
        rig.send(SENT, {"id": name, "kg": 2})
    first = next(s for s in steps(opened(rig, begin), tail(rig, begin)))
    made = what_if(rig, begin, [{"seq": first.seq, "event": {"id": "a", "kg": 9}}])

    def told(world: Any, name: str) -> list[str]:
        from tallystick.model.cells import CellId

        cell = world.cell(CellId(PARCEL, canon.encode(name)))
        found: list[str] = canon.decode(world.state_of(cell))["log"]
        return found

    assert told(made, "a") == ["one Sent:9", "one Sent:2"]
    for name in ("b", "c", "d"):
        assert told(made, name) == told(rig.world, name)
    assert made.manifest == rig.world.manifest
    assert made.pinned == 1
