"""The checkers of playbooks and reactions bite: each is shown something that breaks its rule."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.testing.check_net import Execution
from tallystick.testing.plan import Config
from tallystick.testing.reference_net import Net, Step
from tallystick.testing.scene_watch import WatchScene
from tallystick.testing.violation import Violation
from tallystick.testing.workspace import Workspace
from tallystick.values import canon

WORKING = Net({"s0": Step("s0", work=True)}, "fail_on_any_error", None)
LOOPING = Net({"s0": Step("s0", work=True, items=3, wide=3)}, "fail_on_any_error", None)
COUNTS = {"created": 1, "consumed": 1, "absorbed": 0, "discarded": 0}
BEGUN: dict[str, Any] = {
    "phase": "running", "status": None, "counts": COUNTS, "tokens": {}, "runs": {"r1": {}},
    "groups": {"g0": {"live": 1}},
}  # fmt: skip
TOLD = [
    {"event": "token.enqueued", "token": "t1", "step": "s0"},
    {"event": "token.consumed", "token": "t1", "step": "s0"},
]


def broken_by(net: Net, state: dict[str, Any], told: list[dict[str, Any]]) -> str | None:
    """The invariant that an execution breaks with this state and these events."""
    execution = Execution(net)
    execution.state = state
    try:
        execution.check(told)
    except Violation as why:
        return why.invariant
    return None


BOTH = {"event": "next.evaluated", "mode": "exclusive", "step": "s0", "matched": [0, 1]}
FINISHED = {"event": "playbook.finished"}
QUIET = [{"event": "playbook.quiescent"}, *({"event": "step.scheduled", "run": r} for r in "ab")]
DONE = {"event": "loop.done", "run": "r1", "step": "s0"}
ITERATED = [{"event": "loop.iteration.done", "run": "r1"}] * 3


@pytest.mark.parametrize(
    ("found", "net", "state", "told"),
    [
        (None, WORKING, BEGUN, TOLD),
        ("I34", WORKING, {**BEGUN, "tokens": {"t9": {}}}, TOLD),
        ("I34", WORKING, BEGUN, TOLD[1:]),
        ("I34", WORKING, {**BEGUN, "groups": {"g0": {"live": 2}}}, TOLD),
        ("I35", WORKING, BEGUN, [TOLD[1], TOLD[0]]),
        ("I35", WORKING, BEGUN, [*TOLD, BOTH]),
        ("I37", WORKING, {**BEGUN, "phase": "done", "status": "success"}, TOLD),
        ("I38", WORKING, BEGUN, [*TOLD, FINISHED, FINISHED]),
        ("I38", WORKING, BEGUN, [*TOLD, *QUIET]),
        ("I39", LOOPING, BEGUN, [*TOLD, *ITERATED[1:], DONE]),
        ("I39", LOOPING, BEGUN, [*TOLD, *ITERATED, DONE, DONE]),
    ],
)  # fmt: skip
@pytest.mark.invariant("I34", "I35", "I37", "I38", "I39")
def test_an_execution_that_breaks_a_rule_is_found(found, net, state, told) -> None:
    """I34 to I39, control: the sound one passes; each change of it is found by its own checker."""
    assert broken_by(net, state, told) == found


@pytest.mark.invariant("I36")
def test_a_unit_that_may_not_run_is_found() -> None:
    """I36, control: the run that has begun may be sent, the next one may not."""
    execution = Execution(WORKING)
    execution.check_I36("r1#1")
    with pytest.raises(Violation, match="I36"):
        execution.check_I36("r2#1")


def params(path: str = "f.txt", **stamp: Any) -> dict[str, Any]:
    body = b"made"
    told = {"path": path, "post_id": canon.hash_of(body), "reaction": "format", **stamp}
    return {"path": path, "content": body, "stamp": told}


@pytest.mark.invariant("I29", "I32")
def test_a_write_without_its_stamp_or_place_is_found() -> None:
    """I29, I32, control: other bytes than the stamp's, or another path than declared."""
    disk = Workspace({"format": frozenset(("f.txt",))})
    disk.check_I29(params(), b"made")
    disk.check_I32(params())
    with pytest.raises(Violation, match="I29"):
        disk.check_I29(params(), b"other")
    with pytest.raises(Violation, match="I29"):
        disk.check_I29({**params(), "stamp": None}, b"made")
    with pytest.raises(Violation, match="I32"):
        disk.check_I32(params("g.txt"))


def trigger(depth: int = 0, root: str = "r") -> dict[str, Any]:
    return {"reaction": "format", "depth": depth, "root_trigger_id": root}


@pytest.mark.invariant("I29", "I30", "I31", "I32", "I33")
def test_triggers_and_runs_that_break_a_rule_are_found() -> None:
    """I29 to I33, control: own writes, depth, many runs of one cause, twins, late acts, lost words.

    A trigger that holds somebody else's change too is no event of its own.
    """
    scene = WatchScene(Config())
    scene.disk.written["f.txt", "mine"] = {"format"}
    mine, other = {"path": "f.txt", "after": "mine"}, {"path": "a.txt", "after": "x"}
    scene.check_I29({"reaction": "format", "changes": [mine, other]})
    with pytest.raises(Violation, match="I29"):
        scene.check_I29({"reaction": "format", "changes": [mine]})
    with pytest.raises(Violation, match="I30"):
        scene.check_I30(trigger(depth=99))
    for _ in range(256):
        scene.check_I30(trigger(root="one"))
    with pytest.raises(Violation, match="I30"):
        scene.check_I30(trigger(root="one"))
    scene.check_I31({"run_key": "k", "kind": "run", "trigger": trigger()})
    scene.check_I31({"run_key": "k", "kind": "retry", "trigger": trigger()})
    with pytest.raises(Violation, match="I31"):
        scene.check_I31({"run_key": "k", "kind": "run", "trigger": trigger()})
    scene._ended["over"] = None
    with pytest.raises(Violation, match="I32"):
        scene.check_I32("over")
    scene.disk.edit("f.txt", "words")
    with pytest.raises(Violation, match="I33"):
        scene._is("f.txt", b"words!")
