"""A real HTTP server on loopback that keeps what it was asked and answers by a function."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import h11

CERTIFICATE = Path(__file__).parent / "front.pem"  # front.example, its own authority, for tests


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What the server sends; `raw` goes out as it is, and `cut` closes before the end."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    raw: bytes | None = None
    cut: bool = False


Handler = Callable[[Asked], Answer | Awaitable[Answer]]


@dataclass
class Site:
    """A running server: its port, what it was asked, and how many connections it saw."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    open_now: int = 0
    open_most: int = 0


def tls_server() -> ssl.SSLContext:
    """TLS as `front.example`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def tls_client() -> ssl.SSLContext:
    """A client that trusts the authority of `front.example` and nobody else."""
    return ssl.create_default_context(cafile=str(CERTIFICATE))


@asynccontextmanager
async def serving(
    handler: Handler,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Site]:
    """Serve for as long as the block runs, on a free port unless one is given."""
    # tidy: the life of a connection inside the life of its server
    site = Site()
    tasks: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        site.connections += 1
        site.open_now += 1
        site.open_most = max(site.open_most, site.open_now)
        try:
            await _serve(site, handler, reader, writer)
        except (OSError, h11.RemoteProtocolError):
            pass  # the client went away, or never spoke HTTP
        finally:
            site.open_now -= 1
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, host, port, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for _ in range(10):  # a connection that was just taken becomes a task first
            await asyncio.sleep(0)
        waiting = [task for task in tasks if task is not None]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _serve(
    site: Site, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    machine = h11.Connection(h11.SERVER)
    head: h11.Request | None = None
    body = b""
    while not isinstance(event := machine.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            machine.receive_data(await reader.read(65_536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        else:
            return
    assert head is not None
    headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
    asked = Asked(head.method.decode(), head.target.decode(), headers, body)
    site.asked.append(asked)
    answer = handler(asked)
    if not isinstance(answer, Answer):
        answer = await answer
    writer.write(_written(machine, answer, asked))
    await writer.drain()
    if not answer.cut:
        await reader.read()


def _written(machine: h11.Connection, answer: Answer, asked: Asked) -> bytes:
    if answer.raw is not None:
        return answer.raw
    named = {name.lower() for name, _ in answer.headers}
    headers = list(answer.headers)
    if "content-length" not in named:
        headers.append(("content-length", str(len(answer.body))))
    written = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    out = machine.send(h11.Response(status_code=answer.status, headers=written)) or b""
    if answer.body and asked.method != "HEAD":
        out += machine.send(h11.Data(data=answer.body)) or b""
    return out
