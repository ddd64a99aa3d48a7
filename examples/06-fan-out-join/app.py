"""Count the words of many pages: one child cell per page, joined in any order (X-18)."""

from tallystick import Bundle, Call, Ctx, Effect, Nat, Record

app = Bundle("words")


class Job(Record):
    job: str
    pages: list[str]


class Page(Record):
    page: str


class Words(Record):
    words: Nat


class Count(Effect[Words], executor="counter", timeout="1m"):
    page: str


class Counting(Record):
    page: str


class Sum(Record):
    left: Nat
    words: Nat = 0
    lost: tuple[str, ...] = ()


@app.workflow(key="page", effects=[Count])
def page(state: Counting | None, event: Page | Count.Settled, ctx: Ctx) -> Counting | None:
    match event:
        case Page(page=name):
            ctx.effect(Count(page=name), key="count")
            return Counting(page=name)
        case Count.Ok(value=Words(words=words)):
            ctx.complete(words)
        case Count.Failed(code=code):
            ctx.fail(code)
    return state


@app.workflow(key="job", children=[page], limits={"effects_max": 64})
def job(state: Sum | None, event: Job | Call.Settled, ctx: Ctx) -> Sum | None:
    match event:
        case Job(pages=pages) if state is None:
            for name in pages:
                ctx.call(page, name, Page(page=name), corr=name)
            return Sum(left=len(pages))
        case Call.Ok(value=words):
            state = state.replace(left=state.left - 1, words=state.words + words)
        case Call.Failed(corr=corr):
            state = state.replace(left=state.left - 1, lost=(*state.lost, corr))
    if state is not None and state.left == 0:
        ctx.complete(state.words)
    return state
