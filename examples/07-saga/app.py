"""Book a trip: two acts in parallel, an approval in time, or everything is undone."""

from tallystick import (
    Backoff,
    Bundle,
    Cancelled,
    Effect,
    EffectFailed,
    Fail,
    Flow,
    FlowTimeout,
    Record,
    effect,
    gather,
    receive,
    timeout,
)

app = Bundle("travel")


class Booked(Record):
    trip_id: str


class Approved(Record):
    trip_id: str
    by: str


class Ticket(Record):
    ref: str
    by: str


class Ref(Record):
    ref: str


class Hotel(Effect[Ref], executor="hotel"):
    trip: str


class Flight(Effect[Ref], executor="flight"):
    trip: str


class Undo(Effect[Ref], executor="undo", timeout="1m"):
    ref: str


@app.workflow(key="trip_id", effects=[Hotel, Flight, Undo])
async def trip(ctx: Flow, start: Booked) -> Ticket:
    undo: list[str] = []

    async def book(what: Hotel | Flight) -> str:  # an act, and how to undo it
        ref = (await effect(what, key=what.trip, timeout="1m")).ref
        undo.append(ref)
        return ref

    try:
        _, flight = await gather(book(Hotel(trip=start.trip_id)), book(Flight(trip=start.trip_id)))
        async with timeout("2d"):
            said = await receive(Approved)
        return Ticket(ref=flight, by=said.by)
    except (EffectFailed, FlowTimeout, Cancelled) as why:
        for ref in reversed(undo):  # awaits are allowed while compensating
            await effect(Undo(ref=ref), key=ref, retry=Backoff(attempts=10))
        raise Fail("trip.undone", str(why)) from why
