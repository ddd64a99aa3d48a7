"""`http.request` against real servers on loopback: the exchange, its bounds and its failures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import ExecutorPorts, Failed, Job, Ok
from tallystick.executors.http import Doors, HttpExecutor, make
from tallystick.executors.scrub import Scrubber
from tallystick.model.sys_definitions import type_of
from tallystick.values.schema import compile_schema
from tests.executors.jobs import Heard, MemoryBlobs, job, literal, secret
from tests.executors.servers import Answer, Asked, serving

RECEIPT = compile_schema("r", type_of("sys/HttpRequestReceipt@1"), type_of)
PARAMS = compile_schema("p", type_of("sys/HttpRequestParams@1"), type_of)
LOOPBACK = {"cidrs": ["127.0.0.0/8", "::1/128"]}
PORTS = ExecutorPorts(Path(), None, lambda: 1_000)


def asking(url: str, method: str = "GET", **more: Any) -> Job:
    """A job for one request, under a grant that names loopback unless another is given."""
    about = {name: more.pop(name) for name in ("secrets", "blobs", "deadline_ns") if name in more}
    grant = more.pop("grant", LOOPBACK)
    params = PARAMS.admit({"method": method, "url": url, **more}).value
    return job("sys/http.request@1", params, grant=grant, **about)


async def perform(made: Job, settings: Mapping[str, Any] | None = None, **doors: Any) -> Any:
    """The outcome of a job; an Ok must fit the receipt schema of the effect."""
    executor = HttpExecutor(settings or {}, PORTS, Doors(**doors))
    outcome = await executor.perform(made, Heard())
    await executor.cancel(made)
    await executor.close()
    if isinstance(outcome, Ok):
        return RECEIPT.admit(outcome.value).value
    assert isinstance(outcome, Failed)
    return outcome


def test_an_exchange_comes_back_whole() -> None:
    """04 section 6: all of the request goes out with the dispatch key; the answer comes back."""

    # tidy: one request and one answer, compared field by field
    async def run() -> None:
        # tidy: the same
        repeated = (("X-A", "1"), ("x-a", "2"), ("set-cookie", "a"), ("set-cookie", "b"))
        answer = Answer(404, repeated, b"no")
        async with serving(lambda _: answer) as site:
            url = f"http://127.0.0.1:{site.port}/a/b?c=%20d"
            headers = {"X-Key": secret("k"), "accept": literal("text/plain")}
            got = await perform(
                asking(
                    url,
                    "POST",
                    headers=headers,
                    body=b"hi",
                    secrets={"/headers/X-Key": "s3cret-value"},
                )
            )
        (asked,) = site.asked
        assert (asked.method, asked.target, asked.body) == ("POST", "/a/b?c=%20d", b"hi")
        assert asked.headers == {
            "host": f"127.0.0.1:{site.port}",
            "connection": "close",
            "x-key": "s3cret-value",
            "accept": "text/plain",
            "user-agent": "tallystick",
            "accept-encoding": "gzip",
            "idempotency-key": "02" * 32,
            "content-length": "2",
        }
        assert (got["status"], got["url"], got["body"], got["size"]) == (404, url, b"no", 2)
        assert got["headers"] == {
            "x-a": "1, 2",
            "set-cookie": "a\nb",
            "content-length": "2",
            "connection": "close",
        }
        assert set(got["timings"]) == {"resolve_ns", "connect_ns", "first_byte_ns", "total_ns"}

    asyncio.run(run())


def test_bodies_go_by_reference_when_large() -> None:
    """04 section 6: 64 KiB inline, more is a blob; a body may come from a blob."""

    async def run() -> None:
        blobs = MemoryBlobs()
        sent = blobs.put(b"stored")
        sizes = {"/at": 65_536, "/over": 65_537}
        async with serving(lambda asked: Answer(body=b"x" * sizes[asked.target])) as site:
            base = f"http://127.0.0.1:{site.port}"
            at = await perform(asking(f"{base}/at", "PUT", body_ref=sent, blobs=blobs))
            over = await perform(asking(f"{base}/over", blobs=blobs))
            lost = await perform(asking(f"{base}/at", body_ref="sha256:" + "0" * 64))
            both = await perform(asking(f"{base}/at", body=b"", body_ref=sent, blobs=blobs))
        assert site.asked[0].body == b"stored"
        assert (len(at["body"]), at["body_ref"]) == (65_536, None)
        assert over["body"] is None
        assert blobs.held[over["body_ref"]] == b"x" * 65_537
        assert (lost.kind, lost.code) == ("not_found", "blob.unknown")
        assert (both.kind, both.code) == ("schema", "http.two_bodies")
        assert len(site.asked) == 2

    asyncio.run(run())


def test_a_head_without_body_is_an_answer() -> None:
    """04 section 5: HEAD, and a status after interim ones."""

    async def run() -> None:
        interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
        async with serving(
            lambda a: Answer(raw=interim) if a.method == "GET" else Answer(body=b"xyz")
        ) as site:
            url = f"http://127.0.0.1:{site.port}"
            head, get = await perform(asking(url, "HEAD")), await perform(asking(f"{url}?q"))
        assert (head["status"], head["size"], head["headers"]["content-length"]) == (200, 0, "3")
        assert get["status"] == 204
        assert [asked.target for asked in site.asked] == ["/", "/?q"]

    asyncio.run(run())


def test_what_may_have_arrived_is_not_called_retryable() -> None:
    """04 section 5: a retry is harmless before the request is out, then for safe methods only."""

    async def run() -> None:
        async with serving(lambda _: Answer(cut=True, raw=b"")) as site:
            url = f"http://127.0.0.1:{site.port}/"
            got = [await perform(asking(url, method)) for method in ("GET", "POST")]
        gone = await perform(asking(url, "POST"))
        assert [(each.code, each.retryable) for each in got] == [
            ("http.cut", True),
            ("http.cut", False),
        ]
        assert (gone.code, gone.retryable) == ("http.unreachable", True)

    asyncio.run(run())


# tidy: a clock, a server and three requests.
def test_time_is_limited() -> None:
    """X-10: the setting, or the deadline of the job on the node's clock, whichever is sooner."""

    class Leaping(asyncio.SelectorEventLoop):
        """Time leaps once a request has come, however long that took."""

        ahead_s = 0.0

        def time(self) -> float:
            return super().time() + self.ahead_s

    async def never(_: Asked) -> Answer:
        loop.ahead_s += 55
        await asyncio.sleep(30)
        return Answer()  # to one that waits longer than it may

    async def run() -> None:
        async with serving(never) as site:
            url = f"http://127.0.0.1:{site.port}/"
            limit = {"timeout_s": 1_000}
            setting = await perform(asking(url), {"timeout_s": 50})
            deadline = await perform(asking(url, "POST", deadline_ns=50 * 10**9), limit)
            over = await perform(asking(url, deadline_ns=1), limit)
        assert [(each.kind, each.code) for each in (setting, deadline, over)] == [
            ("timeout", "http.timeout")
        ] * 3
        assert [each.retryable for each in (setting, deadline, over)] == [True, False, True]
        assert site.connections == 2, "what is late already is not begun"

    with asyncio.Runner(loop_factory=Leaping) as runner:
        loop: Any = runner.get_loop()
        runner.run(run())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "other.example"),
        ("content-length", "9"),
        ("Transfer-Encoding", "chunked"),
        ("Idempotency-Key", "mine"),
        ("Proxy-Authorization", "x"),
        ("X-Split", "a\r\nX-Other: b"),
        ("X-Wide", "€"),
        ("X-Näme", "a"),
        ("X Name", "a"),
        ("", "a"),
    ],
)
def test_headers_that_may_not_be_sent(name: str, value: str) -> None:
    """04 section 6: framing, the host and the dispatch key are ours; a value is one line."""

    async def run() -> None:
        async with serving(lambda _: Answer()) as site:
            url = f"http://127.0.0.1:{site.port}/"
            got = await perform(asking(url, headers={name: literal(value)}))
        assert got.kind == "schema"
        assert got.code in ("http.bad_header", "http.bad_request")
        assert not site.asked

    asyncio.run(run())


@pytest.mark.clause("K-04")
@pytest.mark.parametrize("value", ["pa'ss\"word ", " p\u00e4ssw\u00f6rt"])
def test_a_secret_that_cannot_be_sent_is_not_quoted(value: str) -> None:
    """ND-19: a secret with a blank at an end was told in the failure, in a spelling of Python."""

    async def run() -> None:
        async with serving(lambda _: Answer()) as site:
            url = f"http://127.0.0.1:{site.port}/"
            made = asking(url, headers={"X-Key": secret("api")}, secrets={"/headers/X-Key": value})
            got = await perform(made)
        told = Scrubber.of(made).outcome(got)
        assert (told.kind, told.code) == ("schema", "http.bad_header")
        assert "ssw" not in told.message
        assert "X-Key" in told.message

    asyncio.run(run())


def test_one_host_gets_few_connections_at_a_time() -> None:
    """04 section 8: `per_host` bounds what one server sees; all are served in the end."""

    async def run(per_host: int) -> int:
        async def together(_: Asked) -> Answer:
            # As many as may come are waited for, and nobody is answered before.
            await asyncio.sleep(0.01)
            while site.open_now < min(per_host, 12 - answered[0]):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.001)
            answered[0] += 1
            return Answer()

        answered = [0]
        async with serving(together) as site:
            executor = HttpExecutor({"per_host": per_host}, PORTS)
            jobs = [asking(f"http://127.0.0.1:{site.port}/") for _ in range(12)]
            done = await asyncio.gather(*(executor.perform(each, Heard()) for each in jobs))
        assert all(isinstance(each, Ok) for each in done)
        assert not executor._hosts._gates
        return site.open_most

    assert asyncio.run(run(2)) == 2
    assert asyncio.run(run(12)) == 12, "control: without the bound they come at once"


def test_the_factory_reads_its_settings() -> None:
    """04 section 8: slots and bounds come from settings."""
    executor = make({"slots": 3, "per_host": 2}, PORTS)
    assert (executor.name, executor.slots, executor.repeat) == ("http", 3, "keyed")
    assert executor.effects == {"sys/http.request@1"}
