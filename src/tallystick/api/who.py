"""Who calls: tokens, hosts and origins (04 section 11).

A token is `tly_<id>_<43 base64url>`, 256 bits of chance; the node keeps its SHA-256 only.
No mode is without tokens and there is no fallback identity: what is not known is refused.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tallystick.api.refusals import NoIdentity, WrongHost
from tallystick.api.routes import OPEN, SCOPES, SESSION, Route
from tallystick.errors import Forbidden, Rejected, UnknownName
from tallystick.node.node import Node

EVERY_WORLD: Final = "*"
_BEARER: Final = re.compile(rb"Bearer (tly_([a-z0-9]{1,32})_[A-Za-z0-9_-]{43})")
_HOST: Final = re.compile(
    r"([a-z0-9](?:[a-z0-9.-]{0,252}[a-z0-9])?|\[[0-9a-f:]{2,39}\])(?::\d{1,5})?"
)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a token speaks for, what it may do, and where."""

    token: str
    principal: str
    scopes: frozenset[str]
    worlds: tuple[str, ...]
    expires_ns: int | None = None
    session: str = ""  # of a browser; empty for a token

    @property
    def everywhere(self) -> bool:
        """True when no world is kept from it."""
        return EVERY_WORLD in self.worlds


NOBODY: Final = Identity("", "", frozenset(), ())


def new_secret(ident: str) -> str:
    """A new token with this id; it is shown once and kept as a hash."""
    return f"tly_{ident}_{secrets.token_urlsafe(32)}"


def new_id() -> str:
    """A new id for a token."""
    return secrets.token_hex(6)


def hash_of(token: str) -> bytes:
    """What is kept of a token."""
    return sha256(token.encode("ascii")).digest()


class Tokens:
    """The tokens a node knows, by hash."""

    def __init__(self) -> None:
        self._known: dict[bytes, Identity] = {}

    def put(self, hashed: bytes, identity: Identity) -> None:
        """Know a token from now on."""
        self._known[hashed] = identity

    def forget(self, ident: str) -> bool:
        """Stop knowing a token; False when it was not known."""
        found = [hashed for hashed, who in self._known.items() if who.token == ident]
        for hashed in found:
            del self._known[hashed]
        return bool(found)

    def identify(self, header: bytes | None) -> Identity:
        """The identity behind an Authorization header; refuses unknown and expired tokens."""
        found = None if header is None else _BEARER.fullmatch(header)
        if found is None:
            raise NoIdentity("this route needs a token")
        hashed = sha256(found.group(1)).digest()
        # The digest is looked up, not the token: how long it takes says nothing about a token.
        known = self._known.get(hashed)
        if known is None or not hmac.compare_digest(known.token.encode(), found.group(2)):
            raise NoIdentity("this token is not known", code="auth.unknown_token")
        if known.expires_ns is not None and known.expires_ns <= time.time_ns():
            raise NoIdentity("this token has expired", code="auth.expired_token")
        return known


class Door:
    """What is asked of every request before anything else: its Host and where it comes from."""

    def __init__(self, hosts: Iterable[str] = (), scheme: str = "http") -> None:
        self._hosts = frozenset((*_LOOPBACK, *(host.lower() for host in hosts)))
        self._scheme = scheme
        self._seen: set[bytes] = set()  # hosts that were found good

    @property
    def is_tls(self) -> bool:
        """True when callers come by TLS."""
        return self._scheme == "https"

    def check(self, host: bytes | None, origin: bytes | None, site: bytes | None) -> None:
        """Refuse a foreign Host (421), and a foreign Origin or a cross-site fetch (403)."""
        if host in self._seen and origin is None and site is None:
            return
        text = "" if host is None else host.decode("latin-1").lower()
        found = _HOST.fullmatch(text)
        if found is None or found.group(1) not in self._hosts:
            raise WrongHost("this node does not answer under that Host")
        if host is not None and len(self._seen) < 64:
            self._seen.add(host)
        if origin is not None and origin.decode("latin-1").lower() != f"{self._scheme}://{text}":
            raise Forbidden("requests of other origins are refused", code="auth.foreign_origin")
        if site is not None and site not in (b"same-origin", b"none"):
            raise Forbidden("cross-site requests are refused", code="auth.cross_site")


def check_scope(who: Identity, route: Route) -> None:
    """Refuse a caller without the scope of the route, and name it."""
    if route.scope == SESSION:
        if not who.session:
            raise NoIdentity("this route is for a session", code="auth.no_session")
    elif route.scope != OPEN and route.scope not in who.scopes:
        raise Forbidden(
            f"this route needs the scope {route.scope}",
            code="auth.missing_scope",
            where={"scope": route.scope},
        )
    if route.whole_node and not who.everywhere:
        raise Forbidden(
            "this route needs a token for every world",
            code="auth.missing_world",
            where={"world": EVERY_WORLD},
        )


def may_enter(who: Identity, world: str, node: Node) -> bool:
    """True when the token is for this world, by its id or by a name that means it now."""
    return who.everywhere or any(_resolved(node, each) == world for each in who.worlds)


def world_of(who: Identity, name: str, node: Node) -> str:
    """The id of the world that a path names, when the caller may go there.

    A world that is kept from the caller and one that does not exist are refused alike.
    """
    if who.everywhere or name in who.worlds:
        return node.resolve(name)
    found = _resolved(node, name)
    if found is not None and may_enter(who, found, node):
        return found
    raise Forbidden(
        "the token is not for this world", code="auth.missing_world", where={"world": name}
    )


def _resolved(node: Node, name: str) -> str | None:
    try:
        return node.resolve(name)
    except UnknownName:
        return None


def known_scopes(given: Iterable[str]) -> frozenset[str]:
    """Scopes as a set; refuses a word that is none."""
    found = frozenset(given)
    odd = sorted(found - set(SCOPES))
    if odd:
        raise Rejected(
            f"no scope is called {odd[0]}",
            code="auth.unknown_scope",
            where={"path": "/scopes"},
            hint=f"use some of {', '.join(SCOPES)}",
        )
    return found
