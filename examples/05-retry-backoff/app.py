"""Fetch a page with patience: attempts and waits stand in the state, where everybody sees them."""

from typing import Literal

from tallystick import Backoff, Bundle, Ctx, Http, Record, Retry, Timer

app = Bundle("fetch")
PATIENCE = Backoff(first="1s", factor=3, ceiling="1m", attempts=5)


class Wanted(Record):
    url: str


class Page(Record):
    url: str
    phase: Literal["asking", "pausing", "done", "gone"] = "asking"
    status: int | None = None
    retry: Retry = Retry()


def ask(page: Page, ctx: Ctx) -> Page:
    request = Http(method="GET", url=page.url)
    ctx.effect(request, key=f"get/{page.retry.attempt}", timeout="10s")
    return page.replace(phase="asking")


def pause(page: Page, ctx: Ctx) -> Page:
    retry, wait = page.retry.again(PATIENCE, ctx)
    if wait is None:
        ctx.fail("fetch.exhausted", page.url)
        return page.replace(phase="gone", retry=retry)
    ctx.timer(wait, corr="again")
    return page.replace(phase="pausing", retry=retry)


@app.workflow(key="url", effects=[Http, Timer])
def fetch(
    state: Page | None, event: Wanted | Http.Settled | Timer.Settled, ctx: Ctx
) -> Page | None:
    match state, event:
        case None, Wanted(url=url):
            return ask(Page(url=url), ctx)
        case Page(phase="asking"), Http.Ok(value=answer) if answer.status >= 500:
            return pause(state, ctx)
        case Page(phase="asking"), Http.Ok(value=answer):
            ctx.complete(answer.status)
            return state.replace(phase="done", status=answer.status)
        case Page(phase="asking"), Http.Denied(code=code):
            ctx.fail(code)
            return state.replace(phase="gone")
        case Page(phase="asking"), Http.Failed():
            return pause(state, ctx)
        case Page(phase="pausing"), Timer.Ok(corr="again"):
            return ask(state, ctx)
    return state


# For `tally check`: an address that a grant can allow.
app.check(fetch, events=[Wanted(url="http://example.com/")])
