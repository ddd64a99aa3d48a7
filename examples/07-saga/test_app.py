"""The good end, three bad ones, and a crash in the middle of the compensation."""

from app import Approved, Booked, Flight, Hotel, Ref, Undo, app, trip
from tallystick.testing import TestWorld, crash_everywhere, error, ok


def booked():
    world = TestWorld(app)
    world.send(Booked(trip_id="t"))
    return world.settle(Flight, ok(Ref(ref="f"))).settle(Hotel, ok(Ref(ref="h")))


def test_approved_in_time():
    world = booked().send(Approved(trip_id="t", by="boss"))
    assert world.cell(trip, "t").status == "completed"
    world.assert_replays()


def test_not_approved_is_undone_in_reverse():
    world = booked()
    world.script(Undo, [error("down", retryable=True), ok(Ref(ref="h")), ok(Ref(ref="f"))])
    world.advance("3d")
    assert [params.ref for params in world.params(Undo)] == ["h", "h", "f"]
    assert world.cell(trip, "t").status == "failed"
    world.assert_replays()


def test_no_flight_undoes_the_hotel():
    world = TestWorld(app)
    world.send(Booked(trip_id="t"))
    world.settle(Flight, error("sold.out")).settle(Hotel, ok(Ref(ref="h")))
    assert [params.ref for params in world.params(Undo)] == ["h"]
    world.settle(Undo, ok(Ref(ref="h")))
    assert world.cell(trip, "t").status == "failed"
    world.assert_replays()


def test_cancelled_while_waiting():
    world = booked().cancel(trip, "t")
    world.settle(Undo, ok(Ref(ref="h"))).settle(Undo, ok(Ref(ref="f")))
    assert world.cell(trip, "t").status == "failed"
    world.assert_replays()


def test_a_crash_anywhere():
    def scenario(world):
        world.send(Booked(trip_id="t")).settle(Flight, error("sold.out"))
        world.settle(Hotel, ok(Ref(ref="h"))).settle(Undo, ok(Ref(ref="h")))
        return world.cell(trip, "t").status, [params.ref for params in world.params(Undo)]

    assert crash_everywhere(app, scenario).crashes > 20
