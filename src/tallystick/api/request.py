"""Requests and responses, as handlers see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from tallystick.api import wire
from tallystick.api.routes import Route
from tallystick.errors import Rejected
from tallystick.kernel.inputs import Sample
from tallystick.node.node import Node

if TYPE_CHECKING:
    from tallystick.api.front import Api
    from tallystick.api.who import Identity

LIMIT: Final = 100
LIMIT_MAX: Final = 1000
QUERY_MAX: Final = 32


@dataclass(slots=True)
class Response:
    """What goes back: a value to encode, or raw bytes, or a stream of bytes."""

    status: int = 200
    value: Any = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    raw: bytes | None = None
    stream: AsyncIterator[bytes] | None = None
    content_type: bytes = b""


@dataclass(slots=True)
class Request:
    """One request that passed the door: its route, its caller, its world and its body."""

    api: Api
    route: Route
    named: Mapping[str, str]
    headers: Mapping[bytes, bytes]
    who: Identity
    world: str
    query: dict[str, str]
    body: bytes = b""
    entropy: bytes = b""  # reserved for the input of a request with a key
    again: bool = False  # a request with this key was begun before, and may have happened
    gone: asyncio.Future[None] | None = None  # done once the caller has closed its end

    @property
    def node(self) -> Node:
        """The node that answers."""
        return self.api.node

    def document(self) -> Any:
        """The body as a value, exactly as it was spelled; an absent one is an empty object."""
        if not self.body:
            return {}
        return wire.document_of(self.body, self.headers.get(b"content-type", b""))

    def read(self, model: type[wire.M]) -> wire.M:
        """The body as one of our shapes; refuses unknown and misfitting fields by path."""
        return wire.convert(self.document(), model)

    def sample(self) -> Sample:
        """Time and chance for the input that this request becomes."""
        sample = self.node.clock.sample()
        return sample._replace(entropy=self.entropy) if self.entropy else sample

    @property
    def cbor(self) -> bool:
        """True when the body came as CBOR."""
        return wire.is_cbor(self.headers.get(b"content-type", b""))

    @property
    def wants_cbor(self) -> bool:
        """True when the answer is wanted as CBOR."""
        return self.headers.get(b"accept") == wire.CBOR

    @property
    def idem_key(self) -> str | None:
        """The Idempotency-Key, checked; None when there is none."""
        given = self.headers.get(b"idempotency-key")
        return None if given is None else wire.idem_key_of(given)

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number of the query, from 0 to `most`."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > most:
            raise _bad_query(name, f"a number from 0 to {most}")
        return int(text)

    @property
    def limit(self) -> int:
        """How many items a list gives at most."""
        return max(1, self.number("limit", LIMIT, LIMIT_MAX))

    @property
    def at(self) -> int | None:
        """The sequence that a read looks back to; None is now."""
        return self.number("at", 0, 2**63 - 1) if "at" in self.query else None

    def flag(self, name: str) -> bool:
        """A yes or no of the query."""
        text = self.query.get(name, "false")
        if text not in ("true", "false", "1", "0"):
            raise _bad_query(name, "true or false")
        return text in ("true", "1")


def query_of(raw: bytes, route: Route) -> dict[str, str]:
    """The query of a request; refuses unknown names, repeated ones and text that is not UTF-8."""
    if not raw:
        return {}
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=QUERY_MAX,
        )
    except ValueError as why:
        raise Rejected(
            "the query cannot be read", code="request.bad_query", where={"path": "?"}
        ) from why
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Rejected("a name stands twice in the query", code="request.bad_query")
    for name in found:
        if name not in route.query:
            known = ", ".join(route.query) or "none"
            raise _bad_query(name, f"one of the parameters of this route: {known}")
    return found


def _bad_query(name: str, wanted: str) -> Rejected:
    return Rejected(
        f"?{name}= must be {wanted}", code="request.bad_query", where={"path": f"?{name}"}
    )
