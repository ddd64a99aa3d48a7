"""The timeline of one cell, and why things are as they are."""

from __future__ import annotations

import json

import pytest

from tallystick.kernel.inputs import Operate, Progress
from tallystick.kernel.quiescence import quiescence
from tallystick.model.cells import CellId
from tallystick.model.records import EventAdmitted, IntentDenied
from tallystick.values import canon
from tallystick.views.explain import explain_cell, explain_denial, explain_event, explain_world
from tallystick.views.stats import stats, world_root
from tallystick.views.timeline import last_word, timeline
from tests.rig import Rig
from tests.views.worlds import DEEDS, frames, lab
from tests.worlds import (
    ASK,
    DONE,
    GO,
    LAB,
    LAB_ARMS,
    PROGRESS,
    TIMER,
    go,
    lab_documents,
    lab_function,
)


def cell(key: str) -> CellId:
    return CellId(LAB, canon.encode(key))


@pytest.mark.clause("K-45", "X-22")
def test_a_cell_from_first_to_last() -> None:
    """K-45, X-22: ticks with input, hashes and correlations; effects with both their halves."""
    rig = lab()
    rig.send(GO, go("other", "ask", 1))
    rig.send(GO, go("a", "ask", 2))
    first, second = rig.jobs.of(ASK)[1:]
    rig.do(Operate(rig.clock.sample(), "attempt", "node", "retry", intent=first.intent))
    rig.clock.now_ns += 7
    rig.settle(first, {"a": "yes"})  # of the first attempt, which no longer counts
    rig.settle(second, {"a": "yes"})
    rig.operate("suspend", LAB, "a")
    found = timeline(frames(rig), cell("a"))
    assert [tick["input"]["schema"] for tick in found["ticks"]] == [GO, None]
    assert [e["issuer_ref"] for e in found["ticks"][0]["effects"]] == ["q0", "q1"]
    assert found["ticks"][1]["input"]["intent"] == canon.text_of(second.intent)
    assert found["ticks"][1]["before"] == found["ticks"][0]["after"]
    one, two = found["effects"]
    assert (one["status"], one["settled_seq"]) == ("open", None)
    assert [each["attempt"] for each in one["attempts"]] == [2]
    assert [each["reason"] for each in one["drops"]] == ["stale_attempt"]
    assert two["status"] == "ok"
    assert two["settled_ns"] - two["opened_ns"] == 7
    assert [mark["record"]["record"] for mark in found["marks"]] == ["CellSuspended"]
    assert found["more"] == 0
    assert json.loads(json.dumps(found)) == found
    part = timeline(frames(rig), cell("a"), most=2)
    assert (len(part["ticks"]) + len(part["effects"]), part["more"]) == (2, 2)


def test_faults_emissions_and_progress() -> None:
    """A fault is a tick with its code; what a tick emits hangs on it; progress is counted."""
    rig = lab()
    rig.send(GO, go("a", "emit"))
    rig.send(GO, go("a", "spoil"))
    found = timeline(frames(rig), cell("a"))
    emitting, faulting = found["ticks"]
    assert [each["schema"] for each in emitting["events"]] == [GO]
    assert faulting["fault"]["code"] == "exception"
    assert [each["schema"] for each in faulting["events"]] == ["sys/WorkflowFault@1", DONE]
    last = last_word(frames(rig), cell("a"))
    assert last is not None
    assert last["record"] == "WorkflowFaulted"
    assert last_word(frames(rig), cell("nobody")) is None


@pytest.mark.clause("K-27")
def test_progress_stands_beside_the_bar() -> None:
    """K-27: progress is seen on the bar of its effect, which stays open."""
    rig = progress_rig()
    rig.send(GO, go("a", "ask", 1))
    job = rig.jobs.of(ASK)[0]
    for n in (1, 2):
        sample = rig.clock.sample()
        rig.do(Progress(sample, job.world, job.intent, 1, n, "note", canon.encode({"n": n})))
    rig.run()
    (bar,) = timeline(frames(rig), cell("a"))["effects"]
    assert (bar["progress"], bar["status"]) == (2, "open")


def progress_rig() -> Rig:
    """A lab that takes progress."""

    documents = lab_documents(lab_arms={**LAB_ARMS, "Progress": PROGRESS})
    return Rig(documents, {("t/code@1", "lab"): lab_function(**DEEDS)})


# ---- why ------------------------------------------------------------------------------------


def codes(found: dict) -> list[str]:
    return [reason["code"] for reason in found["reasons"]]


@pytest.mark.clause("K-23")
def test_why_a_cell_waits() -> None:
    """K-23, D13: each state of a cell is explained by codes with their facts."""
    rig = lab()
    rig.send(GO, go("a", "ask", 1))
    rig.send(GO, go("t", "time", 5))
    rig.send(GO, go("done", "end"))
    rig.send(GO, go("bad", "spoil"))
    rig.operate("suspend", LAB, "a")
    rig.send(GO, go("a", "note"))
    rig.send(GO, go("new", "note"), run=False)
    assert codes(explain_cell(rig.world, cell("a"))) == ["suspended", "blocked_mail", "outside"]
    timer = explain_cell(rig.world, cell("t"))
    assert codes(timer) == ["timer"]
    assert timer["reasons"][0]["detail"]["effect"] == TIMER
    assert codes(explain_cell(rig.world, cell("done"))) == ["completed"]
    last = last_word(frames(rig), cell("bad"))
    failed = explain_cell(rig.world, cell("bad"), last=last)
    assert codes(failed) == ["failed"]
    assert failed["reasons"][0]["detail"]["last"]["code"] == "exception"
    assert codes(explain_cell(rig.world, cell("new"))) == ["ready"]


@pytest.mark.clause("K-20")
def test_why_a_world_is_not_quiescent() -> None:
    """K-20: the kinds named are those of the kernel's own list; none named, none there."""
    rig = lab()
    assert explain_world(rig.world)["quiescent"] is True
    rig.send(GO, go("a", "ask", 1))
    rig.operate("suspend", LAB, "a")
    rig.send(GO, go("a", "note"))
    rig.send(GO, go("b", "note"), run=False)
    found = explain_world(rig.world)
    assert found["quiescent"] is False
    named = {(each["kind"], each["workflow"]) for each in found["blockers"]}
    assert named == {(b.kind, b.detail["workflow"]) for b in quiescence(rig.world)}
    assert json.loads(json.dumps(found)) == found


def test_a_bounded_look_does_not_say_quiescent() -> None:
    """When nothing blocks among the cells looked at and there are more, the answer is null."""
    rig = lab()
    for i in range(4):
        rig.send(GO, go(f"c{i}", "end"))
    assert explain_world(rig.world)["quiescent"] is True
    assert explain_world(rig.world, looked_max=2)["quiescent"] is None


def test_why_an_event_or_an_effect() -> None:
    """An event says where it went or that nobody takes it; a denial which stage said no."""
    rig = lab()
    rig.send(GO, go("d", "undeclared"))
    (denied,) = rig.records(IntentDenied)
    found = explain_denial(denied, 7)
    assert codes(found) == ["effect.undeclared"]
    assert found["judged"][0]["verdict"] == "deny"
    (event,) = [r for r in rig.records(EventAdmitted) if r.schema == GO]
    assert codes(explain_event(event, 3)) == ["delivered"]
    assert codes(explain_event(event._replace(to=()), 3)) == ["unrouted"]


# ---- figures --------------------------------------------------------------------------------


def test_figures() -> None:
    """Counts by status and by effect; a count that stops at its bound says so."""
    rig = lab()
    rig.send(GO, go("a", "ask", 3))
    rig.send(GO, go("t", "time", 5))
    rig.send(GO, go("done", "end"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "yes"})
    rig.settle(rig.jobs.of(ASK)[0], {"a": "twice"})
    found = stats(rig.world)
    assert found["cells"]["by_status"] == {"completed": 1, "resting": 1, "waiting": 2}
    assert found["cells"]["all"] == found["cells"]["counted"] == 4
    assert found["effects"]["by_effect"] == {ASK: 2, TIMER: 1}
    assert found["effects"]["whole"] is True
    assert found["drops"] == {"duplicate": 1}
    part = stats(rig.world, most=2)
    assert (part["cells"]["counted"], part["effects"]["counted"]) == (2, 2)
    assert part["effects"]["whole"] is False
    assert json.loads(json.dumps(found)) == found


@pytest.mark.clause("K-19")
def test_the_roots() -> None:
    """04 section 9: `world root` has every field, and both roots are the kernel's."""
    rig = lab()
    rig.send(GO, go("a", "ask", 1))
    found = world_root(rig.world, 3)
    assert list(found) == [
        "world",
        "seq",
        "logical_now_ns",
        "state_root",
        "root",
        "head",
        "manifest",
        "epoch",
    ]
    assert found["root"] == canon.text_of(rig.root())
    assert found["state_root"] == canon.text_of(rig.state_root())
