"""The whole walk against stand-ins, each of its failures, and one review per request."""

import pytest
from app import Http, Llm, PROpened, PRReviewed, app, reviewer
from tallystick.testing import TestWorld, error, ok


def page(body):
    return ok(
        {
            "status": 200,
            "url": "https://api.example.com/",
            "headers": {},
            "body": body,
            "body_ref": None,
            "size": len(body),
            "timings": {},
        }
    )


VERDICT = ok(
    {
        "text": "Looks good.",
        "output_ref": "sha256:" + "0" * 64,
        "finish": "stop",
        "usage": {"calls": 1, "tokens": 9, "cents": 0},
    }
)


def opened():
    return TestWorld(app).send(PROpened(pr="7", repository="acme/site"))


def test_a_pull_request_is_reviewed():
    world = opened().settle(Http, page(b"+ line")).settle(Llm, VERDICT).settle(Http, page(b""))
    assert world.events(PRReviewed) == [PRReviewed(pr="7", verdict="Looks good.")]
    assert [params.method for params in world.params(Http)] == ["GET", "POST"]
    world.send(PROpened(pr="7", repository="acme/site"))
    assert len(world.params(Llm)) == 1
    world.assert_replays()


@pytest.mark.parametrize("at", ["fetching", "reviewing", "commenting"])
def test_each_failure_is_named(at):
    world = opened()
    if at != "fetching":
        world.settle(Http, page(b"+ line"))
    if at == "commenting":
        world.settle(Llm, VERDICT)
    world.settle(Llm if at == "reviewing" else Http, error("down"))
    assert world.cell(reviewer, "7").status == "failed"
    assert world.events(PRReviewed) == []
    world.assert_replays()
