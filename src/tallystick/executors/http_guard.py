"""What a request may reach: the grant, asked again at every hop and for every address.

The kernel asked the same pure rules before the intent was opened.
They are asked here once more because a redirect is a new target and because a name means nothing
before it is resolved: the address that is judged is the address that is connected to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tallystick.authority.addresses import address_allowed, read_address
from tallystick.authority.enforcers import builtin
from tallystick.authority.urls import BadUrl, read_url


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it goes over the wire, but for what the wire adds."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Hop:
    """Where a request goes: `host` as the server knows it, and `address` when it is one."""

    scheme: str
    host: str
    port: int
    target: str
    address: str | None

    @property
    def origin(self) -> tuple[str, str, int]:
        """What two requests share when they may share credentials."""
        return self.scheme, self.host, self.port

    @property
    def host_header(self) -> str:
        """The host as the request names it; the usual port is left out."""
        usual = {"http": 80, "https": 443}[self.scheme]
        return self.host if self.port == usual else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a hop is not taken."""

    reason: str


class Guard(Protocol):
    """Says where a request may go."""

    def hop(self, grant: Mapping[str, Any], request: Request) -> Hop | Refusal:
        """The place a request leads to, or why it may not go there."""
        ...

    def refuses(self, grant: Mapping[str, Any], addresses: Sequence[str]) -> str | None:
        """The first address that may not be connected to, or None when all may."""
        ...


class GrantGuard:
    """The guard that asks the grant."""

    def hop(self, grant: Mapping[str, Any], request: Request) -> Hop | Refusal:
        """Judge method, URL, headers and body by the enforcer of `http.out`."""
        asked = {
            "method": request.method,
            "url": request.url,
            "headers": dict(request.headers),
            "body": request.body,
        }
        answer = builtin("http_out", {"cap_params": grant, "params": asked})
        if not answer.ok:
            return Refusal(answer.message or "the grant does not cover it")
        url = read_url(request.url)
        if isinstance(url, BadUrl):
            return Refusal(url.reason)
        literal = url.host.strip("[]") if url.address is not None else None
        return Hop(url.scheme, url.host, url.port, _target(request.url), literal)

    def refuses(self, grant: Mapping[str, Any], addresses: Sequence[str]) -> str | None:
        """One inside address among several refuses them all: the resolver is not trusted."""
        cidrs = grant.get("cidrs") or ()
        for text in addresses:
            address = read_address(text)
            if address is None or not address_allowed(address, cidrs):
                return text
        return None


def _target(url: str) -> str:
    """The part of a checked URL that goes into the request line."""
    rest = url.partition("://")[2]
    at = min((i for i in (rest.find("/"), rest.find("?")) if i >= 0), default=len(rest))
    target = rest[at:]
    return target if target.startswith("/") else "/" + target
