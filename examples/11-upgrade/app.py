"""Version 2 of a small shop: older events and states are read as newer ones."""

from tallystick import Bundle, Ctx, Effect, Nat, Record

app = Bundle("till")


class Sold(Record):
    till: str
    cents: Nat


class SoldIn(Record, name="Sold", version=2):
    till: str
    cents: Nat
    currency: str


class Printed(Record):
    number: Nat


class Print(Effect[Printed], executor="printer", timeout="1m"):
    cents: Nat


class TillBefore(Record, name="Till"):
    cents: Nat = 0
    receipts: Nat = 0


class Till(Record, version=2):
    cents: Nat = 0
    receipts: Nat = 0
    foreign: Nat = 0


@app.upcast(Sold, SoldIn)
def sold_1_2(old: Sold) -> SoldIn:
    return SoldIn(till=old.till, cents=old.cents, currency="EUR")


@app.workflow(key="till", lifecycle="entity", effects=[Print], state_version=2)
def till(state: Till | None, event: SoldIn | Print.Settled, ctx: Ctx) -> Till:
    held = state or Till()
    match event:
        case SoldIn(cents=cents, currency="EUR"):
            ctx.effect(Print(cents=cents), key=f"sale/{ctx.seq}")
            return held.replace(cents=held.cents + cents)
        case SoldIn():
            return held.replace(foreign=held.foreign + 1)
        case Print.Ok():
            return held.replace(receipts=held.receipts + 1)
        case Print.Failed(code=code):
            ctx.log("no receipt", code=code)
    return held


@app.migrate(till, 1, 2)
def till_1_2(old: TillBefore) -> Till:
    return Till(cents=old.cents, receipts=old.receipts)
