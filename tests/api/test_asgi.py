"""The front as another server asks it, in ASGI: heads, bodies in parts, streams, and ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tallystick.api.sessions import HALF
from tallystick.api.who import Identity
from tests.api.plain import Wire, listening

Message = Mapping[str, Any]
JSON = (b"content-type", b"application/json")
GONE: Message = {"type": "http.disconnect"}


def part(body: bytes, *, more: bool = False) -> Message:
    """A piece of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


def receiving(*messages: Message) -> Callable[[], Awaitable[Message]]:
    """These messages, then a caller that stays and says nothing."""
    left = iter(messages)

    async def receive() -> Message:
        for message in left:
            return message
        return await asyncio.get_running_loop().create_future()

    return receive


class Asked:
    """One request of an ASGI server, and what it was sent."""

    def __init__(self, wire: Wire, method: str, path: str, *headers: tuple[bytes, bytes]) -> None:
        self._api = wire.api
        own = [(b"host", b"localhost"), (b"authorization", f"Bearer {wire.token}".encode())]
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [*(row for row in own if row[0] not in dict(headers)), *headers],
        }
        self.sent: list[Message] = []

    async def answer(self, *messages: Message) -> tuple[int, Any]:
        """Carry it out; the status and the body."""
        await self._api(self.scope, receiving(*messages), self.send)
        body = b"".join(message["body"] for message in self.sent[1:])
        return self.sent[0]["status"], json.loads(body)

    async def send(self, message: Message) -> None:
        self.sent.append(message)


def asked(tmp_path: Path, story: Callable[[Wire], Awaitable[None]], **http: Any) -> None:
    """Tell a story of the plain routes."""

    async def main() -> None:
        async with listening(tmp_path, **http) as wire:
            await story(wire)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_body_comes_in_parts(tmp_path: Path) -> None:
    """04 section 10: a body in pieces is one body; pieces over the limit are 413 at that piece."""

    async def story(wire: Wire) -> None:
        chunked = (JSON, (b"transfer-encoding", b"chunked"))
        whole = await Asked(wire, "POST", "/echo", *chunked).answer(
            part(b'{"a":', more=True), part(b" 1}")
        )
        assert whole == (200, {"got": {"a": 1}})
        status, said = await Asked(wire, "POST", "/echo", *chunked).answer(
            part(b" " * 600, more=True), part(b" " * 600, more=True)
        )
        assert (status, said["code"]) == (413, "request.too_large")

    asked(tmp_path, story, max_body=1000)


def test_a_caller_that_stops_in_its_body_runs_nothing(tmp_path: Path) -> None:
    """10 section 6: left in the middle 400, silent in the middle 408; no handler has begun."""

    async def story(wire: Wire) -> None:
        status, said = await Asked(wire, "POST", "/echo", JSON).answer(part(b"{", more=True), GONE)
        assert (status, said["code"]) == (400, "request.cut")
        status, said = await Asked(wire, "POST", "/echo", JSON).answer(part(b"{", more=True))
        assert (status, said["code"]) == (408, "request.too_slow")
        assert wire.node.begun == []

    asked(tmp_path, story, body_timeout_s=0.05)


def test_a_head_is_judged_as_on_our_own_wire(tmp_path: Path) -> None:
    """ND-20: a length that is no number, a body where none belongs, a header twice: 400 each."""

    async def story(wire: Wire) -> None:
        odd = (b"content-length", b"+5")
        no_key, key = (b"idempotency-key", b"a"), (b"idempotency-key", b"b")
        for found, code in (
            (Asked(wire, "POST", "/echo", JSON, odd), "request.bad_header"),
            (Asked(wire, "GET", "/slow", (b"content-length", b"5")), "request.no_body"),
            (Asked(wire, "POST", "/echo", JSON, no_key, key), "request.bad_header"),
        ):
            status, said = await found.answer(part(b"{}"))
            assert (status, said["code"]) == (400, code)
        assert wire.node.begun == []
        twice = ((b"x-note", b"a"), (b"x-note", b"b"))
        assert (await Asked(wire, "POST", "/echo", JSON, *twice).answer(part(b"1")))[0] == 200

    asked(tmp_path, story)


def test_only_http_is_served(tmp_path: Path) -> None:
    """04 section 10: a web socket is not silently taken for a request."""

    async def story(wire: Wire) -> None:
        request = Asked(wire, "GET", "/stream")
        request.scope["type"] = "websocket"
        with pytest.raises(NotImplementedError):
            await request.answer()
        assert request.sent == []

    asked(tmp_path, story)


def test_a_stream_ends_when_its_reader_leaves(tmp_path: Path) -> None:
    """04 section 10: parts come until the caller is gone; then the stream is closed, too."""

    async def story(wire: Wire) -> None:
        request = Asked(wire, "GET", "/stream")
        enough = asyncio.Event()
        came = [part(b""), part(b"")]

        async def receive() -> Message:
            if came:
                return came.pop()
            await enough.wait()
            return GONE

        async def send(message: Message) -> None:
            request.sent.append(message)
            if len(request.sent) > 3:
                enough.set()

        await wire.api(request.scope, receive, send)
        start, *parts, last = request.sent
        assert (b"content-type", b"text/event-stream") in start["headers"]
        assert {message["body"] for message in parts} == {b"data: x\n\n"}
        assert last == {"type": "http.response.body", "body": b""}
        assert wire.node.left == ["stream"]

    asked(tmp_path, story)


class Count:
    """A stream that is no generator: it ends by itself and has nothing to close."""

    def __init__(self, most: int) -> None:
        self._left = most

    def __aiter__(self) -> Count:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return b"x"


def test_a_stream_may_end_by_itself(tmp_path: Path) -> None:
    """04 section 10: whatever gives parts is poured to its end, though nobody leaves or stops."""

    async def story(wire: Wire) -> None:
        stays = asyncio.get_running_loop().create_future()
        parts = [each async for each in wire.api.until_stopped(Count(3), stays)]
        assert parts == [b"x"] * 3

    asked(tmp_path, story)


def test_who_has_a_session_is_told_what_is_no_path(tmp_path: Path) -> None:
    """09 section 2: a known browser gets 404 and 405 with the methods; a stranger only 401."""

    async def story(wire: Wire) -> None:
        wire.api.sessions.cookie = b"tally_1"
        who = Identity("a", "alice", frozenset({"read"}), ("*",))
        opened = wire.api.sessions.begin(wire.api.sessions.code(who)[0])
        half = (HALF, opened.half.encode())
        browser = (half, (b"cookie", b"tally_1=" + opened.cookie.encode()), (b"authorization", b""))
        status, said = await Asked(wire, "GET", "/nowhere", *browser).answer()
        assert (status, said["code"]) == (404, "request.no_route")
        wrong = Asked(wire, "DELETE", "/echo", *browser)
        assert (await wrong.answer())[0] == 405
        assert (b"allow", b"POST") in wrong.sent[0]["headers"]
        stranger = Asked(wire, "GET", "/nowhere", (b"authorization", b""))
        assert (await stranger.answer())[0] == 401

    asked(tmp_path, story)
