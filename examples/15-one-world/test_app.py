"""A shelf keeps each title once."""

from app import Filed, Shelf, app, shelves
from tallystick.testing import TestWorld


def test_a_shelf_keeps_each_title_once():
    world = TestWorld(app)
    for title in ("a.txt", "b.txt", "a.txt"):
        world.send(Filed(shelf="notes", title=title))
    assert world.cell(shelves, "notes").state == Shelf(titles=["a.txt", "b.txt"])
    world.assert_replays()
