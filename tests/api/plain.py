"""A front over a few plain routes, for tests of the wire that need no world behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallystick.api import who
from tallystick.api.answers import Answers
from tallystick.api.front import Api
from tallystick.api.http1 import Limits, Listener
from tallystick.api.once import Keys
from tallystick.api.request import Request, Response
from tallystick.api.routes import Route, Table
from tallystick.api.who import Door, Identity, Tokens
from tallystick.node.config import Config, HttpSettings
from tallystick.node.log import Log
from tallystick.node.metrics import Metrics

LIMITS = Limits(2048, 10.0, 30.0, 64)


@dataclass
class Plain:
    """What the front asks of a node before a handler runs: its settings and its names."""

    config: Config
    metrics: Metrics = field(default_factory=Metrics)
    begun: list[bytes] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = Log(self.config.log, self.config.base, lambda: 0)

    def resolve(self, name: str) -> str:
        return name

    def check_lane(self, world: str) -> None:
        """There is no lane that could be full."""


async def echo(request: Request) -> Response:
    """Says what the body was."""
    request.node.begun.append(request.body)  # type: ignore[attr-defined]
    return Response(value={"got": request.document()})


async def size(request: Request) -> Response:
    """Says how long the body was."""
    return Response(value={"size": len(request.body)})


async def slow(request: Request) -> Response:
    """Answers after a turn of the loop, so that others overtake it if they can."""
    request.node.begun.append(b"slow")  # type: ignore[attr-defined]
    await asyncio.sleep(0.05)
    return Response(value={"slow": True})


async def broken(request: Request) -> Response:
    """Fails without a reason that a caller may see."""
    raise ZeroDivisionError("a private matter")


async def stream(request: Request) -> Response:
    """Never ends by itself."""

    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"data: x\n\n"
                await asyncio.sleep(0.01)
        finally:
            request.node.left.append("stream")  # type: ignore[attr-defined]

    return Response(200, stream=parts(), content_type=b"text/event-stream")


async def unsayable(request: Request) -> Response:
    """Answers with what no encoder takes."""
    return Response(value={"it": object()})


async def torn(request: Request) -> Response:
    """A stream that breaks in the middle."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        raise ZeroDivisionError("a private matter")

    return Response(200, stream=parts(), content_type=b"text/event-stream")


TABLE = Table(
    [
        Route("POST", "/echo", "send", echo, "", content="document", once="event"),
        Route("PUT", "/size", "send", size, "", content="bytes"),
        Route("GET", "/slow", "read", slow, ""),
        Route("GET", "/broken", "read", broken, ""),
        Route("GET", "/stream", "read", stream, ""),
        Route("GET", "/unsayable", "read", unsayable, ""),
        Route("GET", "/torn", "read", torn, ""),
    ]
)


@dataclass
class Wire:
    """A listening front and a token for it."""

    api: Api
    listener: Listener
    port: int
    node: Plain
    token: str

    def head(self, line: str, *more: str) -> bytes:
        """The head of a request with everything that the door asks for."""
        lines = [
            f"{line} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"Authorization: Bearer {self.token}",
            *more,
        ]
        return "\r\n".join([*lines, "", ""]).encode()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, *parts: bytes) -> tuple[int, dict[str, str], bytes]:
        """One connection, these bytes, one answer."""
        reader, writer = await self.open()
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                if len(parts) > 1:
                    await asyncio.sleep(0)
            return await answer(reader)
        finally:
            await closed(writer)

    async def post(self, body: bytes, *more: str) -> tuple[int, dict[str, str], bytes]:
        """A JSON body to /echo."""
        more = (*more, f"Content-Length: {len(body)}")
        if not any(line.lower().startswith("content-type") for line in more):
            more = (*more, "Content-Type: application/json")
        return await self.ask(self.head("POST /echo", *more) + body)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection that may be gone already."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def until(done: Callable[[], object]) -> None:
    """Wait until something is so."""
    while not done():  # noqa: ASYNC110 - what is waited for is no event of ours
        await asyncio.sleep(0.005)


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(first.split()[1]), headers, body


@asynccontextmanager
async def listening(folder: Path, limits: Limits = LIMITS, **http: Any) -> AsyncIterator[Wire]:
    """The plain routes on a free port of loopback."""
    node = Plain(Config(folder, http=HttpSettings(**({"max_body": 65_536} | http))))
    tokens = Tokens()
    secret = who.new_secret("a")
    tokens.put(who.hash_of(secret), Identity("a", "alice", frozenset({"read", "send"}), ("*",)))
    api = Api(node, TABLE, Door(), tokens, Keys(Answers(folder)))  # type: ignore[arg-type]
    listener = Listener(api, limits)
    server = await asyncio.get_running_loop().create_server(listener.connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Wire(api, listener, port, node, secret)
    finally:
        api.stopping.set()
        server.close()
        await listener.stop(1.0)
        await server.wait_closed()
        api.close()
        node.log.close()
