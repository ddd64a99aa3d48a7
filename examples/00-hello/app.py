"""Greet people, and remember how often each of them came."""

from tallystick import Bundle, Ctx, Record

app = Bundle("demo")


class Greet(Record):
    name: str


class Guest(Record):
    visits: int = 0


@app.workflow(key="name", lifecycle="entity")
def greeter(state: Guest | None, event: Greet, ctx: Ctx) -> Guest:
    guest = state or Guest()
    ctx.log("hello", name=event.name, visit=guest.visits + 1)
    return guest.replace(visits=guest.visits + 1)
