"""A tick as a value (AU-24)."""

from __future__ import annotations

from tallystick.testing import tick
from tests.workflow import orders_app as app


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
