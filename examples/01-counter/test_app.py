"""Counting, the ceiling, and a cell that is deleted by its own reducer."""

from app import Add, Count, Full, Reset, app, counter
from tallystick.testing import TestWorld


def test_it_counts_and_fills():
    world = TestWorld(app)
    world.send(Add(name="a", n=4)).send(Add(name="a", n=5))
    assert world.cell(counter, "a").state == Count(total=9)
    world.send(Add(name="a", n=3)).send(Add(name="a", n=3))
    assert world.cell(counter, "a").state == Count(total=12, phase="full")
    assert world.events(Full) == [Full(name="a", total=12)]
    world.assert_replays()


def test_reset_deletes_the_cell():
    world = TestWorld(app)
    world.send(Add(name="a", n=4)).send(Reset(name="a"))
    assert world.cell(counter, "a") is None
    world.send(Add(name="a", n=1))
    assert world.cell(counter, "a").state == Count(total=1)
    world.assert_replays()
