"""Events lead from workflow to workflow; the ledger only listens."""

from app import Book, Ordered, Parcel, Ship, app, ledger, order, shipping
from tallystick.testing import TestWorld, error, ok


def test_an_order_is_shipped_and_booked():
    world = TestWorld(app)
    world.send(Ordered(order_id="o1", cents=500)).send(Ordered(order_id="o2", cents=70))
    assert world.cell(ledger).state == Book(orders=2, cents=570)
    world.settle(Ship, ok(Parcel(parcel="p2")), key="o2")
    assert world.cell(order, "o2").status == "completed"
    assert world.cell(order, "o1").state.parcel is None
    assert world.cell(ledger).state == Book(orders=2, cents=570, parcels=1)
    world.assert_replays()


def test_a_failed_shipment_fails_alone():
    world = TestWorld(app)
    world.send(Ordered(order_id="o1", cents=500)).settle(Ship, error("no.truck"))
    assert world.cell(shipping, "o1").status == "failed"
    assert world.cell(order, "o1").status == "running"
    world.assert_replays()
