"""Two visits of one guest are one cell; another guest is another."""

from app import Greet, Guest, app, greeter
from tallystick.testing import TestWorld


def test_visits_are_counted_per_guest():
    world = TestWorld(app)
    world.send(Greet(name="Ada")).send(Greet(name="Ada")).send(Greet(name="Bob"))
    assert world.cell(greeter, "Ada").state == Guest(visits=2)
    assert world.cell(greeter, "Bob").state == Guest(visits=1)
    world.assert_replays()
