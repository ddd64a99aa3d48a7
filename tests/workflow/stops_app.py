"""A workflow that the lane stops, as a file that tests import."""

from tallystick import Bundle, Ctx, Record

app = Bundle("stops")


class Go(Record):
    key: str


class Done(Record):
    n: int = 0


def same(given: frozenset[str]) -> frozenset[str]:
    return given


@app.workflow(key="key", limits={"fuel": 1000})
def run(state: Done | None, event: Go, ctx: Ctx) -> Done:
    n = 0
    if event.key == "order":
        for word in same(frozenset(["a", "b"])):
            n += len(word)
    while event.key == "loop" and n < 5000:
        n += 1
    return Done(n=n)
