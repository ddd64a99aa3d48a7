"""The third world of the kit: work that lasts, in versions; each version leaves its number."""

from tallystick import Bundle, Ctx, Effect, Nat, Record

VERSION = 1
app = Bundle("versions")


class Begin(Record):
    id: str
    ask: bool = False


class End(Record):
    id: str


class Stamped(Record):
    ref: str


class Stamp(Effect[Stamped], executor="stamper", timeout="1h"):
    id: str


class Held(Record):
    began: Nat
    ended: Nat = 0


@app.workflow(key="id", effects=[Stamp])
def job(state: Held | None, event: Begin | End | Stamp.Settled, ctx: Ctx) -> Held:
    """Lasts from its beginning to its end; a receipt ends it too."""
    match event:
        case Begin(id=name, ask=ask):
            if ask:
                ctx.effect(Stamp(id=name))
            return Held(began=VERSION)
        case _:
            ctx.complete("ended")
            return (state or Held(began=0)).replace(ended=VERSION)
