"""HTTP/1.1 over real sockets: order, limits, slow and broken callers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tallystick.api.http1 import AHEAD_MAX, WASTE_MAX
from tests.api.plain import LIMITS, answer, closed, listening, until


def code(body: bytes) -> str:
    return str(json.loads(body)["code"])


def test_one_connection_serves_many_messages_in_order(tmp_path: Path) -> None:
    """04 section 10: kept connections, and messages sent ahead are answered in their order."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            bodies = [b'{"n": %d}' % n for n in range(AHEAD_MAX)]
            head = "POST /echo", "Content-Type: application/json"
            writer.write(wire.head("GET /slow"))
            for body in bodies[:-2]:
                writer.write(wire.head(*head, f"Content-Length: {len(body)}") + body)
            assert (await answer(reader))[2] == b'{"slow":true}'
            for n in range(AHEAD_MAX - 2):
                status, _, got = await answer(reader)
                assert (status, json.loads(got)) == (200, {"got": {"n": n}})
            await closed(writer)

    asyncio.run(run())


def test_a_message_arrives_in_any_pieces(tmp_path: Path) -> None:
    """04 section 10: byte by byte, in chunks, or whole: the same request."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            body = b'{"a": [1, 2, {"b": "\xc3\xa9"}]}'
            kind = "Content-Type: application/json"
            whole = wire.head("POST /echo", kind, f"Content-Length: {len(body)}") + body
            one = await wire.ask(*(whole[i : i + 1] for i in range(len(whole))))
            chunks = b"".join(b"%x\r\n%s\r\n" % (1, body[i : i + 1]) for i in range(len(body)))
            head = wire.head("POST /echo", kind, "Transfer-Encoding: chunked")
            two = await wire.ask(head + chunks + b"0\r\n\r\n")
            three = await wire.ask(whole)
            assert one[0] == two[0] == three[0] == 200
            assert one[2] == two[2] == three[2] == '{"got":{"a":[1,2,{"b":"é"}]}}'.encode()

    asyncio.run(run())


def test_a_body_is_asked_for_only_when_it_is_wanted(tmp_path: Path) -> None:
    """04 section 10: 100-continue comes for an admitted head, the refusal for another."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            more = ("Content-Type: application/json", "Content-Length: 2", "Expect: 100-continue")
            reader, writer = await wire.open()
            writer.write(wire.head("POST /echo", *more))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"{}")
            assert (await answer(reader))[0] == 200
            await closed(writer)
            status, headers, _ = await wire.ask(wire.head("POST /nowhere", *more))
            assert (status, headers["connection"]) == (404, "close")

    asyncio.run(run())


LARGE = [
    ("X-A: " + "x" * 4096,),
    tuple(f"X-{n}: y" for n in range(400)),
]


@pytest.mark.parametrize("more", LARGE, ids=["one", "many"])
def test_a_head_is_bounded(tmp_path: Path, more: tuple[str, ...]) -> None:
    """AT-21: a head over its size is 431, whether it is one long line or many short ones."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            status, headers, body = await wire.ask(wire.head("GET /slow", *more))
            assert (status, code(body)) == (431, "request.head_too_large")
            assert headers["connection"] == "close"
            assert wire.node.begun == []

    asyncio.run(run())


def test_an_endless_head_is_left(tmp_path: Path) -> None:
    """AT-21: a header that never ends is refused when the limit is passed, not at its end."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(b"GET /slow HTTP/1.1\r\nX-A: ")
            for _ in range(3):
                writer.write(b"x" * 1000)
                await writer.drain()
                await asyncio.sleep(0.02)
            status, _, body = await answer(reader)
            assert (status, code(body)) == (431, "request.head_too_large")
            assert await reader.read() == b""
            await closed(writer)

    asyncio.run(run())


def test_a_body_is_bounded(tmp_path: Path) -> None:
    """AT-21: over the limit is 413, by its length before it is sent, in chunks when it passes."""

    async def run() -> None:
        async with listening(tmp_path, max_body=1000, max_blob=5000) as wire:
            assert (await wire.post(b'"%s"' % (b"x" * 998)))[0] == 200
            status, _, body = await wire.post(b'"%s"' % (b"x" * 999))
            assert (status, code(body)) == (413, "request.too_large")
            head = wire.head(
                "POST /echo", "Content-Type: application/json", "Transfer-Encoding: chunked"
            )
            chunk = b"%x\r\n%s\r\n" % (600, b" " * 600)
            status, _, body = await wire.ask(head + chunk + chunk + b"0\r\n\r\n")
            assert (status, code(body)) == (413, "request.too_large")
            kind = "Content-Type: application/octet-stream"
            blob = wire.head("PUT /size", kind, "Content-Length: 5000") + b"x" * 5000
            assert (await wire.ask(blob))[2] == b'{"size":5000}'
            assert [len(each) for each in wire.node.begun] == [1000]

    asyncio.run(run())


def test_a_refused_body_is_thrown_away_up_to_a_bound(tmp_path: Path) -> None:
    """AT-21: the caller sees the refusal; one that pours on is left."""

    async def run() -> None:
        async with listening(tmp_path, max_body=1000) as wire:
            small = await wire.post(b"x" * 2000)
            assert small[0] == 413
            assert "connection" not in small[1]
            much = WASTE_MAX * 4
            kind = "Content-Type: application/json"
            reader, writer = await wire.open()
            writer.write(wire.head("POST /echo", kind, f"Content-Length: {much}"))
            writer.write(b"x" * (WASTE_MAX * 2))
            status, headers, _ = await answer(reader)
            assert (status, headers["connection"]) == (413, "close")
            await closed(writer)

    asyncio.run(run())


def test_slow_callers_are_left(tmp_path: Path) -> None:
    """10 section 6: a head in 10 s, a body in 30 s, an idle connection for a while; then 408."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            kind = "Content-Type: application/json"
            lines = [await wire.open() for _ in range(4)]
            lines[1][1].write(b"GET /slow HT")
            lines[2][1].write(wire.head("POST /echo", kind, "Content-Length: 10") + b"{")
            lines[3][1].write(wire.head("GET /slow"))
            assert (await answer(lines[3][0]))[0] == 200
            wire.listener.sweep(LIMITS.header_timeout_s - 1)
            assert len(wire.listener.connections) == 4
            wire.listener.sweep(LIMITS.header_timeout_s + 1)
            for n in (0, 1):
                assert (await answer(lines[n][0]))[0] == 408
            wire.listener.sweep(LIMITS.body_timeout_s + 1)
            assert (await answer(lines[2][0]))[0] == 408
            wire.listener.sweep(LIMITS.body_timeout_s + LIMITS.idle_s + 10)
            assert await lines[3][0].read() == b""
            for _, writer in lines:
                await closed(writer)

    asyncio.run(run())


def test_connections_of_one_client_are_bounded(tmp_path: Path) -> None:
    """10 section 6: one connection too many is told 429; closed ones count no more."""

    async def run() -> None:
        async with listening(tmp_path, LIMITS._replace(per_client=3)) as wire:
            lines = [await wire.open() for _ in range(3)]
            for reader, writer in lines:
                writer.write(wire.head("GET /slow"))
                assert (await answer(reader))[0] == 200
            reader, writer = await wire.open()
            status, _, body = await answer(reader)
            assert (status, code(body)) == (429, "request.too_many_connections")
            for _, each in [*lines, (reader, writer)]:
                await closed(each)
            await until(lambda: not wire.listener.connections)
            assert wire.listener.clients == {}
            assert (await wire.ask(wire.head("GET /slow")))[0] == 200

    asyncio.run(run())


MALFORMED = [
    b"\r\n\r\n\x00",
    b"GET\r\n\r\n",
    b"GET /slow HTTP/9.9\r\n\r\n",
    b"GET /slow HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
    b"GET /slow HTTP/1.1\r\nHost: a\r\n b: c\r\n\r\n",
    b"GET /slow\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


@pytest.mark.parametrize("raw", MALFORMED)
def test_what_is_not_http_is_refused(tmp_path: Path, raw: bytes) -> None:
    """AT-21: malformed and smuggled messages get a 4xx or a closed line, and reach no handler."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(raw)
            writer.write_eof()
            got = await asyncio.wait_for(reader.read(), 60)
            assert got == b"" or got.startswith(b"HTTP/1.1 4")
            await closed(writer)
            assert wire.node.begun == []
            assert (await wire.ask(wire.head("GET /slow")))[0] == 200

    asyncio.run(run())


ALONE = [
    ("Host: evil.example",),
    ("Authorization: Bearer x",),
    ("Origin: http://evil.example", "Origin: http://127.0.0.1"),
    ("Idempotency-Key: a", "Idempotency-Key: b"),
]


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("more", ALONE)
def test_a_header_that_decides_stands_once(tmp_path: Path, more: tuple[str, ...]) -> None:
    """ND-20: two values of a header that decides something are a trick, refused as such."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            status, _, body = await wire.ask(wire.head("GET /slow", *more))
            assert (status, code(body)) == (400, "request.bad_header")
            assert wire.node.begun == []

    asyncio.run(run())
