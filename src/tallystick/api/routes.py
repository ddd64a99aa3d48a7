"""Routes: one table for dispatch, authorisation and documentation.

A route cannot be made without a scope, and what may be called hangs on the matched route object,
never on the text of a path.
Paths are matched by raw segments: a fixed segment matches its own bytes only, so no spelling with
percent signs, dots or doubled slashes reaches a route by another door.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote_to_bytes

from tallystick.api.refusals import NoRoute, WrongMethod

if TYPE_CHECKING:
    from tallystick.api.found_again import Again
    from tallystick.api.request import Request, Response

OPEN: Final = "open"
SESSION: Final = "session"
SCOPES: Final = (
    "read",
    "send",
    "operate",
    "decide",
    "revoke",
    "propose",
    "approve",
    "apply",
    "fork",
    "work",
    "admin",
)
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
COMMON: Final = (400, 401, 403, 404, 413, 415, 421, 429, 503, 507)
SEGMENT_MAX: Final = 4096
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")

Handler = Callable[["Request"], Awaitable["Response"]]
Content = Literal["document", "large", "bytes", "none"]
Once = Literal["event", "kept", "itself", "never"]
"""How an Idempotency-Key is kept.

event   the fence of the world keeps it
kept    the first answer is kept beside the journal
itself  the request names what it makes, so a second one changes nothing
never   a key is refused, because a second answer could not equal the first
"""


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path: who may call it, what it takes and what it answers."""

    method: str
    path: str
    scope: str
    handler: Handler
    says: str
    codes: tuple[int, ...] = (200,)
    body: Any = None
    answer: Any = None
    content: Content = "none"
    query: tuple[str, ...] = ()
    once: Once = "itself"
    whole_node: bool = False
    found_again: Again | None = None
    """What is answered when a crash cut the answer and the journal has the record."""
    parts: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.scope not in (*SCOPES, OPEN, SESSION):
            raise ValueError(f"{self.method} {self.path} needs a scope, not {self.scope!r}")
        if self.method not in METHODS or not self.path.startswith("/"):
            raise ValueError(f"no route is {self.method} {self.path}")
        object.__setattr__(self, "parts", tuple(self.path[1:].split("/")))

    @property
    def of_world(self) -> bool:
        """True when the path names the world."""
        return "{w}" in self.parts


class _Branch:
    """One place in the tree of paths."""

    __slots__ = ("fixed", "name", "named", "routes")

    def __init__(self) -> None:
        self.fixed: dict[bytes, _Branch] = {}
        self.named: _Branch | None = None
        self.name = ""
        self.routes: dict[str, Route] = {}


class Table:
    """All routes, and the way from a raw path to one of them."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Branch()
        for route in self.routes:
            self._plant(route)

    def _plant(self, route: Route) -> None:
        branch = self._root
        for part in route.parts:
            if part.startswith("{"):
                if branch.named is None:
                    branch.named = _Branch()
                    branch.name = part[1:-1]
                if branch.name != part[1:-1]:
                    raise ValueError(f"{route.path}: {part} is called {branch.name} elsewhere")
                branch = branch.named
            else:
                branch = branch.fixed.setdefault(part.encode(), _Branch())
        if route.method in branch.routes:
            raise ValueError(f"{route.method} {route.path} stands twice")
        branch.routes[route.method] = route

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """The route of a request and the values of its named segments; refuses all others."""
        branch = self._root
        named: dict[str, str] = {}
        segments = raw_path.split(b"/")
        if segments[0]:
            raise NoRoute("no route has this path")
        for segment in segments[1:]:
            # A fixed segment wins; it is compared as bytes, before any escape is read.
            below = branch.fixed.get(segment)
            if below is None:
                below = branch.named
                if below is None:
                    raise NoRoute("no route has this path")
                named[branch.name] = _text_of(segment)
            branch = below
        if not branch.routes:
            raise NoRoute("no route has this path")
        # HEAD asks for the head of what GET answers.
        route = branch.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            head = ("HEAD",) if "GET" in branch.routes else ()
            allow = ", ".join(sorted((*branch.routes, *head)))
            raise WrongMethod(f"this path takes {allow}", where={"allow": allow})
        return route, named


def _text_of(segment: bytes) -> str:
    """A named segment as text; empty ones, dots, bad escapes and control characters are no name."""
    if segment.isalnum():
        return segment.decode("ascii")
    if not segment or len(segment) > SEGMENT_MAX or _BAD_ESCAPE.search(segment):
        raise NoRoute("no route has this path")
    try:
        text = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise NoRoute("no route has this path") from None
    if text in (".", "..") or not text.isprintable():
        raise NoRoute("no route has this path")
    return text
