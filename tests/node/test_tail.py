"""How much a start has to fold is bounded, however busy the world was and however it ended."""

from __future__ import annotations

import asyncio
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tallystick.node.node import Node
from tests import orders
from tests.node.rig import Bank, config, placed, running

EVERY = 60
GROUPS = 80
GROUP = 5
FEW = 20  # as many wait in the lane nearly to the end
NEVER = 1_000_000


async def _flood(node: Node, world: str) -> None:
    """Everything at once: the lane of new events is not empty before the end, no moment is calm.

    The world stands still until all of it is there: how fast it comes does not count.
    """
    async with node.held(world):
        offers = [
            asyncio.ensure_future(
                node.offer(world, *[placed(node, f"o-{group}-{i}") for i in range(GROUP)])
            )
            for group in range(GROUPS)
        ]
        while node.lanes[world].count < GROUPS * GROUP:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.005)
    await asyncio.gather(*offers)


async def _tails(node: Node, world: str) -> list[int]:
    """How many records stood between one snapshot and the next, from the beginning on."""
    rows = await node.read(lambda reader: reader.snapshots(world))
    return [after - before for before, after in pairwise([0, *(row.seq for row in rows)])]


@pytest.mark.clause("K-43")
@pytest.mark.parametrize(("overdue", "flood"), [(2, NEVER), (1000, FEW), (1000, NEVER)])
def test_a_flood_does_not_put_off_snapshots(tmp_path: Path, overdue: int, flood: int) -> None:
    """W10, AT-31: under a flood the tail stays a small part of the journal.

    A snapshot is overdue after some times its interval, and at once while many wait in the lane.
    The control waits for a calm moment a thousand intervals long, and then it does not.
    """

    async def main() -> tuple[int, int]:
        settings = config(tmp_path, node={"snapshot_every": EVERY})
        async with running(settings, Bank()) as node:
            snaps = node.engine._snaps
            snaps._rhythm = snaps._rhythm._replace(overdue=overdue, flood=flood)
            world = await node.create("main", orders.bundle())
            await _flood(node, world)
            assert await node.quiet(world, 60_000)
            head = node.feed.head(world)
            return max(await _tails(node, world), default=head), head

    longest, head = asyncio.run(asyncio.wait_for(main(), 240))
    # What was handed out when it fell due comes back, and has its ticks, before a snapshot: on a
    # slow machine that is several times the interval, and still no flood.
    assert (longest <= head // 2) is (min(overdue, flood) < 1000), (longest, head)


@pytest.mark.clause("K-43")
def test_a_tail_that_a_crash_left_counts(tmp_path: Path) -> None:
    """W10: starts that end early do not let the tail grow: a new one counts from the snapshot."""

    async def crash(base: Path, turn: int) -> tuple[Path, int]:
        """Some events, then the folder as a crash would leave it."""
        settings = config(base, node={"snapshot_every": EVERY})
        async with running(settings, Bank()) as node:
            world = node.names.get("main") or await node.create("main", orders.bundle())
            for i in range(4):
                await node.offer(world, placed(node, f"o-{turn}-{i}"))
            assert await node.quiet(world, 60_000)
            left = tmp_path / f"crash-{turn}"
            # Between commits: a copy of a file that is being written is no state of a disk.
            await node.write(lambda _: shutil.copytree(base / ".tally", left / ".tally"))
            return left, len(await node.read(lambda reader: reader.snapshots(world)))

    async def main() -> None:
        base, taken = tmp_path, 0
        for turn in range(6):
            base, taken = await crash(base, turn)
        assert taken >= 2, "24 orders of about eight records each"

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("K-43")
@pytest.mark.parametrize("every", [300, 100_000])
def test_lives_too_short_for_a_snapshot_leave_no_endless_tail(tmp_path: Path, every: int) -> None:
    """ND-01: a tail that is far too long is shortened before anybody is served.

    Who dies within seconds of each start would else fold more each time. The control is a tail
    that is not too long: there the first who ask do not wait for a snapshot.
    """

    async def leave() -> Path:
        left = tmp_path / "left"
        async with running(config(tmp_path, node={"snapshot_every": 100_000}), Bank()) as node:
            world = await node.create("main", orders.bundle())
            for group in range(30):
                await node.offer(world, *[placed(node, f"o-{group}-{i}") for i in range(GROUP)])
            assert await node.quiet(world, 60_000)
            await node.write(lambda _: shutil.copytree(tmp_path / ".tally", left / ".tally"))
        return left

    async def main() -> tuple[int, int]:
        left = await leave()
        async with running(config(left, node={"snapshot_every": every}), Bank()) as node:
            world = node.names["main"]
            rows = await node.read(lambda reader: reader.snapshots(world))
            return node.feed.head(world), len(rows)

    head, taken = asyncio.run(asyncio.wait_for(main(), 240))
    assert head >= 3 * 300, "the tail is long enough"
    assert taken == (1 if every == 300 else 0)
