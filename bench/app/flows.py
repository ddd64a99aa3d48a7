"""What the benchmarks run: from a bundle, in the metered lane, as users have it."""

from tallystick import Bundle, Call, Ctx, Effect, Nat, Record

app = Bundle(
    "bench",
    limits={"effects_max": 20_000, "inflight_max": 20_000, "output_bytes_max": 16_000_000},
)


class Start(Record):
    name: str
    steps: Nat


class Stepped(Record):
    at: Nat


class Step(Effect[Stepped], executor="bench", timeout="1h"):
    name: str
    at: Nat


class Stage(Record):
    at: Nat
    steps: Nat


class Park(Record):
    name: str


class Wake(Record):
    name: str


class Parked(Record):
    since: Nat


class Note(Record):
    name: str
    by: Nat


class Tally(Record):
    count: Nat


class Family(Record):
    name: str
    children: Nat


class Left(Record):
    left: Nat


@app.workflow(key="name", effects=[Step])
def chain(state: Stage | None, event: Start | Step.Settled, ctx: Ctx) -> Stage | None:
    """So many durable steps, one after the other."""
    match event:
        case Start(name=name, steps=steps) if state is None:
            ctx.effect(Step(name=name, at=1))
            return Stage(at=1, steps=steps)
        case Step.Ok() if state.at < state.steps:
            ctx.effect(Step(name=ctx.key, at=state.at + 1))
            return state.replace(at=state.at + 1)
        case Step.Ok():
            ctx.complete(state.at)
        case Step.Failed(code=code):
            ctx.fail(code)
    return state


@app.workflow(key="name")
def parked(state: Parked | None, event: Park | Wake, ctx: Ctx) -> Parked | None:
    """Wait to be woken."""
    match event:
        case Park() if state is None:
            return Parked(since=ctx.now)
        case Wake() if state is not None:
            ctx.complete(state.since)
    return state


@app.workflow(key="name", lifecycle="entity")
def counter(state: Tally | None, event: Note, ctx: Ctx) -> Tally:
    """Add."""
    del ctx
    return Tally(count=(0 if state is None else state.count) + event.by)


@app.workflow(key="name", children=[chain])
def parent(state: Left | None, event: Family | Call.Settled, ctx: Ctx) -> Left | None:
    """Call every child at once; done when each has been heard."""
    match event:
        case Family(name=name, children=children) if state is None:
            for number in range(children):
                child = f"{name}/{number}"
                ctx.call(chain, child, Start(name=child, steps=1))
            return Left(left=children)
        case Call.Ok():
            state = state.replace(left=state.left - 1)
            if state.left == 0:
                ctx.complete(0)
        case Call.Failed(code=code):
            ctx.fail(code)
    return state
