"""A flood of events and the snapshots behind it: the later one is, the larger are its parts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.node.hosted import Hosted
from tallystick.node.node import Node
from tests import orders
from tests.node.rig import Bank, config, placed, running

ORDERS = 200


async def filled(node: Node) -> Hosted:
    """A world with some thousand entries that no snapshot holds."""
    world = await node.create("main", orders.bundle())
    await node.offer(world, *[placed(node, f"o-{number}") for number in range(ORDERS)])
    assert await node.quiet(world, 60_000)
    return node.engine.worlds[world]


@pytest.mark.invariant("I42")
def test_parts_grow_with_the_hurry(tmp_path: Path) -> None:
    """AT-31, W10: parts of one size are outrun by a flood that makes more than they take up."""

    async def main() -> None:
        async with running(config(tmp_path, node={"snapshot_every": 100_000}), Bank()) as node:
            hosted = await filled(node)

            def merged(hurry: int) -> int:
                stores = hosted.driver.world.stores().values()
                before = sum(len(store._merged) for store in stores)
                assert hosted.prepared(1, 1, due=True, hurry=hurry)
                return sum(len(store._merged) for store in stores) - before

            sizes = await node.on_kernel(lambda: [merged(hurry) for hurry in (0, 1, 3)])
            assert sizes == [1, 16, 48]

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.invariant("I42")
def test_the_hurry_grows_with_what_stands_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AT-31, W10: a snapshot that is overdue many times over hurries as many times as much."""

    async def main() -> None:
        async with running(config(tmp_path, node={"snapshot_every": 100_000}), Bank()) as node:
            hosted = await filled(node)
            seen: list[int] = []

            def prepared(_hosted: Hosted, *_: Any, hurry: int, **__: Any) -> bool:
                seen.append(hurry)
                return True

            def look() -> None:
                snaps = node.engine._snaps
                for every in (100_000, 100, 25):
                    snaps._rhythm = snaps._rhythm._replace(snapshot_every=every, overdue=2)
                    snaps.take(hosted)
                snaps._rhythm = snaps._rhythm._replace(snapshot_every=100_000)

            monkeypatch.setattr(Hosted, "prepared", prepared)
            late = hosted.driver.world.seq - hosted.snapped
            await node.on_kernel(look)
            monkeypatch.undo()
            assert late > 1000
            assert seen[:3] == [0, late // 200, late // 50]

    asyncio.run(asyncio.wait_for(main(), 120))
