"""The counter of example 01 as a function; beside it the same program in C, AssemblyScript, WAT.

The definitions are these, whatever the code is written in: only the module differs.
"""

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
def counter(state: Count | None, event: Add | Reset, ctx: Ctx) -> Count | None:
    match state or Count(total=0), event:
        case _, Reset():
            return None
        case Count(phase="open", total=total), Add(n=n) if total + n >= CEILING:
            ctx.emit(Full(name=event.name, total=total + n))
            return Count(total=total + n, phase="full")
        case Count(phase="open", total=total), Add(n=n):
            return Count(total=total + n)
    ctx.count("ignored")
    return state
