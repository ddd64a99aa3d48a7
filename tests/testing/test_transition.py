"""A tick as a value (AU-24)."""

from __future__ import annotations

import pytest

from tallystick.errors import TickFault
from tallystick.model.records import Ticked
from tallystick.testing import TestWorld, ok, tick, timeout
from tests.workflow import orders_app as app
from tests.workflow import stops_app as stops


@pytest.mark.kit("tick")
def test_a_transition_is_a_value() -> None:
    """AU-24: state, status, events, effects and logs of one tick, without a world."""
    first = tick(app.orders, None, app.Placed(order_id="o1", cents=5))
    assert first.state.phase == "charging"
    (request,) = first.effects
    assert request.params == app.Charge(token="o1", cents=5)
    assert (request.corr, request.key) == ("Charge", b"charge/0")
    paid = tick(app.orders, first.state, app.Charge.Ok(value=app.Charged(ref="r")))
    assert (paid.status, paid.result) == ("completed", "r")
    assert paid.events == [app.Paid(order_id="o1", ref="r")]
    denied = tick(app.orders, first.state, app.Charge.Denied(code="policy.denied"))
    assert denied.reason == {"code": "policy.denied", "message": ""}


def test_a_transition_costs_what_it_costs_in_a_world() -> None:
    """AU-24: the fuel of each tick alone is that of the same tick on record."""
    world = TestWorld(app.app)
    world.send(app.Placed(order_id="o1", cents=5)).settle(app.Charge, timeout()).advance("5s")
    world.settle(app.Charge, ok(app.Charged(ref="r")))
    events = [
        app.Placed(order_id="o1", cents=5),
        app.Charge.Timeout(),
        app.Timer.Ok(corr="retry", value=None),
        app.Charge.Ok(value=app.Charged(ref="r")),
    ]
    state, alone = None, []
    for event in events:
        made = tick(app.orders, state, event)
        state = made.state
        alone.append(made.fuel)
    assert alone == [record.fuel for record in world.records(Ticked)]
    assert state.phase == "paid"


@pytest.mark.kit("tick", finds=True)
def test_what_the_lane_stops_fails_the_transition() -> None:
    """AU-24 control: a loop over a set and a loop without end are told by their codes."""
    for key, code in (("order", "set_order"), ("loop", "fuel")):
        with pytest.raises(TickFault) as caught:
            tick(stops.run, None, stops.Go(key=key))
        assert caught.value.code == code
