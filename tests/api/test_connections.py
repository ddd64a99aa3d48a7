"""Connections at their edges: sent ahead, left in the middle, slow readers, and a hard stop."""

# tidy: a connection at each of its edges, one after the other.
from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from tallystick.api.app import make_app
from tallystick.api.http1 import AHEAD_MAX
from tallystick.api.request import Request, Response
from tallystick.api.routes import Route, Table
from tallystick.api.serve import Listening, address_of
from tallystick.errors import Unavailable
from tests.api.plain import answer, closed, listening, until
from tests.node.rig import config, running

BODY = ("Content-Type: application/json", "Content-Length: 2")


def test_nothing_is_upgraded(tmp_path: Path) -> None:
    """AT-21: who wants another protocol gets one refusal and the end; no byte reaches a handler."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            more = ("Connection: Upgrade", "Upgrade: websocket")
            reader, writer = await wire.open()
            writer.write(wire.head("GET /slow", *more) + b"\x81\x00")
            status, headers, body = await answer(reader)
            assert (status, json.loads(body)["code"]) == (400, "request.malformed")
            assert headers["connection"] == "close"
            assert await reader.read() == b"", "one request has one answer"
            await closed(writer)
            assert wire.node.begun == []

    asyncio.run(run())


def test_who_is_refused_and_talks_on_has_one_answer(tmp_path: Path) -> None:
    """AT-21: what follows a refusal in the same packet, be it no HTTP, is thrown away."""

    async def run() -> None:
        failed: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: failed.append(told))
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            refused = wire.head("POST /nowhere", *BODY, "Expect: 100-continue") + b"{}"
            writer.write(refused + b"\x00 no http\r\n\r\n")
            assert (await answer(reader))[0] == 404
            assert await reader.read() == b""
            await closed(writer)
            assert wire.node.begun == []
        assert failed == []

    asyncio.run(run())


AHEAD = {
    "no http": (b"\x00 no http\r\n\r\n", 400),
    "refused": (None, 404),
}


@pytest.mark.parametrize("name", AHEAD)
def test_what_runs_is_answered_before_who_sent_it_is_left(tmp_path: Path, name: str) -> None:
    """ND-30: a refusal of what follows is never taken for the answer to what is being done."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            raw, status = AHEAD[name]
            raw = raw or wire.head("POST /nowhere", *BODY, "Expect: 100-continue") + b"{}"
            writer.write(wire.head("GET /slow") + raw + wire.head("GET /slow"))
            assert (await answer(reader))[2] == b'{"slow":true}'
            found = await answer(reader)
            assert (found[0], found[1]["connection"]) == (status, "close")
            assert await reader.read() == b""
            await closed(writer)
            assert wire.node.begun == [b"slow"]
        log = tmp_path / "logs" / "node.jsonl"
        assert not log.exists() or "an answer failed" not in log.read_text("utf-8")

    asyncio.run(run())


def test_a_head_sent_ahead_is_bounded_too(tmp_path: Path) -> None:
    """10 section 6: beside a stream that never ends, an endless header is not gathered for ever."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(wire.head("GET /stream"))
            await reader.readuntil(b"\r\n\r\n")
            (line,) = wire.listener.connections
            writer.write(b"GET /slow HTTP/1.1\r\nX-A: ")
            for _ in range(40):
                writer.write(b"x" * 1000)
                await asyncio.sleep(0.005)
            assert len(line._ahead) == 1, "refused once the stream is over, and no more is read"
            refused = line._ahead[0].refused
            assert refused is not None
            assert refused.code == "request.head_too_large"
            await closed(writer)

    asyncio.run(run())


def test_a_head_that_began_ahead_is_bounded_when_its_turn_comes(tmp_path: Path) -> None:
    """10 section 6: the rest of a head is a head, in size and in time."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(wire.head("GET /slow") + b"GET /slow HTTP/1.1\r\nX-A: ")
            assert (await answer(reader))[0] == 200
            for _ in range(40):
                writer.write(b"x" * 1000)
                await asyncio.sleep(0.005)
            status, _, body = await answer(reader)
            assert (status, json.loads(body)["code"]) == (431, "request.head_too_large")
            await closed(writer)

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_head_alone_is_answered_by_a_head_alone(tmp_path: Path) -> None:
    """Bug 117: HEAD has the head of GET, and no byte behind it, so the next message is read."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(wire.head("HEAD /slow") + wire.head("GET /slow"))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 200 ")
            assert b"\r\ncontent-length: 13\r\n" in head
            status, _, body = await answer(reader)
            assert (status, body) == (200, b'{"slow":true}')
            writer.write(wire.head("HEAD /echo"))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 405 ")
            assert b"\r\nallow: post\r\n" in head
            await closed(writer)

    asyncio.run(run())


def test_the_head_of_a_stream_begins_none(tmp_path: Path) -> None:
    """Bug 117: whoever asks for the head of a stream gets it, and the connection ends."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(wire.head("HEAD /stream"))
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            assert await reader.read() == b""
            await closed(writer)

    asyncio.run(run())


def test_a_body_that_is_there_already_is_not_asked_for(tmp_path: Path) -> None:
    """04 section 10: behind a running message no 100 is said; the body came along and is read."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            ahead = wire.head("POST /echo", *BODY, "Expect: 100-continue") + b"{}"
            writer.write(wire.head("GET /slow") + ahead)
            assert (await answer(reader))[2] == b'{"slow":true}'
            status, _, body = await answer(reader)
            assert (status, body) == (200, b'{"got":{}}')
            await closed(writer)

    asyncio.run(run())


def test_who_sends_too_far_ahead_is_cut(tmp_path: Path) -> None:
    """10 section 6: messages that wait are bounded; a caller over that loses its line only."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(wire.head("GET /slow") * (AHEAD_MAX + 2))
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 60) == b""
            await closed(writer)
            assert (await wire.ask(wire.head("GET /slow")))[0] == 200

    asyncio.run(run())


def test_an_answer_for_nobody_is_dropped(tmp_path: Path) -> None:
    """10 section 6: the caller resets its line while the handler runs; the next is served."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            held = asyncio.Event()
            done: list[bool] = []

            async def waits(request: Request) -> Response:
                del request
                wire.node.begun.append(b"waits")
                await held.wait()
                done.append(True)
                return Response(value={})

            wire.api.table = Table([Route("GET", "/waits", "read", waits, "")])
            _, writer = await wire.open()
            writer.write(wire.head("GET /waits"))
            await until(lambda: wire.node.begun)
            _reset(writer)
            await until(lambda: not wire.listener.connections)
            held.set()
            await until(lambda: not wire.listener.tasks)
            assert done == [True]
            assert (await wire.ask(wire.head("GET /waits")))[0] == 200
        log = tmp_path / "logs" / "node.jsonl"
        assert not log.exists() or "an answer failed" not in log.read_text("utf-8")

    asyncio.run(run())


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the other side is told at once that nobody reads any more."""
    held = writer.get_extra_info("socket")
    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def test_a_slow_reader_holds_its_own_stream_back(tmp_path: Path) -> None:
    """10 section 6: a stream makes no more than its reader takes, and all of it once it reads."""
    size, most = 1 << 20, 24
    made: list[int] = []

    async def much(request: Request) -> Response:
        del request

        async def parts() -> AsyncIterator[bytes]:
            for n in range(most):
                made.append(n)
                yield b"x" * size

        return Response(200, stream=parts(), content_type=b"text/plain")

    async def run() -> None:
        async with listening(tmp_path) as wire:
            wire.api.table = Table([Route("GET", "/much", "read", much, "")])
            reader, writer = await wire.open()
            writer.write(wire.head("GET /much"))
            await until(lambda: made)
            for _ in range(1000):  # many times what all parts would need
                await asyncio.sleep(0)
            assert len(made) < most, "nobody has read"
            got = await reader.read(-1)
            assert made == list(range(most))
            assert got.count(b"x") > size * most
            await closed(writer)

    asyncio.run(asyncio.wait_for(run(), 120))


def test_a_hard_stop_ends_what_does_not_end(tmp_path: Path) -> None:
    """ND-30: when the grace is over, running messages are cancelled and their lines closed."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(wire.head("GET /stream"))
            await reader.readuntil(b"data: x")
            await asyncio.wait_for(wire.listener.stop(0.0), 30)
            assert wire.node.left == ["stream"]
            with suppress(ConnectionError):
                assert not (await reader.read()).endswith(b"0\r\n\r\n")
            await until(lambda: not wire.listener.connections)
            assert wire.listener.tasks == set()
            await closed(writer)

    asyncio.run(run())


def test_a_taken_address_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    """ND-26: the refusal has code, address and hint; stopping what never began is quiet."""

    async def run(port: int) -> None:
        settings = config(tmp_path, http={"listen": f"127.0.0.1:{port}"})
        async with running(settings) as node:
            server = Listening(await make_app(node), address_of(node.config.http))
            with pytest.raises(Unavailable) as refused:
                await server.start()
            assert refused.value.code == "http.cannot_listen"
            assert refused.value.where["port"] == port
            assert "--listen" in (refused.value.hint or "")
            assert not (node.folder / "run" / "node.json").exists()
            await server.stop()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        asyncio.run(run(taken.getsockname()[1]))
