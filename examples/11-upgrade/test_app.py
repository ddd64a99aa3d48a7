"""Blocked while a receipt prints, applied after the drain; old events and states are read on."""

from pathlib import Path

import app as example
import pytest
from tallystick.errors import NotQuiescent
from tallystick.model.records import StateMigrated
from tallystick.testing import TestWorld, ok

NEW = Path(example.__file__).read_text("utf-8")
OLD = Path(example.__file__).with_name("v1.py").read_text("utf-8")


def names(world):
    return world.app.workflows["till/till@1"].tick.__globals__


def test_an_upgrade_waits_for_open_work():
    world = TestWorld(OLD)
    known = names(world)
    world.send(known["Sold"](till="a", cents=500))
    with pytest.raises(NotQuiescent) as caught:
        world.apply(NEW)
    assert {kind for kind, _ in caught.value.where["blockers"]} >= {"intent_open"}
    world.settle(known["Print"], ok(known["Printed"](number=1)))
    world.apply(NEW)
    known = names(world)
    world.send(known["Sold"](till="a", cents=70))
    world.send(known["SoldIn"](till="a", cents=9, currency="CHF"))
    state = world.cell("till/till@1", "a").state
    assert (state.cents, state.receipts, state.foreign) == (570, 1, 1)
    (moved,) = world.records(StateMigrated)
    assert (moved.from_, moved.to) == (1, 2)
    world.settle(known["Print"], ok(known["Printed"](number=2)))
    world.assert_replays()
