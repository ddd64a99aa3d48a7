"""Fifty children answer in another order than they were asked; one of them fails."""

from app import Count, Job, Words, app, job
from tallystick.testing import TestWorld, crash_everywhere, error, ok

PAGES = [f"p{n}" for n in range(50)]


def test_children_join_in_any_order():
    world = TestWorld(app)
    world.send(Job(job="j", pages=PAGES))
    for number, request in enumerate(reversed(world.open(Count))):
        said = error("no.page") if number == 7 else ok(Words(words=number))
        said.settle(world, request)
    world.run()
    state = world.cell(job, "j").state
    assert world.cell(job, "j").status == "completed"
    assert state.words == sum(range(50)) - 7
    assert state.lost == ("p42",)
    world.assert_replays()


def test_a_crash_anywhere():
    def scenario(world):
        world.send(Job(job="j", pages=["a", "b"]))
        world.settle(Count, ok(Words(words=2))).settle(Count, ok(Words(words=3)))

    assert crash_everywhere(app, scenario).crashes > 10
