"""`http.request`: one exchange with a server that the grant names, and what it answered.

Theory of operation.
Each hop goes through the same five steps: the guard judges the request, a slot of the host is
taken, the name is resolved once, every address is judged, and one connection is made to a judged
address.
A redirect is followed only as often as params say; its target is a hop like any other.
On the way to another origin only headers stay that say nothing about the asker.
`Idempotency-Key` is the dispatch key, equal for all attempts, so a server that knows it acts once.
An answer of any status is an outcome `Ok`; a failure is what kept the exchange from taking place.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, TypeAlias
from urllib.parse import urljoin

from tallystick.executors.base import (
    INLINE_BYTES_MAX,
    ExecutorPorts,
    Failed,
    Job,
    Ok,
    Outcome,
    Repeat,
    Report,
)
from tallystick.executors.http_guard import GrantGuard, Guard, Hop, Refusal, Request
from tallystick.executors.http_wire import Response, Trace, Wire

REDIRECTS_MAX: Final = 10
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
# Ours to set, or meant for the connection and not for the server.
_OURS: Final = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
# Across origins everything else may be a credential: cookies, tokens, keys of any name.
_HARMLESS: Final = frozenset(
    (
        "accept",
        "accept-encoding",
        "accept-language",
        "content-type",
        "idempotency-key",
        "user-agent",
    )
)
_AGENT: Final = "tallystick"

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


async def resolve_name(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True, slots=True)
class Doors:
    """What stands between the executor and the net."""

    guard: Guard = field(default_factory=GrantGuard)
    resolve: Resolve = resolve_name
    # Reading the certificates of the system takes a while, so it waits for the first https.
    tls: Callable[[], ssl.SSLContext] = field(
        default_factory=lambda: cache(ssl.create_default_context)
    )


class HttpExecutor:
    """Performs `sys/http.request@1`."""

    name = "http"
    effects = frozenset(("sys/http.request@1",))
    repeat: Repeat = "keyed"

    def __init__(
        self, settings: Mapping[str, Any], ports: ExecutorPorts, doors: Doors | None = None
    ) -> None:
        self.slots = int(settings.get("slots", 64))
        self._doors = doors if doors is not None else Doors()
        self._timeout_s = float(settings.get("timeout_s", 60))
        self._wire = Wire(self._doors.tls, int(settings.get("max_bytes", 16 * 2**20)))
        self._hosts = HostSlots(int(settings.get("per_host", 8)))
        self._now_ns = ports.now_ns

    async def perform(self, job: Job, report: Report) -> Outcome:
        """Make the exchange, with its redirects; it may take `timeout_s` or until the deadline."""
        del report  # an exchange has no news on the way
        request = prepare(job)
        if isinstance(request, Failed):
            return request
        trace = Trace()
        seconds = self._seconds(job)
        outcome: Outcome = Failed("timeout", "http.timeout", "the exchange took too long")
        # A job that is late already must not touch the outside for nothing.
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    outcome = await self._follow(job, request, trace)
        if isinstance(outcome, Failed) and outcome.kind in ("connection", "timeout"):
            harmless = not trace.sent or request.method.upper() in _SAFE
            outcome = replace(outcome, retryable=harmless and outcome.code != "http.tls")
        return outcome

    async def cancel(self, job: Job) -> None:
        """Nothing to tell: the connection is closed with the task."""

    async def close(self) -> None:
        """Nothing to give back: a connection lives as long as its hop."""

    def _seconds(self, job: Job) -> float:
        if job.deadline_ns is None:
            return self._timeout_s
        return min(self._timeout_s, (job.deadline_ns - self._now_ns()) / 1e9)

    async def _follow(self, job: Job, request: Request, trace: Trace) -> Outcome:
        left = min(job.params.get("redirects") or 0, REDIRECTS_MAX)
        grant = job.grant or {}
        came_from: Hop | None = None
        while True:
            hop = self._doors.guard.hop(grant, request)
            if isinstance(hop, Refusal):
                return Failed("scope", "http.refused", f"{request.url}: {hop.reason}")
            if came_from is not None and came_from.scheme == "https" and hop.scheme != "https":
                return Failed("scope", "http.downgrade", f"redirect from https to {request.url}")
            if came_from is not None and came_from.origin != hop.origin:
                kept = tuple((n, v) for n, v in request.headers if n.lower() in _HARMLESS)
                request = replace(request, headers=kept)
            async with self._hosts.slot(hop.host, hop.port):
                response = await self._one(grant, request, hop, trace)
            if isinstance(response, Failed):
                return response
            onward = redirected(request, response) if left > 0 else None
            if onward is None:
                return self._receipt(job, request, response, trace)
            request, came_from, left = onward, hop, left - 1

    async def _one(
        self, grant: Mapping[str, Any], request: Request, hop: Hop, trace: Trace
    ) -> Response | Failed:
        """One hop: resolve once, judge what was found, and connect to nothing else."""
        try:
            found = [hop.address] if hop.address else await self._doors.resolve(hop.host, hop.port)
        except OSError as why:
            return Failed("connection", "http.unknown_host", f"{hop.host}: {why}")
        trace.mark("resolve")
        refused = self._doors.guard.refuses(grant, found)
        if refused is not None:
            message = f"{hop.host} leads to {refused}, in a network the grant does not name"
            return Failed("scope", "http.refused", message)
        return await self._wire.exchange(request, hop, found, trace)

    def _receipt(self, job: Job, request: Request, response: Response, trace: Trace) -> Ok:
        trace.mark("total")
        size = len(response.body)
        inline = size <= INLINE_BYTES_MAX
        value = {
            "status": response.status,
            "url": request.url,
            "headers": joined(response.headers),
            "body": response.body if inline else None,
            "body_ref": None if inline else job.blobs.put(response.body),
            "size": size,
            "timings": trace.timings,
        }
        return Ok(value, {"calls": 1, "tokens": 0, "cents": 0})


class HostSlots:
    """At most so many exchanges with one host at a time; the others wait their turn."""

    def __init__(self, per_host: int) -> None:
        self._per_host = max(1, per_host)
        self._gates: dict[tuple[str, int], asyncio.Semaphore] = {}
        self._users: dict[tuple[str, int], int] = {}

    @asynccontextmanager
    async def slot(self, host: str, port: int) -> AsyncIterator[None]:
        """Hold one slot of a host; a host that nobody uses is forgotten."""
        place = (host, port)
        gate = self._gates.setdefault(place, asyncio.Semaphore(self._per_host))
        self._users[place] = self._users.get(place, 0) + 1
        try:
            async with gate:
                yield
        finally:
            self._users[place] -= 1
            if not self._users[place]:
                del self._users[place], self._gates[place]


def prepare(job: Job) -> Request | Failed:
    """The first request of a job; refuses headers that are ours and a body that is not there."""
    params = job.params
    headers: list[tuple[str, str]] = []
    for name in params.get("headers") or {}:
        text = job.plain("headers", name) or ""
        if name.lower() in _OURS or not name.isascii() or not _sendable(text):
            # The value may be a secret, so only the name is told.
            return Failed("schema", "http.bad_header", f"the header {name!r} may not be sent")
        headers.append((name, text))
    given = {name.lower() for name, _ in headers}
    usual = (("user-agent", _AGENT), ("accept", "*/*"), ("accept-encoding", "gzip"))
    headers += [(name, value) for name, value in usual if name not in given]
    headers.append(("idempotency-key", job.dispatch_key.hex()))
    body, ref = params.get("body"), params.get("body_ref")
    if body is not None and ref is not None:
        return Failed("schema", "http.two_bodies", "the request has a body and a body_ref")
    if ref is not None:
        body = job.blobs.get(ref)
        if body is None:
            return Failed("not_found", "blob.unknown", f"this world has no blob {ref}")
    return Request(params["method"], params["url"], tuple(headers), body or b"")


def _sendable(text: str) -> bool:
    """True for one line of Latin-1 without a blank at its ends, which nobody would receive."""
    latin = all(ord(char) < 256 for char in text)
    return latin and text.isprintable() and text == text.strip(" ")


def redirected(request: Request, response: Response) -> Request | None:
    """The request that a redirect asks for, or None when the answer is no redirect."""
    location = response.header("location")
    if response.status not in _REDIRECTS or location is None:
        return None
    url = location.partition("#")[0]
    with suppress(ValueError):  # what cannot be joined is no URL, and the guard says so
        url = urljoin(request.url, url)
    method = request.method.upper()
    drops = response.status == 303 or (response.status in (301, 302) and method == "POST")
    if not drops or method in ("GET", "HEAD"):
        return replace(request, url=url)
    kept = tuple((n, v) for n, v in request.headers if n.lower() != "content-type")
    return Request("GET", url, kept, b"")


def joined(headers: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Headers as a map: repeated ones joined by a comma, cookies by a line end."""
    found: dict[str, str] = {}
    for name, value in headers:
        between = "\n" if name == "set-cookie" else ", "
        found[name] = f"{found[name]}{between}{value}" if name in found else value
    return found


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> HttpExecutor:
    """The executor `http` as settings describe it."""
    return HttpExecutor(settings, ports)
