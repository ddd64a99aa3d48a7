"""The history of an async cell: `sys/AsyncState@1`, and the chunks it seals.

`digest` is a chain over all items, sealed or not, so equal digests mean equal histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple, Self

from tallystick.values import canon

CHUNK: Final = "sys/AsyncChunk@1"
SEALED_AT: Final = 64
INLINE_MAX: Final = 512


class Item(NamedTuple):
    """One delivery that was consumed, and the digest of what the flow asked for after it."""

    on: str
    value: bytes
    ref: str | None
    at: int
    seed: bytes
    did: bytes

    def plain(self) -> dict[str, Any]:
        """The item as it is written."""
        return self._asdict()


@dataclass(slots=True)
class History:
    """What a flow has consumed; items before the newest chunk stand in the store."""

    start: bytes
    sealed: str | None
    log: list[Item]
    n: int
    digest: bytes
    blobs: dict[str, bytes]

    @classmethod
    def new(cls, start: bytes) -> Self:
        """The history of a flow that begins."""
        return cls(start, None, [], 0, sha256(start).digest(), {})

    @classmethod
    def of(cls, state: dict[str, Any]) -> Self:
        """The history in a state."""
        log = [Item(**item) for item in state["log"]]
        return cls(state["start"], state["sealed"], log, state["n"], state["digest"], {})

    def append(self, item: Item) -> None:
        """Add an item; a large value goes to the store."""
        if len(item.value) > INLINE_MAX:
            ref = canon.hash_of(item.value)
            self.blobs[ref] = item.value
            item = item._replace(value=b"", ref=ref)
        self.log.append(item)
        self.n += 1
        self.digest = sha256(self.digest + canon.encode(item.plain())).digest()

    def seal(self) -> dict[str, bytes]:
        """Put 64 items into a chunk when there are as many; what the store has to keep."""
        if len(self.log) >= SEALED_AT:
            items = [item.plain() for item in self.log]
            # Marked as a document of ours, so that collection follows the hashes in it.
            chunk = canon.encode({"$kind": CHUNK, "prev": self.sealed, "items": items})
            self.sealed = canon.hash_of(chunk)
            self.blobs[self.sealed] = chunk
            self.log = []
        made, self.blobs = self.blobs, {}
        return made

    def items(self, read: Callable[[str], bytes]) -> Iterator[Item]:
        """Every item from the start on."""
        chunks: list[dict[str, Any]] = []
        at = self.sealed
        while at is not None:
            chunks.append(canon.decode(read(at)))
            at = chunks[-1]["prev"]
        for chunk in reversed(chunks):
            for item in chunk["items"]:
                yield Item(**item)
        yield from self.log

    def plain(self) -> dict[str, Any]:
        """The state as it is written."""
        return {
            "start": self.start,
            "sealed": self.sealed,
            "log": [item.plain() for item in self.log],
            "n": self.n,
            "digest": self.digest,
        }
