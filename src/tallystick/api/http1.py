"""HTTP/1.1 over one connection: heads, bodies and answers in order, under limits.

Theory of operation.
The parser calls back once per part of a message.
A head is judged as soon as it is whole; a refused one has its body read and thrown away, so that
the caller gets to see the answer, but not for longer than is reasonable.
One message is carried out at a time; those that a caller sends ahead wait, up to a bound.
Slow callers are found by a sweep over all connections once a second, not by a timer each.

`HEAD` waits for a head, `BODY` for the rest of a body, `BUSY` for the application, `IDLE` for the
next message; `LEAVING` throws away what still comes until the caller has closed.
"""

# tidy: the callbacks of one parser belong to one object.
from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import httptools

from tallystick.api.front import ALONE, FIXED, Api, problem, rendered, too_large, twice
from tallystick.api.refusals import HeadTooLarge, TooSlow
from tallystick.api.request import Request, Response
from tallystick.errors import Busy, Rejected, TallyError

AHEAD_MAX: Final = 16
WASTE_MAX: Final = 256 * 1024
LEAVING_S: Final = 2.0
TOO_MANY: Final = HTTPStatus.TOO_MANY_REQUESTS.value
BREATH_S: Final = 0.02  # a caller that is told 429 and asks again at once may not fill the node
_LINES: Final = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}


class Limits(NamedTuple):
    """What one connection, and one client, may take."""

    header_max: int
    header_timeout_s: float
    body_timeout_s: float
    per_client: int
    idle_s: float = 75.0


class Phase(Enum):
    """What a connection waits for."""

    HEAD = "head"
    BODY = "body"
    BUSY = "busy"
    IDLE = "idle"
    LEAVING = "leaving"


class Message:
    """One request on its way in, or the refusal of it."""

    __slots__ = (
        "body",
        "chunks",
        "headers",
        "keep",
        "limit",
        "method",
        "refused",
        "request",
        "size",
        "url",
    )

    def __init__(self) -> None:
        self.url = b""
        self.method = ""
        self.headers: dict[bytes, bytes] = {}
        self.body: list[bytes] = []
        self.size = 0
        self.limit = 0
        self.keep = True
        self.chunks = True  # HTTP/1.0 knows none: there a stream ends with its connection
        self.request: Request | None = None
        self.refused: TallyError | None = None


class Listener:
    """What all connections of a server share."""

    def __init__(self, api: Api, limits: Limits) -> None:
        self.api = api
        self.limits = limits
        self.connections: set[Connection] = set()
        self.clients: dict[str, int] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.now_s = 0.0
        self.closing = False

    def connection(self) -> Connection:
        """A connection for the loop to fill."""
        return Connection(self)

    def sweep(self, now_s: float) -> None:
        """Let go of callers that are too slow, or have nothing more to say."""
        self.now_s = now_s
        for each in list(self.connections):
            each.sweep(now_s)

    async def stop(self, grace_s: float) -> None:
        """Let running messages end, then close all connections."""
        self.closing = True
        for each in list(self.connections):
            each.stop()
        if self.tasks:
            await asyncio.wait(list(self.tasks), timeout=grace_s)
        for task in list(self.tasks):
            task.cancel()
        if self.tasks:
            await asyncio.wait(list(self.tasks))
        for each in list(self.connections):
            each.abort()


class Connection(asyncio.Protocol):
    """One caller's connection."""

    def __init__(self, shared: Listener) -> None:
        self._shared = shared
        self._api = shared.api
        self._parser = httptools.HttpRequestParser(self)
        self._phase = Phase.HEAD
        self._since_s = shared.now_s
        self._head_size = 0
        self._wasted = 0
        self._now: Message | None = None
        self._ahead: deque[Message] = deque()
        self._gone = asyncio.get_running_loop().create_future()
        self._closing = asyncio.get_running_loop().create_future()
        self._writable = asyncio.Event()
        self._client = ""
        self._transport: asyncio.Transport

    # ---- the transport ----------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Count the client; one with too many connections is told so and left."""
        self._transport = transport
        self._writable.set()
        shared = self._shared
        peer = transport.get_extra_info("peername")
        self._client = str(peer[0]) if isinstance(peer, tuple) else ""
        shared.connections.add(self)
        shared.clients[self._client] = shared.clients.get(self._client, 0) + 1
        if shared.clients[self._client] > shared.limits.per_client:
            self._leave(
                Busy(
                    f"at most {shared.limits.per_client} connections for one client",
                    code="request.too_many_connections",
                )
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the caller; a stream of its ends by itself."""
        del exc
        shared = self._shared
        shared.connections.discard(self)
        left = shared.clients[self._client] - 1
        if left:
            shared.clients[self._client] = left
        else:
            del shared.clients[self._client]
        for future in (self._gone, self._closing):
            if not future.done():
                future.set_result(None)
        self._writable.set()
        self._ahead.clear()

    def pause_writing(self) -> None:
        """The caller reads slower than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """And now it has caught up."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Bytes of the caller."""
        if self._phase is Phase.LEAVING:
            return
        if self._phase is Phase.IDLE:
            self._wait_for(Phase.HEAD)
        in_head = self._phase is Phase.HEAD or self._in_next_head
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._leave(Rejected("this is not HTTP/1.1 as we read it", code="request.malformed"))
            return
        if in_head and (self._phase is Phase.HEAD or self._in_next_head):
            # Measured on the wire too: one endless header calls back only at its end.
            self._head_size += len(data)
            if self._head_size > self._shared.limits.header_max:
                self._leave(self._head_too_large())

    @property
    def _in_next_head(self) -> bool:
        """True while a head is read beside a message that is carried out."""
        return self._phase is Phase.BUSY and self._now is not None and not self._now.method

    # ---- the parser -------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A message begins."""
        self._now = Message()
        self._head_size = 0

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        assert self._now is not None, "a message has begun"
        self._now.url += url
        self._head_size += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        message = self._now
        assert message is not None, "a message has begun"
        name = name.lower()
        self._head_size += len(name) + len(value) + 4
        if name in ALONE and name in message.headers:
            message.refused = twice(name)
        message.headers[name] = value

    def on_headers_complete(self) -> None:
        """The head is whole: judge it before its body is read."""
        message, parser = self._now, self._parser
        assert message is not None, "a message has begun"
        message.method = parser.get_method().decode("ascii")
        message.chunks = parser.get_http_version() != "1.0"
        message.keep = parser.should_keep_alive() and not self._shared.closing
        if self._phase is not Phase.BUSY:
            self._wait_for(Phase.BODY)
        if self._head_size > self._shared.limits.header_max:
            message.refused = self._head_too_large()
            message.keep = False
        elif parser.should_upgrade():
            message.refused = Rejected("there is nothing to upgrade to", code="request.malformed")
            message.keep = False  # what follows is no HTTP
        self._head_size = 0
        self._admit(message)
        if message.headers.get(b"expect", b"").lower() == b"100-continue":
            self._expect(message)

    def _admit(self, message: Message) -> None:
        if message.refused is not None:
            return
        path, _, query = message.url.partition(b"?")
        try:
            message.request = self._api.admit(message.method, path, query, message.headers)
        except TallyError as why:
            message.refused = why
        else:
            message.limit = self._api.body_limit(message.request.route)

    def _expect(self, message: Message) -> None:
        """Ask for the body only when it will be read."""
        if message.refused is not None:
            self._leave(message.refused)
        elif self._phase is Phase.BODY:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A part of the body; of a refused message it is thrown away."""
        message = self._now
        if message is None or self._phase is Phase.LEAVING:
            return
        message.size += len(body)
        if message.refused is None:
            if message.size <= message.limit:
                message.body.append(body)
                return
            message.refused = too_large(message.limit)
            message.body.clear()
        self._wasted += len(body)
        if self._wasted > WASTE_MAX:
            self._leave(message.refused)

    def on_message_complete(self) -> None:
        """The message is whole: carry it out, or let it wait for those before it."""
        message, self._now = self._now, None
        if message is None or self._phase is Phase.LEAVING:
            return
        if self._phase is Phase.BUSY:
            self._ahead.append(message)
            self._transport.pause_reading()
            if len(self._ahead) > AHEAD_MAX:
                self.abort()
            return
        self._begin(message)

    # ---- carrying out -----------------------------------------------------------------------

    def _begin(self, message: Message) -> None:
        self._phase = Phase.BUSY
        if message.refused is not None:
            if message.refused.status == TOO_MANY:
                asyncio.get_running_loop().call_later(BREATH_S, self._refuse, message)
            else:
                self._refuse(message)
            return
        task = asyncio.get_running_loop().create_task(self._carry(message))
        self._shared.tasks.add(task)
        task.add_done_callback(self._shared.tasks.discard)

    def _refuse(self, message: Message) -> None:
        assert message.refused is not None, "only what is refused is told so here"
        self._write(message, problem(message.refused))
        self._ended(message)

    async def _carry(self, message: Message) -> None:
        request = message.request
        assert request is not None, "what is not refused is a request"
        parts = message.body
        request.body = parts[0] if len(parts) == 1 else b"".join(parts)
        request.gone = self._closing
        try:
            response = await self._api.carry(request)
            if response.status == TOO_MANY:
                await asyncio.sleep(BREATH_S)
            if response.stream is not None:
                await self._pour(message, response)
            else:
                self._write(message, response)
        except Exception as why:  # noqa: BLE001 - logged, and the line is cut
            # Half an answer cannot be taken back: a cut line says that it is not whole.
            self._api.node.log.failed("an answer failed", why)
            self.abort()
            return
        self._ended(message)

    def _write(self, message: Message, response: Response) -> None:
        """One answer in one write."""
        request = message.request
        body, headers = rendered(response, cbor=request is not None and request.wants_cbor)
        parts = [_LINES[response.status]]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"\r\n" if message.keep else b"connection: close\r\n\r\n")
        if message.method != "HEAD":
            parts.append(body)
        if not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    async def _pour(self, message: Message, response: Response) -> None:
        """A stream until it ends or the caller leaves, in chunks for who knows them."""
        assert response.stream is not None, "only a stream is poured"
        parts = [_LINES[response.status], b"content-type: ", response.content_type, b"\r\n"]
        for name, value in FIXED:
            parts += (name, b": ", value, b"\r\n")
        if message.chunks:
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"connection: close\r\n\r\n")
        message.keep = False
        self._transport.write(b"".join(parts))
        if message.method == "HEAD":
            return  # whoever asks for the head alone begins no stream
        async for part in self._api.until_stopped(response.stream, asyncio.shield(self._gone)):
            self._transport.write(b"%x\r\n%s\r\n" % (len(part), part) if message.chunks else part)
            await self._writable.wait()
        if message.chunks and not self._transport.is_closing():
            self._transport.write(b"0\r\n\r\n")

    def _ended(self, message: Message) -> None:
        """An answer is written: the next message, or the end."""
        if self._transport.is_closing() or self._phase is Phase.LEAVING:
            return
        if not message.keep or self._shared.closing:
            self._depart()
            return
        self._wasted = 0
        if self._ahead:
            self._begin(self._ahead.popleft())
            return
        if self._now is None:
            self._wait_for(Phase.IDLE)
        else:
            self._wait_for(Phase.BODY if self._now.method else Phase.HEAD)
        self._transport.resume_reading()

    # ---- ends -------------------------------------------------------------------------------

    def _wait_for(self, phase: Phase) -> None:
        self._phase = phase
        self._since_s = self._shared.now_s

    def _leave(self, why: TallyError) -> None:
        """Say why, and take no more; whoever is left already has its answer."""
        if self._phase is Phase.LEAVING:
            return
        message = Message()
        message.keep = False
        if self._phase is Phase.BUSY:
            # Said at once it would be taken for the answer to what runs.
            message.refused, self._now = why, None
            self._ahead.append(message)
            self._transport.pause_reading()
            return
        self._write(message, problem(why))
        self._depart()

    def _depart(self) -> None:
        """Close so that the answer is read: our half first, theirs when they are done."""
        self._wait_for(Phase.LEAVING)
        self._ahead.clear()
        if not self._transport.can_write_eof():
            self._transport.close()
            return
        try:
            self._transport.write_eof()
        except OSError:  # the caller was quicker: nobody is there to read an answer
            self.abort()
        else:
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """The caller has no more to say; an answer on its way still goes out."""
        if not self._closing.done():
            self._closing.set_result(None)
        return self._phase is Phase.BUSY

    def _head_too_large(self) -> TallyError:
        most = self._shared.limits.header_max
        return HeadTooLarge(f"a head has at most {most} bytes")

    def sweep(self, now_s: float) -> None:
        """Leave a caller that took too long for what we wait for."""
        limits = self._shared.limits
        waited_s = now_s - self._since_s
        if self._phase is Phase.HEAD and waited_s > limits.header_timeout_s:
            self._leave(TooSlow(f"the head took over {limits.header_timeout_s} s"))
        elif self._phase is Phase.BODY and waited_s > limits.body_timeout_s:
            self._leave(TooSlow(f"the body took over {limits.body_timeout_s} s"))
        elif self._phase is Phase.IDLE and waited_s > limits.idle_s:
            self._transport.close()
        elif self._phase is Phase.LEAVING and waited_s > LEAVING_S:
            self.abort()

    def stop(self) -> None:
        """Take no more messages; the one that runs is answered."""
        if self._phase is not Phase.BUSY:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()
