"""The one workflow of the acceptance kit: charge on an odd amount, wait for a due time."""

from tallystick import Bundle, Ctx, Http, Nat, Record, Timer

app = Bundle("kit")


class Order(Record):
    id: str
    cents: Nat
    sink: str
    due_ns: Nat | None = None
    timeout_ns: Nat | None = None


class Charged(Record):
    id: str
    phase: str
    heard: Nat = 0


@app.workflow(key={Order: "id"}, effects=[Http, Timer])
def charge(state: Charged | None, event: Order | Http.Settled | Timer.Settled, ctx: Ctx) -> Charged:
    match event:
        case Order():
            return ask(event, ctx)
        case _:
            ctx.complete("heard")
            return state.replace(phase="heard", heard=state.heard + 1)


def ask(order: Order, ctx: Ctx) -> Charged:
    new = Charged(id=order.id, phase="asked")
    if order.due_ns is not None:
        ctx.timer(order.due_ns, corr=order.id)
    elif order.cents % 2 == 1:
        call = Http(method="POST", url=order.sink, body=f"charge:{order.id}.".encode())
        ctx.effect(call, corr=order.id, timeout=order.timeout_ns)
    else:
        ctx.complete("even")
        return new.replace(phase="even")
    return new
