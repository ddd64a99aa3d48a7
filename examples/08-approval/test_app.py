"""A yes, a no, and nobody."""

import pytest
from app import Decided, Human, Requested, app, approval
from tallystick.testing import TestWorld, crash_everywhere, ok


def said(choice):
    return ok({"choice": choice, "answer": None, "by": "eva", "comment": None, "at_ns": 1})


def asked(cents=5000):
    return TestWorld(app).send(Requested(request_id="r", cents=cents, purpose="chairs"))


@pytest.mark.parametrize(("choice", "phase"), [("approve", "approved"), ("decline", "declined")])
def test_people_decide(choice, phase):
    world = asked().settle(Human, said(choice)).advance("4d")
    assert world.cell(approval, "r").state.phase == phase
    assert len(world.events(Decided)) == 1
    world.assert_replays()


def test_small_sums_need_nobody():
    world = asked(999)
    assert world.events(Decided) == [Decided(request_id="r", approved=True, by="rule")]
    assert world.open(Human) == []


def test_nobody_answers():
    world = asked().advance("4d")
    assert world.cell(approval, "r").state.by == "expiry"
    assert world.open(Human) == []
    world.assert_replays()


def test_a_crash_anywhere():
    def scenario(world):
        world.send(Requested(request_id="r", cents=5000, purpose="chairs"))
        world.settle(Human, said("approve"))

    assert crash_everywhere(app, scenario).crashes > 10
