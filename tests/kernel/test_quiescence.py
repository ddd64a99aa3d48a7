"""Quiescence: what stands in the way of a change is named; nothing is dropped to make room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.kernel.inputs import Activate, Planned
from tallystick.kernel.quiescence import live_cells, open_cells, quiescence
from tallystick.model.cells import COMPLETED
from tallystick.model.records import ApplyRefused, BundleActivate
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import Rig, bundle_of, check
from tests.worlds import ASK, GO, LAB, TIMER, ask, go, lab_documents, lab_function

CODE = ("t/code@1", "lab")


def lab(**flow: Any) -> Rig:
    def wait(following: Any, _value: Any, _ctx: Any) -> Outcome:
        params = {"deliver_at_ns": 2_000_000_000_000_000_000, "key": None}
        return Outcome(following, effects=[{"effect": TIMER, "params": params}])

    deeds = {
        "ask": lambda f, *_: Outcome(f, effects=[ask()]),
        "end": lambda f, *_: Outcome(f, status=COMPLETED),
        "fail": lambda *_: 1 // 0,
        "gone": lambda *_: Outcome(None),
        "wait": wait,
    }
    return Rig(lab_documents(flow=flow), {CODE: lab_function(**deeds)})


def change(rig: Rig, **more: Any) -> Activate:
    manifest, blobs = bundle_of(lab_documents(limits={"effects_max": 3}))
    sample = rig.clock.sample()
    return Activate(sample, manifest, manifest, rig.manifest, blobs, "alice", **more)


def kinds(rig: Rig) -> list[str]:
    return [blocker.kind for blocker in quiescence(rig.world)]


Steps = Callable[[Rig], Any]


def sending(*deeds: str, run: bool = True) -> Steps:
    def steps(rig: Rig) -> None:
        for do in deeds:
            rig.send(GO, go("a", do), run=run)

    return steps


def suspended(rig: Rig) -> None:
    rig.send(GO, go("a"))
    rig.operate("suspend", LAB, "a")
    rig.send(GO, go("a"))


BLOCKERS: dict[str, tuple[str, Steps, list[str]]] = {
    "nothing": ("process", sending(), []),
    "a running process": ("process", sending("note"), ["cell_open"]),
    "a completed process": ("process", sending("end"), []),
    "a failed process": ("process", sending("fail"), []),
    "a deleted cell": ("process", sending("gone"), []),
    "a resting entity": ("entity", sending("note"), []),
    "an entity that completed": ("entity", sending("end"), []),
    "mail": ("entity", sending("note", run=False), ["cell_open", "mailbox", "ready"]),
    "mail that waits": ("entity", suspended, ["cell_open", "mailbox"]),
    "an open intent": ("entity", sending("ask"), ["cell_open", "intent_open"]),
    "a timer": ("entity", sending("wait"), ["cell_open", "intent_open"]),
}


@pytest.mark.clause("K-20")
@pytest.mark.invariant("I8")
@pytest.mark.parametrize("name", BLOCKERS)
def test_blockers(name: str) -> None:
    """KN-18: each blocker blocks and is named; without any the change is applied.

    A refused change is a record that moves no state.
    """
    lifecycle, steps, want = BLOCKERS[name]
    rig = lab(lifecycle=lifecycle)
    steps(rig)
    assert kinds(rig) == want
    state = rig.state_root()
    answer = rig.do(change(rig))
    if want:
        assert answer.kind == "refused"
        assert [kind for kind, _ in answer.detail["blockers"]] == want
        assert rig.state_root() == state
        (record,) = rig.records(ApplyRefused)
        assert (record.code, record.count) == ("gov.not_quiescent", len(want))
        assert len(rig.records(BundleActivate)) == 1
    else:
        assert answer.kind == "activated"
        assert len(rig.records(BundleActivate)) == 2
        assert rig.world.active.catalogue.limits.effects_max == 3
    check(rig)


@pytest.mark.clause("K-20")
def test_blocker_tells_where() -> None:
    """KN-18: a blocker tells which cell, since when, and which effect is open."""
    rig = lab()
    rig.send(GO, go("a", "ask"))
    rig.clock.now_ns += 5000
    rig.send(GO, go("b", "end"))
    cell, intent = quiescence(rig.world)
    assert cell.detail["workflow"] == LAB
    assert bytes.fromhex(cell.detail["key"]) == canon.encode("a")
    assert cell.detail["status"] == "waiting"
    assert cell.detail["since_seq"] == rig.cell(LAB, "a").last_seq
    assert cell.detail["age_ns"] >= 4000
    (job,) = rig.jobs.of(ASK)
    assert intent.detail["intent"] == canon.text_of(job.intent)
    assert intent.detail["effect"] == ASK
    check(rig)


@pytest.mark.clause("K-20")
def test_blockers_go_away() -> None:
    """KN-18: when the work is done the same change is applied."""
    rig = lab(lifecycle="entity")
    rig.send(GO, go("a", "ask"))
    assert rig.do(change(rig)).kind == "refused"
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"})
    assert kinds(rig) == []
    assert rig.do(change(rig)).kind == "activated"
    check(rig)


@pytest.mark.clause("K-20")
@pytest.mark.parametrize(
    ("plan", "expect", "code"),
    [
        ({}, None, "gov.plan_outdated"),
        ({"a": -1}, None, "gov.plan_outdated"),
        ({"a": 0}, b"1" * 32, "gov.stale_base"),
        ({"a": 0}, None, None),
    ],
)
def test_plan(plan: dict[str, int], expect: bytes | None, code: str | None) -> None:
    """D10: beyond quiescence a plan must name each open cell at the seq where it stands."""
    rig = lab()
    rig.send(GO, go("a"))
    seq = rig.cell(LAB, "a").last_seq
    cells = {(LAB, canon.encode(name)): Planned(seq + off) for name, off in plan.items()}
    given = change(rig, plan=cells)
    if expect is not None:
        given = given._replace(expect_manifest=expect)
    state = rig.state_root()
    answer = rig.do(given)
    if code is None:
        assert answer.kind == "activated"
    else:
        assert [r.code for r in rig.records(ApplyRefused)] == [code]
        assert rig.state_root() == state
    check(rig)


@pytest.mark.clause("K-20")
@pytest.mark.invariant("I8")
def test_plan_without_the_workflow() -> None:
    """A bundle that lacks the workflow of an open cell is refused, whatever the plan says."""
    rig = lab()
    rig.send(GO, go("a"), run=False)
    documents = [d for d in lab_documents(subscriptions=[]) if d.get("name") != LAB]
    documents[-1]["module_bindings"] = {}
    manifest, blobs = bundle_of(documents)
    plan = {(LAB, canon.encode("a")): Planned(rig.cell(LAB, "a").last_seq)}
    state = rig.state_root()
    sample = rig.clock.sample()
    given = Activate(sample, manifest, manifest, rig.manifest, blobs, "alice", plan=plan)
    assert rig.do(given).kind == "refused"
    assert rig.state_root() == state
    rig.run()
    assert rig.state(LAB, "a")["log"] == ["note"]
    check(rig)


@pytest.mark.clause("K-20")
def test_live_cells_are_those_that_are_open() -> None:
    """06 section 8: what has not ended and is not at rest, as cells and as blockers alike."""
    rig = lab(lifecycle="process")
    for name, do in zip("abc", ("ask", "end", "note"), strict=True):
        rig.send(GO, go(name, do))
    found = [cell.id.key for cell in live_cells(rig.world)]
    assert sorted(found) == [canon.encode("a"), canon.encode("c")]
    assert [key.hex() for key in found] == [each.detail["key"] for each in open_cells(rig.world)]
