"""The front of a node: one request in, one response out.

The order of the questions is the rule: Host and Origin, the route, the identity, the scope, the
world, the query, and what the head says of the body; then the body, and last the handler.
Nothing of a world is touched before all of them are answered.
The node's own server asks `admit` and `carry`; any other asks in ASGI.
"""

# tidy: the order of the questions is one page.
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from tallystick.api import once, wire
from tallystick.api.once import Keys
from tallystick.api.refusals import NoIdentity, NoRoute, TooSlow, WrongContent, WrongMethod
from tallystick.api.request import Request, Response, query_of
from tallystick.api.routes import OPEN, Route, Table
from tallystick.api.sessions import HALF, Sessions
from tallystick.api.who import NOBODY, Door, Identity, Tokens, check_scope, world_of
from tallystick.errors import Busy, Forbidden, Rejected, TallyError, TooLarge
from tallystick.node.node import Node

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Headers = Mapping[bytes, bytes]

# Headers that decide something: a second one is a trick, never a habit.
ALONE: Final = frozenset(
    {
        b"host",
        b"authorization",
        b"origin",
        b"sec-fetch-site",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"idempotency-key",
        b"range",
        b"last-event-id",
        b"cookie",
        HALF,
    }
)
FIXED: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Api:
    """The node behind its door."""

    def __init__(self, node: Node, table: Table, door: Door, tokens: Tokens, keys: Keys) -> None:
        self.node = node
        self.table = table
        self.door = door
        self.tokens = tokens
        self.keys = keys
        self.sessions = Sessions(int(node.config.http.session_idle_h * 3600) * 1_000_000_000)
        self.local = ""
        self.owner = NOBODY  # whoever may read the folder: the identity of `local`
        self.stopping = asyncio.Event()
        http = node.config.http
        self.body_max: int = http.max_body
        self.blob_max: int = http.max_blob
        self.body_timeout_s: float = http.body_timeout_s

    # ---- what every server asks -------------------------------------------------------------

    def admit(self, method: str, path: bytes, query: bytes, headers: Headers) -> Request:
        """The request of a head; refuses before a body is read."""
        get = headers.get
        self.door.check(get(b"host"), get(b"origin"), get(b"sec-fetch-site"))
        try:
            route, named = self.table.find(method, path)
        except (NoRoute, WrongMethod):
            # Only the known may learn which paths exist.
            if self.sessions.identify(get(b"cookie"), get(HALF)) is None:
                self.tokens.identify(get(b"authorization"))
            raise
        who = self._caller(route, headers)
        world = world_of(who, named["w"], self.node) if "w" in named else ""
        self._check_body(route, headers)
        if route.once == "event":
            self._check_lane(world)
        return Request(self, route, named, headers, who, world, query_of(query, route))

    def _caller(self, route: Route, headers: Headers) -> Identity:
        if route.scope == OPEN:
            return NOBODY
        who = self._session(route, headers) or self.tokens.identify(headers.get(b"authorization"))
        check_scope(who, route)
        return who

    def still_knows(self, request: Request) -> bool:
        """True while whoever asked would be let in again: a stream does not outlive its token."""
        get = request.headers.get
        try:
            if request.who.session:
                self.sessions.identify(get(b"cookie"), get(HALF), uses=False)
            else:
                self.tokens.identify(get(b"authorization"))
        except NoIdentity:
            return False
        return True

    def _session(self, route: Route, headers: Headers) -> Identity | None:
        """Who a browser speaks for; what it writes must come from our own page, as JSON."""
        if b"authorization" in headers:
            return None
        who = self.sessions.identify(headers.get(b"cookie"), headers.get(HALF))
        if who is None or route.method == "GET":
            return who
        if b"origin" not in headers:
            raise Forbidden("a session writes from our own page", code="auth.foreign_origin")
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind and kind != wire.JSON and route.content in ("document", "large"):
            raise WrongContent("a session writes JSON")
        return who

    def body_limit(self, route: Route) -> int:
        """How large a body of this route may be."""
        return self.blob_max if route.content in ("bytes", "large") else self.body_max

    def _check_body(self, route: Route, headers: Headers) -> None:
        """Refuse what the head already says of a body: too large, or of a wrong type."""
        length = headers.get(b"content-length")
        if length is not None:
            if not length.isdigit() or len(length) > 12:
                raise Rejected("Content-Length is not a number", code="request.bad_header")
            if int(length) > self.body_limit(route):
                raise too_large(self.body_limit(route))
        elif b"transfer-encoding" not in headers:
            return
        if length == b"0":
            return
        if route.content == "none":
            raise Rejected("this route takes no body", code="request.no_body")
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise WrongContent("a compressed body is not read", hint="send the body as it is")
        wire.check_type(headers.get(b"content-type", b""), raw=route.content == "bytes")

    def _check_lane(self, world: str) -> None:
        """Refuse an event that finds a full lane while its body costs nothing yet."""
        try:
            self.node.check_lane(world)
        except Busy as why:
            self.node.metrics.count("tally_refusals_total", code=why.code)
            raise

    async def carry(self, request: Request) -> Response:
        """Carry a whole request out; whatever goes wrong is a problem with a code."""
        try:
            if b"idempotency-key" not in request.headers or request.route.once in _OWN_KEYS:
                return await request.route.handler(request)
            return await once.answer(request, self.keys)
        except TallyError as why:
            self.node.metrics.count("tally_refusals_total", code=why.code)
            self.node.log.say(
                "debug", why.code, f"{request.route.path} refused", world=request.world
            )
            return problem(why)
        except Exception as why:  # noqa: BLE001 - whatever goes wrong has a code and a line
            self.node.log.failed(f"{request.route.path} failed", why)
            return problem(TallyError("the node failed to answer", code="node.internal"))

    def close(self) -> None:
        """Let go of what the application itself holds; the node is another's to close."""
        self.keys.close()

    # ---- ASGI -------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of an ASGI server."""
        if scope["type"] != "http":
            raise NotImplementedError(f"{scope['type']} is not served")
        try:
            headers = _headers(scope["headers"])
            request = self.admit(scope["method"], scope["raw_path"], scope["query_string"], headers)
            request.body = await self._body(request.route, receive)
        except TallyError as why:
            response = problem(why)
            cbor = False
        else:
            response = await self.carry(request)
            cbor = request.wants_cbor
        await self._send(response, cbor, receive, send)

    async def _body(self, route: Route, receive: Receive) -> bytes:
        most = self.body_limit(route)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.body_timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Rejected("the caller left before its end", code="request.cut")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise too_large(most)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise TooSlow(f"the body took over {self.body_timeout_s} s") from None

    async def _send(self, response: Response, cbor: bool, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": response.status}
        if response.stream is None:
            body, headers = rendered(response, cbor=cbor)
            await send({**head, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await send({**head, "headers": [*FIXED, (b"content-type", response.content_type)]})
        async for part in self.until_stopped(response.stream, _gone(receive)):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def until_stopped(
        self, stream: AsyncIterator[bytes], gone: Awaitable[Any]
    ) -> AsyncIterator[bytes]:
        """The parts of a stream until it ends, its reader leaves, or the node stops."""
        left: asyncio.Future[Any] = asyncio.ensure_future(gone)
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self.stopping.wait())
        following: asyncio.Future[Any] | None = None
        try:
            while True:
                following = asyncio.ensure_future(_next(stream))
                await asyncio.wait({following, left, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if left.done() or stopping.done():
                    return
                if isinstance(following.exception(), _Ended):
                    return
                yield following.result()
        finally:
            for each in (left, stopping, following):
                if each is not None:
                    each.cancel()
                    await asyncio.wait({each})
            await _close(stream)


_OWN_KEYS: Final = frozenset({"event", "itself"})


async def _next(stream: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        raise _Ended from None


class _Ended(Exception):  # noqa: N818 - a task cannot carry StopAsyncIteration
    """A stream came to its end."""


async def _close(stream: AsyncIterator[bytes]) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def too_large(most: int) -> TooLarge:
    """The refusal of a body."""
    return TooLarge(
        f"a body has at most {most} bytes", code="request.too_large", where={"max": most}
    )


def twice(name: bytes) -> Rejected:
    """The refusal of a header that stands twice."""
    return Rejected(
        f"{name.decode('latin-1')} stands twice",
        code="request.bad_header",
        where={"path": name.decode("latin-1")},
    )


def _headers(given: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    found = dict(given)
    if len(found) != len(given):
        names = [name for name, _ in given]
        for name in names:
            if name in ALONE and names.count(name) > 1:
                raise twice(name)
    return found


def problem(error: TallyError) -> Response:
    """An error as a response."""
    headers: list[tuple[bytes, bytes]] = []
    wait_ms = error.where.get("retry_after_ms")
    if error.status in (429, 503):
        wait_ms = 1000 if wait_ms is None else wait_ms
        headers.append((b"retry-after", b"%d" % max(1, -(-wait_ms // 1000))))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if error.status == 405:
        headers.append((b"allow", error.where["allow"].encode()))
    if error.status == 416 and "size" in error.where:
        headers.append((b"content-range", b"bytes */%d" % error.where["size"]))
    body, _ = wire.encoded(wire.problem_of(error), cbor=False)
    return Response(error.status, None, tuple(headers), body, content_type=wire.PROBLEM)


def rendered(response: Response, *, cbor: bool) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The body of a response and all of its headers."""
    if response.raw is not None:
        body, kind = response.raw, response.content_type
    elif response.status == 204:
        return b"", [*FIXED, *response.headers]
    else:
        body, kind = wire.encoded(response.value, cbor=cbor)
    return body, [
        (b"content-length", b"%d" % len(body)),
        (b"content-type", kind),
        *FIXED,
        *response.headers,
    ]
