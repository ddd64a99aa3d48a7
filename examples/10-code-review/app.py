"""Review a pull request: fetch the change, ask a model, leave a comment, tell the world (X-25)."""

from typing import Literal

from tallystick import Bundle, Ctx, Http, Llm, Record

app = Bundle("review")
API = "https://api.example.com"


class PROpened(Record):
    pr: str
    repository: str


class PRReviewed(Record):
    pr: str
    verdict: str


class Review(Record):
    pr: str
    repository: str
    phase: Literal["fetching", "reviewing", "commenting", "done", "failed"] = "fetching"
    verdict: str | None = None


def fetch(review: Review, ctx: Ctx) -> Review:
    url = f"{API}/{review.repository}/pulls/{review.pr}.diff"
    ctx.effect(Http(method="GET", url=url), corr="diff", key="diff", timeout="30s")
    return review


def judge(review: Review, diff: bytes, ctx: Ctx) -> Review:
    prompt = [{"role": "user", "content": "Review this change:\n" + diff.decode()}]
    request = Llm(provider="local", model="reviewer", messages=prompt, max_tokens=500)
    ctx.effect(request, corr="review", key="review", timeout="5m")
    return review.replace(phase="reviewing")


def comment(review: Review, verdict: str, ctx: Ctx) -> Review:
    url = f"{API}/{review.repository}/pulls/{review.pr}/comments"
    request = Http(method="POST", url=url, body=verdict.encode())
    ctx.effect(request, corr="comment", key="comment", timeout="30s")
    return review.replace(phase="commenting", verdict=verdict)


@app.workflow(key="pr", effects=[Http, Llm], summary="reviews a pull request, once")
def reviewer(
    state: Review | None, event: PROpened | Http.Settled | Llm.Settled, ctx: Ctx
) -> Review | None:
    match state, event:
        case None, PROpened(pr=pr, repository=repository):
            return fetch(Review(pr=pr, repository=repository), ctx)
        case Review(phase="fetching"), Http.Ok(corr="diff", value=answer):
            return judge(state, answer.body or b"", ctx)
        case Review(phase="reviewing"), Llm.Ok(value=answer):
            return comment(state, answer.text or "no opinion", ctx)
        case Review(phase="commenting"), Http.Ok(corr="comment"):
            ctx.emit(PRReviewed(pr=state.pr, verdict=state.verdict))
            ctx.complete(state.verdict)
            return state.replace(phase="done")
        case Review(), Http.Failed(code=code) | Llm.Failed(code=code):
            ctx.fail("review." + state.phase, code)
            return state.replace(phase="failed")
    return state
