"""The race, both ways, and a node that was down when the deadline passed."""

from app import Answer, Asked, Escalated, Expert, app, desk
from tallystick.testing import TestWorld, crash_everywhere, error, ok


def test_the_answer_comes_in_time():
    world = TestWorld(app)
    world.send(Asked(ticket="t1")).advance("59m").settle(Expert, ok(Answer(text="42")))
    world.advance("2h")
    assert world.cell(desk, "t1").state.phase == "answered"
    assert world.events(Escalated) == []
    world.assert_replays()


def test_the_deadline_comes_first():
    world = TestWorld(app)
    world.send(Asked(ticket="t1")).settle(Expert, error("busy"))
    world.advance("61m")
    assert world.cell(desk, "t1").state.phase == "escalated"
    world.assert_replays()


def test_a_deadline_that_passed_while_the_node_was_down():
    world = TestWorld(app)
    world.send(Asked(ticket="t1"))
    world.clock.now_ns += 3 * 3_600_000_000_000
    world.crash().advance("0s")
    assert world.cell(desk, "t1").state.phase == "escalated"
    world.assert_replays()


def test_a_crash_anywhere():
    def scenario(world):
        world.send(Asked(ticket="t1")).advance("61m")

    assert crash_everywhere(app, scenario).crashes > 10
