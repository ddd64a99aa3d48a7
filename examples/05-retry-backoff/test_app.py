"""Waits grow by three, up to the ceiling; then it gives up."""

from app import Http, Wanted, app, fetch
from tallystick.testing import TestWorld, error, ok, timeout

URL = "https://api.example.com/page"


def answer(status):
    return ok(
        {
            "status": status,
            "url": URL,
            "headers": {},
            "body": b"",
            "body_ref": None,
            "size": 0,
            "timings": {},
        }
    )


def test_it_waits_and_tries_again():
    world = TestWorld(app)
    world.script(Http, [answer(503), timeout(), error("net.down"), answer(200)])
    world.send(Wanted(url=URL)).advance("1s")
    assert world.cell(fetch, URL).state.retry.attempt >= 1
    world.advance("5m")
    state = world.cell(fetch, URL).state
    assert (state.phase, state.status, state.retry.attempt) == ("done", 200, 3)
    world.assert_replays()


def test_it_gives_up():
    world = TestWorld(app)
    world.script(Http, [answer(500)] * 5).send(Wanted(url=URL)).advance("10m")
    assert world.cell(fetch, URL).status == "failed"
    assert len(world.params(Http)) == 5
    world.assert_replays()
