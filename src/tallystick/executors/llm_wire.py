"""The wire to a model service: one POST, an event stream back, and failures by whose fault.

The address comes from the operator's settings, not from a workflow, so a model on this machine is
as good as one elsewhere; no proxy and no password file of the environment is used.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import Rejected, TallyError, Unavailable
from tallystick.executors.base import ErrorKind, Failed

if TYPE_CHECKING:  # it is a quarter of a start, and most nodes ask no remote model
    import httpx

LINE_BYTES_MAX: Final = 4 * 2**20
ERROR_BYTES_MAX: Final = 16_384
_KINDS: Final[Mapping[int, ErrorKind]] = {
    401: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    429: "rate_limit",
}


class Refused(Unavailable):
    """The service answered with a failure; `failed` is the outcome."""

    default_code = "llm.refused"
    default_hint = "see the message of the service"

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, code=failed.code)
        self.failed = failed


class ModelService:
    """A service behind one URL, with the headers that each request carries."""

    def __init__(self, url: str, bytes_max: int) -> None:
        self._url = url.rstrip("/")
        self._bytes_max = bytes_max
        import httpx  # noqa: PLC0415 - see above

        self._client = httpx.AsyncClient(trust_env=False, follow_redirects=False)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    @asynccontextmanager
    async def events(
        self, path: str, headers: Mapping[str, str], body: Any, seconds: float
    ) -> AsyncIterator[AsyncIterator[Any]]:
        """The JSON documents of the event stream that a request is answered with.

        Refuses an answer that is no stream, or over a bound, with `llm.*` codes.
        """
        # tidy: every way in which the wire can fail, in the order in which it can
        import httpx  # noqa: PLC0415 - see above

        request = self._client.build_request(
            "POST",
            self._url + path,
            headers={"accept": "text/event-stream", **headers},
            json=body,
            timeout=httpx.Timeout(seconds),
        )
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TimeoutException as why:
            raise Refused(Failed("timeout", "llm.timeout", "the service did not answer")) from why
        except httpx.TransportError as why:
            message = f"{self._url}: {why or type(why).__name__}"
            raise Refused(Failed("connection", "llm.unreachable", message, retryable=True)) from why
        try:
            if response.status_code != 200:
                raise Refused(await _failure(response))
            yield self._documents(response)
        except httpx.TimeoutException as why:
            raise Refused(Failed("timeout", "llm.timeout", "the stream came to a halt")) from why
        except (httpx.TransportError, httpx.DecodingError) as why:
            message = f"the stream broke off: {why or type(why).__name__}"
            raise Refused(Failed("connection", "llm.cut", message, retryable=True)) from why
        finally:
            await response.aclose()

    async def _documents(self, response: httpx.Response) -> AsyncIterator[Any]:
        async for line in _lines(response, self._bytes_max):
            # Event names are said again inside the data, so only data lines count.
            field, _, text = line.partition(":")
            text = text.removeprefix(" ")
            if field != "data" or text == "[DONE]":
                continue
            try:
                yield json.loads(text)
            except (ValueError, RecursionError) as why:
                raise Rejected("a line of the stream is not JSON", code="llm.bad_stream") from why


async def _lines(response: httpx.Response, bytes_max: int) -> AsyncIterator[str]:
    """Lines of a stream, each and all of them bounded."""
    rest, total = b"", 0
    async for chunk in response.aiter_bytes():
        total += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        if total > bytes_max or len(rest) > LINE_BYTES_MAX:
            raise Rejected("the stream is longer than it may be", code="llm.too_large")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


async def _failure(response: httpx.Response) -> Failed:
    """What an answer other than 200 means."""
    status = response.status_code
    default: ErrorKind = "server_error" if status >= 500 else "client_error"
    text = b""
    async for chunk in response.aiter_bytes():
        text += chunk
        if len(text) > ERROR_BYTES_MAX:
            break
    said = text[:500].decode("utf-8", "replace")
    return Failed(
        _KINDS.get(status, default),
        f"llm.status_{status}",
        f"the service answered {status}: {said}",
        retryable=status >= 500 or status in (408, 429),
        retry_after_ns=_after_ns(response.headers.get("retry-after")),
    )


def _after_ns(text: str | None) -> int | None:
    """Retry-After in seconds; a date is left to the caller's own back-off."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 9:
        return None
    return int(text) * 10**9


def failed_of(why: TallyError) -> Failed:
    """The outcome behind a refusal of the wire."""
    if isinstance(why, Refused):
        return why.failed
    if why.code == "llm.too_large":
        return Failed("limit", why.code, why.message)
    # Asking again costs money and changes nothing outside.
    kind: ErrorKind = "connection" if why.code == "llm.cut" else "server_error"
    return Failed(kind, why.code, why.message, retryable=True)
