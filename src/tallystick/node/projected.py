"""What the journals say of reactions, kept up with as far as somebody asks.

Frames and blobs are read in worker threads, but a projection moves on the io thread alone, under
its lock: who reads it there without waiting in between sees one state of it, and who reads it in a
thread holds the lock meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from tallystick.journal.base import Reader
from tallystick.model.records import Record
from tallystick.node.node import Node
from tallystick.views.journal import entries
from tallystick.views.reactive import Reactive

PAGE_RECORDS: Final = 2_000
_TURN: Final = 200


class Page(NamedTuple):
    """Records in their order, the blobs that folding them needs, and where they end."""

    rows: list[tuple[int, Record]]
    blobs: dict[bytes, bytes | None]
    upto: int


class Projected:
    """One projection for each world."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._held: dict[str, Reactive] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def now(self, world: str) -> Reactive:
        """Up to the durable head of this moment."""
        async with self.holding(world) as held:
            return held

    @asynccontextmanager
    async def holding(self, world: str) -> AsyncIterator[Reactive]:
        """The same, and nobody moves it while it is held."""
        async with self._locks.setdefault(world, asyncio.Lock()):
            held = self._held.setdefault(world, Reactive())
            await self.follow(held, world, self._node.feed.head(world))
            yield held

    async def past(self, world: str, seq: int) -> Reactive:
        """As of a sequence, folded anew."""
        made = Reactive()
        await self.follow(made, world, seq)
        return made

    async def follow(self, into: Reactive, world: str, upto: int) -> None:
        """Fold the records of a world into a projection, up to a sequence."""
        at = into.seq
        while at < upto:
            after = at
            page = await self._node.read(lambda reader, a=after: _page(reader, world, a, upto))  # type: ignore[misc]  # a default is how a loop binds its value
            for count, (seq, record) in enumerate(page.rows, 1):
                into.note(seq, record, page.blobs.get)
                if count % _TURN == 0:
                    await asyncio.sleep(0)  # a long history lets others have their turn
            at = page.upto


def _page(reader: Reader, world: str, after: int, upto: int) -> Page:
    """The next records, with every blob that a fold over them asks for."""
    rows: list[tuple[int, Record]] = []
    blobs: dict[bytes, bytes | None] = {}
    rehearsal = Reactive()

    def blob(digest: bytes) -> bytes | None:
        if digest not in blobs:
            blobs[digest] = reader.blob(world, digest)
        return blobs[digest]

    for entry in entries(reader.read(world, after, upto)):
        if len(rows) >= PAGE_RECORDS and entry.seq == entry.frame.seq:
            return Page(rows, blobs, entry.seq - 1)
        rows.append((entry.seq, entry.record))
        # Folding twice is how it is known what folding needs.
        rehearsal.note(entry.seq, entry.record, blob)
    return Page(rows, blobs, upto)
