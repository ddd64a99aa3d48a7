"""Whichever comes first: the answer, or the deadline (pattern C)."""

from typing import Literal

from tallystick import Bundle, Ctx, Effect, Record, Timer

app = Bundle("desk")


class Asked(Record):
    ticket: str


class Answer(Record):
    text: str


class Expert(Effect[Answer], executor="expert"):
    ticket: str


class Ticket(Record):
    ticket: str
    phase: Literal["waiting", "answered", "escalated"] = "waiting"
    text: str | None = None


class Escalated(Record):
    ticket: str


@app.workflow(key="ticket", effects=[Expert, Timer])
def desk(
    state: Ticket | None, event: Asked | Expert.Settled | Timer.Settled, ctx: Ctx
) -> Ticket | None:
    match state, event:
        case None, Asked(ticket=ticket):
            ctx.effect(Expert(ticket=ticket), corr="answer", key="ask")
            ctx.timer("1h", corr="deadline")
            return Ticket(ticket=ticket)
        case Ticket(phase="waiting"), Expert.Ok(value=Answer(text=text)):
            ctx.cancel("deadline")
            ctx.complete(text)
            return state.replace(phase="answered", text=text)
        case Ticket(phase="waiting"), Timer.Ok(corr="deadline"):
            ctx.cancel("answer")
            ctx.emit(Escalated(ticket=state.ticket))
            ctx.complete()
            return state.replace(phase="escalated")
        case Ticket(phase="waiting"), Expert.Failed():
            return state  # the deadline decides
    return state
