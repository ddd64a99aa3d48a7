"""What the journals say of reactions, kept up with as far as somebody asks."""

from __future__ import annotations

import asyncio

from tallystick.journal.base import Reader
from tallystick.node.node import Node
from tallystick.views.reactive import Reactive


class Projected:
    """One projection for each world; folded in worker threads, one reader at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._held: dict[str, Reactive] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def now(self, world: str) -> Reactive:
        """Up to the durable head of this moment."""
        async with self._locks.setdefault(world, asyncio.Lock()):
            held = self._held.setdefault(world, Reactive())
            upto = self._node.feed.head(world)
            if held.seq < upto:
                await self._node.read(lambda reader: _fold(held, reader, world, upto))
            return held

    async def past(self, world: str, seq: int) -> Reactive:
        """As of a sequence, folded anew."""
        made = Reactive()
        await self._node.read(lambda reader: _fold(made, reader, world, seq))
        return made

    def forget(self, world: str) -> None:
        """A world is gone."""
        self._held.pop(world, None)


def _fold(into: Reactive, reader: Reader, world: str, upto: int) -> None:
    into.read(reader.read(world, into.seq, upto), lambda digest: reader.blob(world, digest))
