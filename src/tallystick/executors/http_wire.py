"""One exchange over one connection: HTTP/1.1 by h11, on a socket to a judged address.

No pool: a connection belongs to one hop of one job, so nothing that another grant opened is ever
used again, and nothing is left to close.
No proxy and no setting of the environment is asked.
TLS is checked for the name, whatever address it led to.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Final

import h11

from tallystick.errors import TallyError
from tallystick.executors.base import Failed
from tallystick.executors.http_body import Body
from tallystick.executors.http_guard import Hop, Request

_CHUNK: Final = 65_536
_HEAD_BYTES_MAX: Final = 65_536
_CONNECT_S: Final = 10.0  # for one of several addresses; a single one may take all the time
_INTERIM_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: names of headers in lower case, the body decoded."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first value of a header, or None."""
        return next((value for known, value in self.headers if known == name), None)


@dataclass(slots=True)
class Trace:
    """How far a job came: when each stage was over, and whether a request may have arrived."""

    started_ns: int = field(default_factory=perf_counter_ns)
    sent: bool = False
    timings: dict[str, int] = field(default_factory=dict)

    def mark(self, stage: str) -> None:
        """Note that a stage of the current hop is over."""
        self.timings[f"{stage}_ns"] = perf_counter_ns() - self.started_ns


@dataclass(frozen=True, slots=True)
class Wire:
    """What every exchange uses: the rules of TLS and the size of an answer."""

    tls: Callable[[], ssl.SSLContext]
    bytes_max: int

    async def exchange(
        self, request: Request, hop: Hop, addresses: Sequence[str], trace: Trace
    ) -> Response | Failed:
        """Send a request to the first address that answers; a failure says what is known."""
        streams = await self._connect(hop, addresses)
        if isinstance(streams, Failed):
            return streams
        trace.mark("connect")
        writer = streams[1]
        try:
            trace.sent = True
            return await self._talk(request, hop, streams, trace)
        except h11.LocalProtocolError as why:
            # What it quotes behind its words may be a secret, in a spelling that nobody looks for.
            words = str(why).partition(" b")[0]
            return Failed("schema", "http.bad_request", f"the request cannot be sent: {words}")
        except h11.RemoteProtocolError as why:
            return Failed("connection", "http.protocol", f"the answer is not HTTP/1.1: {why}")
        except (OSError, EOFError) as why:
            return Failed("connection", "http.cut", f"the connection ended: {why}")
        except TallyError as why:
            too_large = why.code == "http.too_large"
            return Failed("limit" if too_large else "server_error", why.code, why.message)
        finally:
            # The exchange is over or given up: no bytes are worth waiting for.
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def _connect(
        self, hop: Hop, addresses: Sequence[str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | Failed:
        name = hop.host.strip("[]")
        tls = {"ssl": self.tls(), "server_hostname": name} if hop.scheme == "https" else {}
        limit_s = _CONNECT_S if len(addresses) > 1 else None
        failed = Failed("connection", "http.unreachable", f"no address for {name}", retryable=True)
        for address in addresses:
            try:
                async with asyncio.timeout(limit_s):
                    return await asyncio.open_connection(address, hop.port, **tls)  # type: ignore[arg-type]  # a closed set of keywords
            except ssl.SSLError as why:
                # Another address of the same name would not be more trustworthy.
                return Failed("connection", "http.tls", f"TLS with {name}: {why}")
            except (OSError, TimeoutError) as why:
                message = f"{name} at {address}:{hop.port}: {why or 'no answer'}"
                failed = Failed("connection", "http.unreachable", message, retryable=True)
        return failed

    async def _talk(
        self,
        request: Request,
        hop: Hop,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        trace: Trace,
    ) -> Response:
        reader, writer = streams
        machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES_MAX)
        for part in _parts(request, hop):
            writer.write(machine.send(part) or b"")
        await writer.drain()
        head = await _head(machine, reader)
        trace.mark("first_byte")
        headers = tuple((n.decode("ascii"), v.decode("latin-1")) for n, v in head.headers)
        encoding = next((value for name, value in headers if name == "content-encoding"), "")
        body = Body(encoding, self.bytes_max)
        while not isinstance(event := await _next(machine, reader), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body.feed(bytes(event.data))
        if body.decoded:
            # They describe the bytes on the wire, not the ones that are handed on.
            told = ("content-encoding", "content-length")
            headers = tuple((name, value) for name, value in headers if name not in told)
        return Response(head.status_code, headers, body.end())


def _parts(request: Request, hop: Hop) -> tuple[h11.Request | h11.Data | h11.EndOfMessage, ...]:
    headers = [("host", hop.host_header), ("connection", "close"), *request.headers]
    if request.body or request.method.upper() in ("POST", "PUT", "PATCH"):
        headers.append(("content-length", str(len(request.body))))
    head = h11.Request(
        method=request.method,
        target=hop.target,
        headers=[(n.encode("ascii"), v.encode("latin-1")) for n, v in headers],
    )
    body = (h11.Data(data=request.body),) if request.body else ()
    return head, *body, h11.EndOfMessage()


async def _head(machine: h11.Connection, reader: asyncio.StreamReader) -> h11.Response:
    for _ in range(_INTERIM_MAX):
        event = await _next(machine, reader)
        if isinstance(event, h11.Response):
            return event
        if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
            break
    raise h11.RemoteProtocolError("no answer among the interim ones")


async def _next(machine: h11.Connection, reader: asyncio.StreamReader) -> h11.Event:
    while True:
        try:
            event = machine.next_event()
        except h11.RemoteProtocolError:
            if reader.at_eof():
                # h11 calls it a breach of protocol; for a retry the two are not alike.
                raise EOFError("before the end of the answer") from None
            raise
        if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            raise EOFError("before the end of the answer")
        if event is not h11.NEED_DATA:
            assert isinstance(event, h11.Event)
            return event
        machine.receive_data(await reader.read(_CHUNK))
