"""Three workflows that know only each other's events (pattern B)."""

from tallystick import Bundle, Ctx, Effect, Nat, Record

app = Bundle("store")


class Ordered(Record):
    order_id: str
    cents: Nat


class Confirmed(Record):
    order_id: str
    cents: Nat


class Shipped(Record):
    order_id: str
    parcel: str


class Parcel(Record):
    parcel: str


class Ship(Effect[Parcel], executor="carrier", timeout="1h"):
    order_id: str


class Order(Record):
    cents: Nat
    parcel: str | None = None


class Shipment(Record):
    order_id: str


class Book(Record):
    orders: Nat = 0
    cents: Nat = 0
    parcels: Nat = 0


@app.workflow(key="order_id", summary="confirms, and ends when the parcel is on its way")
def order(state: Order | None, event: Ordered | Shipped, ctx: Ctx) -> Order | None:
    match state, event:
        case None, Ordered(order_id=order_id, cents=cents):
            ctx.emit(Confirmed(order_id=order_id, cents=cents))
            return Order(cents=cents)
        case Order(parcel=None), Shipped(parcel=parcel):
            ctx.complete(parcel)
            return state.replace(parcel=parcel)
    return state


@app.workflow(key="order_id", effects=[Ship], summary="hands a parcel to the carrier")
def shipping(state: Shipment | None, event: Confirmed | Ship.Settled, ctx: Ctx) -> Shipment | None:
    match event:
        case Confirmed(order_id=order_id) if state is None:
            ctx.effect(Ship(order_id=order_id), key="ship")
            return Shipment(order_id=order_id)
        case Ship.Ok(value=Parcel(parcel=parcel)):
            ctx.emit(Shipped(order_id=state.order_id, parcel=parcel))
            ctx.complete(parcel)
        case Ship.Failed(code=code):
            ctx.fail("shipping.failed", code)
    return state


@app.workflow(lifecycle="entity", summary="sums up, and asks for nothing")
def ledger(state: Book | None, event: Confirmed | Shipped, ctx: Ctx) -> Book:
    book = state or Book()
    match event:
        case Confirmed(cents=cents):
            return book.replace(orders=book.orders + 1, cents=book.cents + cents)
        case Shipped():
            return book.replace(parcels=book.parcels + 1)
    return book
