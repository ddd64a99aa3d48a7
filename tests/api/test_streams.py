"""Streams, failures of ours and quiet stops, over real sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

from tallystick.api.http1 import LEAVING_S
from tests.api.plain import LIMITS, answer, closed, listening, until


def logged(folder: Path) -> str:
    return (folder / "logs" / "node.jsonl").read_text("utf-8")


def test_a_failure_of_ours_says_nothing_private(tmp_path: Path) -> None:
    """10 section 6: a bug is a 500 with a code; what and where it was stands in the log."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            status, _, body = await wire.ask(wire.head("GET /broken"))
            assert (status, json.loads(body)["code"]) == (500, "node.internal")
            assert b"private" not in body

    asyncio.run(run())
    assert "/broken failed: ZeroDivisionError at plain.py:" in logged(tmp_path)
    assert "private" not in logged(tmp_path), "the text of an error may hold a value"


@pytest.mark.parametrize("path", ["/unsayable", "/torn"])
def test_half_an_answer_is_a_cut_line(tmp_path: Path, path: str) -> None:
    """10 section 6: what cannot be said whole ends in a cut line, never in a whole answer."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(wire.head(f"GET {path}"))
            got = b""
            with suppress(ConnectionError):
                got = await asyncio.wait_for(reader.read(), 60)
            assert not got.endswith(b"0\r\n\r\n")
            assert b"private" not in got
            await closed(writer)
            assert (await wire.ask(wire.head("GET /slow")))[0] == 200

    asyncio.run(run())
    assert "an answer failed" in logged(tmp_path)


def test_slow_sockets_do_not_hold_others_up(tmp_path: Path) -> None:
    """10 section 6: 200 callers that never finish their head; others are served, then they go."""

    async def run() -> None:
        async with listening(tmp_path, LIMITS._replace(per_client=300)) as wire:
            slow = [await wire.open() for _ in range(200)]
            for _, writer in slow:
                writer.write(b"POST /echo HTTP/1.1\r\nHost: 127")
            for _ in range(20):
                assert (await wire.ask(wire.head("GET /slow")))[0] == 200
            assert len(wire.listener.connections) >= 200
            wire.listener.sweep(LIMITS.header_timeout_s + 1)
            wire.listener.sweep(LIMITS.header_timeout_s + LEAVING_S + 2)
            await until(lambda: not wire.listener.connections)
            for _, writer in slow:
                await closed(writer)

    asyncio.run(run())


def test_a_stream_ends_when_its_reader_leaves(tmp_path: Path) -> None:
    """ND-29: nothing goes on for a reader that is gone."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(wire.head("GET /stream"))
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"text/event-stream" in head
            assert await reader.readexactly(5) == b"9\r\nda"
            await closed(writer)
            await until(lambda: wire.node.left)

    asyncio.run(run())


def test_a_stream_for_an_older_caller_has_no_chunks(tmp_path: Path) -> None:
    """04 section 10: HTTP/1.0 knows none, and would take their sizes for what is said."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            reader, writer = await wire.open()
            writer.write(wire.head("GET /stream").replace(b"HTTP/1.1", b"HTTP/1.0"))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert b"transfer-encoding" not in head
            assert b"connection: close" in head
            assert await reader.readexactly(18) == b"data: x\n\ndata: x\n\n"
            await closed(writer)

    asyncio.run(run())


def test_a_quiet_stop_answers_what_runs(tmp_path: Path) -> None:
    """ND-30: at the stop running messages are answered, streams end, idle lines close."""

    async def run() -> None:
        async with listening(tmp_path) as wire:
            idle, busy, pouring = [await wire.open() for _ in range(3)]
            busy[1].write(wire.head("GET /slow"))
            pouring[1].write(wire.head("GET /stream"))
            await pouring[0].readuntil(b"\r\n\r\n")
            await until(lambda: wire.node.begun)
            wire.api.stopping.set()
            await wire.listener.stop(5.0)
            assert await idle[0].read() == b""
            status, headers, _ = await answer(busy[0])
            assert (status, headers.get("connection")) == (200, None)
            assert (await pouring[0].read()).endswith(b"0\r\n\r\n")
            assert wire.node.left == ["stream"]
            for _, writer in (idle, busy, pouring):
                await closed(writer)

    asyncio.run(run())
