"""Sessions of a browser: a code that is used once, and a session in two halves (09 section 2).

A code stands in the fragment of a link, so it reaches no access log and no Referer.
A session is split: half A is a cookie, half B is kept by the page and sent as a header.
Each alone is worthless: a cookie leaks to other ports of its host and rides along on forged
requests, and half B does neither.
Codes and halves are kept as hashes, and all of them end with the process.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, NamedTuple

from tallystick.api.refusals import NoIdentity
from tallystick.api.who import Identity

CODE_NS: Final = 120 * 1_000_000_000
HALF: Final = b"x-tally-half"
_CODES_MAX: Final = 1_000
_SESSIONS_MAX: Final = 1_000
_PAIR: Final = re.compile(rb"(?:^|; ?)(tally_\d{1,5})=([A-Za-z0-9_-]{43})(?=;|$)")


class Opened(NamedTuple):
    """A session that has just begun; its halves are told once."""

    cookie: str
    half: str
    identity: Identity
    expires_ns: int


@dataclass(slots=True)
class _Session:
    half: bytes
    identity: Identity
    used_ns: int


class Sessions:
    """The codes and sessions of one node."""

    def __init__(self, idle_ns: int, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.cookie = b""  # the name of our cookie; set once the port is known
        self._idle_ns = idle_ns
        self._now_ns = now_ns
        self._codes: dict[bytes, tuple[Identity, int]] = {}
        self._open: dict[bytes, _Session] = {}

    def code(self, identity: Identity) -> tuple[str, int]:
        """A new code for who holds an identity, and until when it is good."""
        now_ns = self._now_ns()
        self._codes = {key: row for key, row in self._codes.items() if row[1] > now_ns}
        while len(self._codes) >= _CODES_MAX:
            self._codes.pop(next(iter(self._codes)))
        made, until_ns = secrets.token_urlsafe(32), now_ns + CODE_NS
        self._codes[_hash(made)] = (identity, until_ns)
        return made, until_ns

    def begin(self, code: str) -> Opened:
        """A session for a code, which is spent with that; refuses used, stale and unknown ones."""
        now_ns = self._now_ns()
        found = self._codes.pop(_hash(code), None)
        if found is None or found[1] <= now_ns:
            raise NoIdentity("this code is used or stale", code="auth.code_spent")
        _check_expiry(found[0], now_ns)
        self._drop_idle(now_ns)
        cookie, half = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        identity = replace(found[0], session=_hash(cookie).hex()[:16])
        self._open[_hash(cookie)] = _Session(_hash(half), identity, now_ns)
        ends = (now_ns + self._idle_ns, identity.expires_ns)
        return Opened(cookie, half, identity, min(end for end in ends if end is not None))

    def identify(
        self, cookies: bytes | None, half: bytes | None, *, uses: bool = True
    ) -> Identity | None:
        """Who a browser speaks for; None when it brings no half, refused when they do not match.

        Who only looks whether it is still open does not keep it so: that is not `uses`.
        """
        named = dict(_PAIR.findall(cookies or b""))
        cookie = named.get(self.cookie)
        if cookie is None and half is None:
            return None
        now_ns = self._now_ns()
        key = sha256(cookie or b"").digest()
        session = self._open.get(key)
        given = sha256(half or b"").digest()
        if session is None or not hmac.compare_digest(session.half, given):
            raise NoIdentity("a session needs both of its halves", code="auth.no_session")
        if session.used_ns + self._idle_ns <= now_ns:
            del self._open[key]
            raise NoIdentity("the session was idle for too long", code="auth.no_session")
        # A session is its token's: in use or not, it does not outlive it.
        _check_expiry(session.identity, now_ns)
        if uses:
            session.used_ns = now_ns
        return session.identity

    def end(self, session: str) -> None:
        """End a session by its id."""
        self._open = {k: row for k, row in self._open.items() if row.identity.session != session}

    def forget(self, token: str) -> None:
        """End what a revoked token has begun."""
        self._open = {key: row for key, row in self._open.items() if row.identity.token != token}
        self._codes = {key: row for key, row in self._codes.items() if row[0].token != token}

    def _drop_idle(self, now_ns: int) -> None:
        since_ns = now_ns - self._idle_ns
        self._open = {key: row for key, row in self._open.items() if row.used_ns > since_ns}
        while len(self._open) >= _SESSIONS_MAX:
            self._open.pop(next(iter(self._open)))


def _check_expiry(identity: Identity, now_ns: int) -> None:
    if identity.expires_ns is not None and identity.expires_ns <= now_ns:
        raise NoIdentity("the token of this session has expired", code="auth.expired_token")


def _hash(text: str) -> bytes:
    return sha256(text.encode("utf-8")).digest()
