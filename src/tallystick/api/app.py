"""The application: one request in, one response out, over plain ASGI.

The order of the questions is the rule: Host and Origin, the route, the identity, the scope, the
world, the query, the body.
Nothing of a world is touched before the last of them is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from tallystick.api import once, wire
from tallystick.api.once import Keys
from tallystick.api.refusals import NoRoute, SlowBody, WrongContent, WrongMethod
from tallystick.api.request import Request, Response, query_of
from tallystick.api.routes import OPEN, Route, Table
from tallystick.api.who import NOBODY, Door, Identity, Tokens, check_scope, world_of
from tallystick.errors import Rejected, TallyError, TooLarge

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

LOG: Final = logging.getLogger("tallystick.api")
# Headers that decide something: a second one is a trick, never a habit.
_ALONE: Final = frozenset(
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
    }
)
_FIXED: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Api:
    """The node behind its door; an ASGI application."""

    def __init__(self, node: Any, table: Table, door: Door, tokens: Tokens, keys: Keys) -> None:
        self.node = node
        self.table = table
        self.door = door
        self.tokens = tokens
        self.keys = keys
        http = node.config.http
        self.body_max: int = http.max_body
        self.blob_max: int = http.max_blob
        self.body_timeout_s: float = http.body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every refusal is a problem with a code."""
        if scope["type"] != "http":
            raise NotImplementedError(f"{scope['type']} is not served")
        cbor = False
        try:
            headers = _headers(scope["headers"])
            cbor = headers.get(b"accept") == wire.CBOR
            response = await self._answer(scope, headers, receive)
        except TallyError as why:
            response = problem(why)
        except Exception:
            LOG.exception("a request failed", extra={"code": "node.internal"})
            response = problem(TallyError("the node failed to answer", code="node.internal"))
        await _send(response, cbor, receive, send)

    async def _answer(
        self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive
    ) -> Response:
        get = headers.get
        self.door.check(get(b"host"), get(b"origin"), get(b"sec-fetch-site"))
        try:
            route, named = self.table.find(scope["method"], scope["raw_path"])
        except (NoRoute, WrongMethod):
            # Only the known may learn which paths exist.
            self.tokens.identify(get(b"authorization"))
            raise
        who = self._caller(route, headers)
        world = world_of(who, named["w"], self.node) if "w" in named else ""
        query = query_of(scope["query_string"], route)
        body = await self._body(route, headers, receive)
        request = Request(self, route, named, headers, who, world, body, query)
        if b"idempotency-key" not in headers or route.once in ("event", "itself"):
            return await route.handler(request)
        return await once.answer(request, self.keys)

    def _caller(self, route: Route, headers: Mapping[bytes, bytes]) -> Identity:
        if route.scope == OPEN:
            return NOBODY
        who = self.tokens.identify(headers.get(b"authorization"))
        check_scope(who, route)
        return who

    async def _body(self, route: Route, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, refused as soon as it is known to be too large or of a wrong type."""
        raw = route.content == "bytes"
        most = self.blob_max if raw else self.body_max
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 12:
            raise Rejected("Content-Length is not a number", code="request.bad_header")
        if int(length) > most:
            raise _too_large(most)
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise WrongContent("a compressed body is not read", hint="send the body as it is")
        message = await self._receive(receive)
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            body = await self._rest(body, most, receive)
        if len(body) > most:
            raise _too_large(most)
        if route.content == "none":
            if body:
                raise Rejected("this route takes no body", code="request.no_body")
        elif body or raw:
            wire.check_type(headers.get(b"content-type", b""), raw=raw)
        return body

    async def _rest(self, first: bytes, most: int, receive: Receive) -> bytes:
        parts, size = [first], len(first)
        try:
            async with asyncio.timeout(self.body_timeout_s):
                while True:
                    message = await self._receive(receive)
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise _too_large(most)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise SlowBody(f"the body took over {self.body_timeout_s} s") from None

    async def _receive(self, receive: Receive) -> Mapping[str, Any]:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Rejected("the caller left before the body was whole", code="request.cut")
        return message


def _too_large(most: int) -> TooLarge:
    return TooLarge(
        f"a body has at most {most} bytes", code="request.too_large", where={"max": most}
    )


def _headers(given: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    found = dict(given)
    if len(found) != len(given):
        names = [name for name, _ in given]
        for name in _ALONE:
            if names.count(name) > 1:
                raise Rejected(
                    f"{name.decode()} stands twice",
                    code="request.bad_header",
                    where={"path": name.decode()},
                )
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


async def _send(response: Response, cbor: bool, receive: Receive, send: Send) -> None:
    if response.stream is not None:
        await _pour(response, receive, send)
        return
    if response.raw is not None:
        body, kind = response.raw, response.content_type
    elif response.status == 204:
        body, kind = b"", b""
    else:
        body, kind = wire.encoded(response.value, cbor=cbor)
    headers = [(b"content-length", b"%d" % len(body)), *_FIXED, *response.headers]
    if kind:
        headers.append((b"content-type", kind))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _pour(response: Response, receive: Receive, send: Send) -> None:
    """Send a stream until it ends or the reader leaves."""
    assert response.stream is not None, "only a stream is poured"
    headers = [(b"content-type", response.content_type), *_FIXED, *response.headers]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    gone = asyncio.ensure_future(_until_gone(receive))
    pouring = asyncio.ensure_future(_pump(response, send))
    try:
        await asyncio.wait({gone, pouring}, return_when=asyncio.FIRST_COMPLETED)
        if pouring.done():
            pouring.result()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        for task in (gone, pouring):
            task.cancel()
        await asyncio.gather(gone, pouring, return_exceptions=True)


async def _pump(response: Response, send: Send) -> None:
    assert response.stream is not None, "only a stream is poured"
    async for part in response.stream:
        await send({"type": "http.response.body", "body": part, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
