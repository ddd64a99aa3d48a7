"""Decide on another cell's state, read at one moment and on record (X-27)."""

from tallystick import Bundle, Ctx, Nat, Read, Record

app = Bundle("stock")


class Delivered(Record):
    sku: str
    n: Nat


class Reserve(Record):
    order_id: str
    sku: str
    n: Nat


class Reserved(Record):
    order_id: str
    enough: bool


class Shelf(Record):
    n: Nat


class Reservation(Record):
    order_id: str
    n: Nat


@app.workflow(key="sku", lifecycle="entity")
def shelf(state: Shelf | None, event: Delivered, ctx: Ctx) -> Shelf:
    return Shelf(n=event.n + (0 if state is None else state.n))


@app.workflow(key="order_id", reads=[shelf])
def reserve(
    state: Reservation | None, event: Reserve | Read.Settled, ctx: Ctx
) -> Reservation | None:
    match event:
        case Reserve(order_id=order_id, sku=sku, n=n):
            ctx.read(shelf, sku)
            return Reservation(order_id=order_id, n=n)
        case Read.Ok(value=found):
            enough = found is not None and found.n >= state.n
            ctx.emit(Reserved(order_id=state.order_id, enough=enough))
            ctx.complete(enough)
        case Read.Failed(code=code):
            ctx.fail(code)
    return state
