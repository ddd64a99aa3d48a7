"""Charge an order once, whatever the payment service does (pattern A)."""

from typing import Literal

from tallystick import Backoff, Bundle, Ctx, Effect, Record, Retry, Timer

app = Bundle("shop")
BACKOFF = Backoff(first="1s", factor=2, ceiling="1m", attempts=4)


class Placed(Record):
    order_id: str
    cents: int


class Paid(Record):
    order_id: str
    ref: str


class Charged(Record):
    ref: str


class Charge(Effect[Charged], executor="payments"):
    token: str
    cents: int


class Order(Record):
    order_id: str
    cents: int
    phase: Literal["charging", "backoff", "paid", "refused"] = "charging"
    retry: Retry = Retry()


def ask(order: Order, ctx: Ctx) -> Order:
    # A new key per attempt is a new intent; the same token is the same act outside.
    request = Charge(token=order.order_id, cents=order.cents)
    ctx.effect(request, key=f"charge/{order.retry.attempt}", timeout="30s")
    return order.replace(phase="charging")


def refuse(order: Order, ctx: Ctx, code: str) -> Order:
    ctx.fail(code)
    return order.replace(phase="refused")


@app.workflow(key="order_id", effects=[Charge, Timer], summary="charge an order, once")
def orders(
    state: Order | None, event: Placed | Charge.Settled | Timer.Settled, ctx: Ctx
) -> Order | None:
    match state, event:
        case None, Placed(order_id=order_id, cents=cents):
            return ask(Order(order_id=order_id, cents=cents), ctx)
        case Order(phase="charging"), Charge.Ok(value=Charged(ref=ref)):
            ctx.emit(Paid(order_id=state.order_id, ref=ref))
            ctx.complete(ref)
            return state.replace(phase="paid")
        case Order(phase="charging"), Charge.Denied(code=code):
            return refuse(state, ctx, code)
        case Order(phase="charging"), Charge.Error(retryable=False, code=code):
            return refuse(state, ctx, code)
        case Order(phase="charging"), Charge.Failed():
            retry, wait = state.retry.again(BACKOFF, ctx)
            if wait is None:
                return refuse(state, ctx, "payment.exhausted")
            ctx.timer(wait, corr="retry")
            return state.replace(phase="backoff", retry=retry)
        case Order(phase="backoff"), Timer.Ok(corr="retry"):
            return ask(state, ctx)
    return state  # duplicate or late: fenced by the state
