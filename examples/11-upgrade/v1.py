"""Version 1 of a small shop: it adds up what a till sold, and prints receipts."""

from tallystick import Bundle, Ctx, Effect, Nat, Record

app = Bundle("till")


class Sold(Record):
    till: str
    cents: Nat


class Printed(Record):
    number: Nat


class Print(Effect[Printed], executor="printer", timeout="1m"):
    cents: Nat


class Till(Record):
    cents: Nat = 0
    receipts: Nat = 0


@app.workflow(key="till", lifecycle="entity", effects=[Print])
def till(state: Till | None, event: Sold | Print.Settled, ctx: Ctx) -> Till:
    held = state or Till()
    match event:
        case Sold(cents=cents):
            ctx.effect(Print(cents=cents), key=f"sale/{ctx.seq}")
            return held.replace(cents=held.cents + cents)
        case Print.Ok():
            return held.replace(receipts=held.receipts + 1)
        case Print.Failed(code=code):
            ctx.log("no receipt", code=code)
    return held
