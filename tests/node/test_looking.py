"""Who only looks changes nothing: no epoch, no record; who writes becomes the owner first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.journal.base import Head
from tests import orders
from tests.node.rig import Bank, config, placed, running


@pytest.mark.clause("K-19")
def test_an_epoch_begins_with_the_first_write(tmp_path: Path) -> None:
    """04 section 13: opening to look leaves head and epoch; a write raises the epoch once."""

    async def head(passive: bool, *ids: str) -> Head:
        async with running(config(tmp_path), Bank(), passive=passive) as node:
            world = node.resolve("main")
            await asyncio.gather(*(node.offer(world, placed(node, each)) for each in ids))
            await node.look(world, lambda live: live.seq)
            return await node.read(lambda reader: reader.head(world))

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            await node.create("main", orders.bundle())
        first = await head(True)
        assert await head(True) == first
        written = await head(True, "o-1", "o-2", "o-3")
        assert written.epoch == first.epoch + 1
        assert written.seq > first.seq
        assert (await head(False)).epoch == written.epoch + 1

    asyncio.run(asyncio.wait_for(main(), 240))
