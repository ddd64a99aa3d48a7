"""Redirects of `http.request`: what is asked next, and what stays behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.executors.jobs import literal, secret
from tests.executors.servers import Answer, Asked, serving, tls_client, tls_server
from tests.executors.test_http import asking, perform

REDIRECTS = [
    # status, method, body -> method and body of the next request
    (301, "POST", b"b", "GET", b""),
    (302, "POST", b"b", "GET", b""),
    (303, "PUT", b"b", "GET", b""),
    (303, "HEAD", None, "HEAD", b""),
    (301, "PUT", b"b", "PUT", b"b"),
    (307, "POST", b"b", "POST", b"b"),
    (308, "DELETE", None, "DELETE", b""),
]


@pytest.mark.parametrize(("status", "method", "body", "then", "sent"), REDIRECTS)
def test_redirects_do_what_their_status_says(
    status: int, method: str, body: bytes | None, then: str, sent: bytes
) -> None:
    """04 section 6: method and body of the next request; the same origin keeps its headers."""

    def answer(asked: Asked) -> Answer:
        return Answer(status, (("location", "to"),)) if asked.target == "/a/from" else Answer()

    async def run() -> None:
        async with serving(answer) as site:
            headers = {"authorization": literal("mine"), "content-type": literal("text/plain")}
            url = f"http://127.0.0.1:{site.port}/a/from"
            got = await perform(asking(url, method, body=body, headers=headers, redirects=1))
        # Another process may ask at a port that was its own a moment ago.
        first, last = [asked for asked in site.asked if asked.target.startswith("/a/")]
        assert (got["status"], got["url"]) == (200, url.replace("from", "to"))
        assert (last.method, last.target, last.body) == (then, "/a/to", sent)
        assert last.headers["authorization"] == "mine"
        assert ("content-type" in last.headers) == (then == method)
        assert last.headers["idempotency-key"] == first.headers["idempotency-key"]

    asyncio.run(run())


def test_the_last_redirect_is_an_answer() -> None:
    """04 section 5: more hops than params allow, or none at all: the 302 itself is the outcome."""

    async def run() -> None:
        async with serving(lambda _: Answer(302, (("location", "/again"),))) as site:
            url = f"http://127.0.0.1:{site.port}/"
            none = await perform(asking(url))
            two = await perform(asking(url, redirects=2))
            count = len(site.asked)
            many = await perform(asking(url, redirects=1_000))
        assert (none["status"], two["status"], many["status"]) == (302, 302, 302)
        assert none["headers"]["location"] == "/again"
        assert (count, len(site.asked)) == (4, 15)

    asyncio.run(run())


def test_credentials_do_not_cross_origins() -> None:
    """04 section 6: authorisation, cookies, keys and secrets stay with the origin they were for."""

    async def run() -> None:
        async with serving(lambda _: Answer(body=b"ok")) as other:
            away = Answer(307, (("location", f"http://127.0.0.1:{other.port}/"),))
            async with serving(lambda _: away) as site:
                names = ("Authorization", "Cookie", "X-Api-Key", "X-Any")
                headers: dict[str, Any] = {name: literal("canary-1") for name in names}
                headers |= {"X-Secret": secret("k"), "Accept": literal("text/plain")}
                got = await perform(
                    asking(
                        f"http://127.0.0.1:{site.port}/",
                        headers=headers,
                        redirects=1,
                        secrets={"/headers/X-Secret": "canary-2"},
                    )
                )
        assert got["body"] == b"ok"
        assert "canary-1" in str(site.asked[0]), "control: the first origin gets them"
        assert "canary-2" in str(site.asked[0])
        assert "canary" not in str(other.asked[0])
        assert other.asked[0].headers["accept"] == "text/plain"

    asyncio.run(run())


def test_a_redirect_does_not_leave_tls() -> None:
    """04 section 6: from https to http is refused, whatever the grant says about schemes."""

    async def run() -> None:
        async with serving(lambda _: Answer()) as plain:
            away = Answer(302, (("location", f"http://127.0.0.1:{plain.port}/"),))
            async with serving(lambda _: away, tls=tls_server()) as site:
                made = asking(
                    f"https://front.example:{site.port}/",
                    redirects=1,
                    grant={"cidrs": ["127.0.0.0/8"]},
                )
                got = await perform(made, resolve=_here, tls=tls_client)
        assert (got.kind, got.code) == ("scope", "http.downgrade")
        assert plain.connections == 0

    asyncio.run(run())


async def _here(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize("place", ["http://[::1", "http://[bad]/", "//[x"])
def test_a_redirect_to_what_is_no_url_is_refused(place: str) -> None:
    """X-24: what a server names as the next place may be anything; it is no crash of ours."""

    async def run() -> None:
        async with serving(lambda _: Answer(302, (("location", place),))) as site:
            got = await perform(asking(f"http://127.0.0.1:{site.port}/", redirects=2))
        assert (got.kind, got.code) == ("scope", "http.refused")
        assert len(site.asked) == 1

    asyncio.run(run())
