"""Ask people, and decide by default when nobody answers."""

from typing import Literal

from tallystick import Bundle, Ctx, Human, Record, Timer

app = Bundle("spend")


class Requested(Record):
    request_id: str
    cents: int
    purpose: str


class Decided(Record):
    request_id: str
    approved: bool
    by: str


class Request(Record):
    request_id: str
    phase: Literal["asking", "approved", "declined"] = "asking"
    by: str | None = None


def decide(request: Request, ctx: Ctx, approved: bool, by: str) -> Request:
    ctx.emit(Decided(request_id=request.request_id, approved=approved, by=by))
    ctx.complete(approved)
    return request.replace(phase="approved" if approved else "declined", by=by)


@app.workflow(key="request_id", effects=[Human, Timer])
def approval(
    state: Request | None, event: Requested | Human.Settled | Timer.Settled, ctx: Ctx
) -> Request | None:
    match state, event:
        case None, Requested(cents=cents) if cents < 1000:
            return decide(Request(request_id=event.request_id), ctx, True, "rule")
        case None, Requested(request_id=request_id, cents=cents, purpose=purpose):
            question = Human(
                title=f"Spend {cents / 100:.2f}?",
                body=purpose,
                choices=["approve", "decline"],
                to=["finance"],
            )
            ctx.effect(question, corr="ask", key="ask")
            ctx.timer("3d", corr="expiry")
            return Request(request_id=request_id)
        case Request(phase="asking"), Human.Ok(value=answer):
            ctx.cancel("expiry")
            return decide(state, ctx, answer.choice == "approve", answer.by)
        case Request(phase="asking"), Human.Failed(code=code):
            return decide(state, ctx, False, code)
        case Request(phase="asking"), Timer.Ok(corr="expiry"):
            ctx.cancel("ask")
            return decide(state, ctx, False, "expiry")
    return state
