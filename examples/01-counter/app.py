"""A counter with a ceiling: a state machine without effects, in the class form."""

from typing import Literal

from tallystick import Bundle, Ctx, Nat, Record

app = Bundle("counter")


class Add(Record):
    name: str
    n: Nat


class Reset(Record):
    name: str


class Count(Record):
    total: Nat
    phase: Literal["open", "full"] = "open"


class Full(Record):
    name: str
    total: Nat


CEILING = 10


@app.workflow(key="name", lifecycle="entity", summary="counts to ten")
class counter:
    @staticmethod
    def init(ctx: Ctx, event: Add | Reset) -> Count:
        return Count(total=0)

    @staticmethod
    def tick(state: Count | None, event: Add | Reset, ctx: Ctx) -> Count | None:
        match state, event:
            case _, Reset():
                return None
            case Count(phase="open", total=total), Add(n=n) if total + n >= CEILING:
                ctx.emit(Full(name=event.name, total=total + n))
                return Count(total=total + n, phase="full")
            case Count(phase="open", total=total), Add(n=n):
                return Count(total=total + n)
        ctx.count("ignored")
        return state
