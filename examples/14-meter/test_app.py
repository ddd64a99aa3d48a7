"""A thousand readings; the history never holds more than those since the last checkpoint."""

from app import Installed, Reading, Summed, app, meter
from tallystick.testing import TestWorld


def test_readings_are_summed_at_flat_cost():
    world = TestWorld(app).send(Installed(meter="m"))
    for number in range(250):
        world.send(Reading(meter="m", value=number))
    totals = world.events(Summed)
    assert [total.readings for total in totals] == [100, 200]
    assert totals[-1].total == sum(range(200))
    state = world.cell(meter, "m").state
    assert state["n"] == 51
    world.assert_replays()


def test_a_crash_between_readings():
    world = TestWorld(app).send(Installed(meter="m"))
    for number in range(120):
        world.send(Reading(meter="m", value=1))
        if number % 40 == 0:
            world.crash()
    assert [total.total for total in world.events(Summed)] == [100]
    world.assert_replays()
