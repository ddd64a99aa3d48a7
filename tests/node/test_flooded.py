"""A flood of events and the snapshots behind it: what is held until one is taken stays bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.node.hosted import Hosted
from tests import orders
from tests.node.rig import Bank, config, placed, running

EVERY = 200


async def latest(folder: Path, *, planted: bool) -> int:
    """How many records stood behind the newest snapshot at the most, while a flood came in."""
    late = [0]
    async with running(config(folder, node={"snapshot_every": EVERY}), Bank()) as node:
        snaps = node.engine._snaps
        snaps._rhythm = snaps._rhythm._replace(prepared=4)
        take = snaps.take

        def behind(hosted: Hosted) -> int:
            return hosted.driver.world.seq - hosted.snapped

        def taken(hosted: Hosted) -> bool:
            late.append(behind(hosted))
            return take(hosted)

        snaps.take = taken  # type: ignore[method-assign]  # it is watched, not changed
        if planted:
            # However late it is, its parts stay as they are.
            snaps._overdue = lambda hosted: max(EVERY, behind(hosted))  # type: ignore[method-assign]
        world = await node.create("main", orders.bundle())
        await asyncio.gather(
            *(
                node.offer(world, *[placed(node, f"o-{first + n}") for n in range(100)])
                for first in range(0, 2_500, 100)
            )
        )
        assert await node.quiet(world, 60_000)
    return max(late)


@pytest.mark.invariant("I42")
def test_the_later_a_snapshot_the_larger_its_parts(tmp_path: Path) -> None:
    """AT-31, W10: a flood that makes more than a part of a snapshot takes up does not outrun it."""
    assert asyncio.run(latest(tmp_path, planted=False)) < 40 * EVERY


def test_parts_of_one_size_are_outrun(tmp_path: Path) -> None:
    """The control of the test above: the snapshot falls behind for as long as the flood lasts."""
    assert asyncio.run(latest(tmp_path, planted=True)) > 60 * EVERY
