"""What waits for room when a world is forked or restored: nothing goes out unasked."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Operate, RevokeGrant
from tallystick.kernel.restore import restored
from tallystick.model.records import IntentReleased, ReceiptSettled
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.kernel.test_flows import CODE, SECOND, asked, documents, end, flow, held, lab, wishes
from tests.kernel.test_fork import child_rig
from tests.rig import Rig, check
from tests.worlds import GO, LAB, SPAWN, ask, go, lab_function

ONE = flow(max_open={"world": 1})
RATE = flow(rate={"count": 1, "per_ns": SECOND})


def release(rig: Rig, question: str) -> None:
    """An operator lets out the effect that asks this."""
    (intent,) = [
        path
        for path, each in rig.world.intents.entries()
        if canon.decode(each.record.params or b"").get("q") == question
    ]
    rig.do(Operate(rig.clock.sample(), "release", "alice", "go on", intent=intent))
    rig.run()


def kinds(rig: Rig) -> list[str]:
    """What holds each open effect, in the order of asking."""
    entries = [each for _, each in rig.world.intents.entries()]
    entries.sort(key=lambda each: each.record.origin.tick_seq)
    return ["" if each.hold is None else each.hold["kind"] for each in entries]


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I7")
@pytest.mark.parametrize("wait", [ONE, RATE], ids=["room", "time"])
def test_room_and_time_let_nothing_out_of_a_fork(wait: Any) -> None:
    """AG-30: by default nothing leaves a fork, neither what was out nor what waited in a queue."""
    rig = lab(wait)
    wishes(rig, 1, 2, 3)
    assert asked(rig) == ["1"]
    child = child_rig(rig, 1, None)
    assert (kinds(child), held(child)) == (["fork"] * 3, 0)
    child.pass_time(10 * SECOND)
    child.send(GO, go("other", "note"))
    assert asked(child) == []
    check(child)
    check(child.reopened())


@pytest.mark.clause("X-07")
@pytest.mark.invariant("I43")
def test_time_lets_nothing_out_of_a_restored_world() -> None:
    """ND-25: what waited when the backup was made may have been done since; somebody has to say."""
    rig = lab(RATE)
    wishes(rig, 1, 2, 3)
    rig.driver.stage(restored(rig.world, rig.clock.sample(), "sha256:b", bytes(range(32))))
    rig.driver.flush()
    assert (kinds(rig), held(rig)) == (["restore"] * 3, 0)
    rig.pass_time(10 * SECOND)
    assert asked(rig) == ["1"], "as before"
    check(rig)


@pytest.mark.clause("X-08", "F-22")
def test_what_is_let_out_by_hand_takes_its_place() -> None:
    """I7: what was out is out again; what waited needs room still, and waits for it."""
    rig = lab(ONE)
    wishes(rig, 1, 2, 3)
    child = child_rig(rig, 1, None)
    release(child, "1")
    release(child, "2")
    assert (asked(child), held(child), kinds(child)) == (["1"], 1, ["", "capacity", "fork"])
    end(child, 1)
    assert (asked(child), held(child)) == (["1", "2"], 0)
    end(child, 2)
    assert asked(child) == ["1", "2"], "nobody has asked for the third"
    release(child, "3")
    assert asked(child) == ["1", "2", "3"]
    assert [each.hold for each in child.records(IntentReleased)] == [
        "fork", "fork", "capacity", "fork",
    ]  # fmt: skip
    end(child, 3)
    assert child.world.levels.value(child.world.logical_ns) == {}
    check(child)


@pytest.mark.clause("X-08")
def test_a_fork_of_a_fork_knows_what_never_left() -> None:
    """I7: held twice, what waited in a queue still needs room, and takes none before."""
    rig = lab(ONE)
    wishes(rig, 1, 2)
    grandchild = child_rig(child_rig(rig, 1, None), 2, None)
    release(grandchild, "2")
    assert (asked(grandchild), held(grandchild)) == ([], 1), "the first has its place"
    release(grandchild, "1")
    end(grandchild, 1)
    assert asked(grandchild) == ["1", "2"]
    check(grandchild)


@pytest.mark.clause("X-08")
def test_what_is_to_be_issued_again_waits_for_its_room() -> None:
    """06 section 11: `reissue` lets out what was out, and what waits in the order of asking."""
    rig = lab(ONE)
    wishes(rig, 1, 2)
    child = child_rig(rig, 1, None, pending="reissue")
    child.run()
    assert (asked(child), held(child)) == (["1"], 1)
    end(child, 1)
    assert asked(child) == ["1", "2"]
    check(child)


@pytest.mark.clause("X-08")
def test_a_spawn_that_waited_for_room_spawns_when_it_is_let_out() -> None:
    """I7: what a fork took out of a queue was never performed, so its release performs it, once."""
    hello = {"schema": GO, "value": canon.encode(go("x", "hello"))}
    to = {"workflow": LAB, "key": canon.encode("x"), "caps": None, "payload": hello}
    deeds = {
        "ask": lambda state, *_: Outcome(state, effects=[ask("1")]),
        "spawn": lambda state, *_: Outcome(state, effects=[{"effect": SPAWN, "params": to}]),
    }
    rig = Rig(documents(flow(match={}, max_open={"world": 1})), {CODE: lab_function(**deeds)})
    rig.send(GO, go("x", "ask"))
    rig.send(GO, go("y", "spawn"))
    child = child_rig(rig, 1, None)
    release(child, "1")
    end(child, 1)
    assert "hello" not in child.state(LAB, "x")["log"]
    (spawn,) = [path for path, _ in child.world.intents.entries()]
    child.do(Operate(child.clock.sample(), "release", "alice", "go on", intent=spawn))
    child.run()
    assert child.state(LAB, "x")["log"].count("hello") == 1
    check(child)


@pytest.mark.clause("X-06")
def test_a_revoked_grant_ends_what_a_fork_found_in_a_queue() -> None:
    """06 section 2: what never left is denied, as in any queue."""
    rig = lab(ONE)
    wishes(rig, 1, 2)
    child = child_rig(rig, 1, None)
    used = [each.record.judged.capability for _, each in child.world.intents.entries()]
    assert used[0] is not None
    child.do(RevokeGrant(child.clock.sample(), used[0].grant, "alice", "over"))
    (settled,) = child.records(ReceiptSettled)
    assert settled.status == "denied"
    assert child.world.levels.queue == []
    check(child)
