"""What is asked of a node whose disk is full: nobody waits for room that only others can make."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import DiskFull
from tallystick.kernel.inputs import Operate
from tallystick.node import duties
from tests import orders
from tests.journal.watched import watched
from tests.node.rig import Bank, config, phase, placed, running
from tests.node.test_faults import calm, no_room, placed_all, status_is


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 120))


@pytest.mark.clause("X-07")
def test_who_asks_for_more_than_an_event_is_refused_too(tmp_path: Path) -> None:
    """04 section 13: on a full disk a command of an operator waited without an answer for as long
    as the disk was full.
    """

    async def main() -> None:
        with watched() as vfs:
            async with running(config(tmp_path), Bank(), vfs=vfs.name) as node:
                world = await node.create("main", orders.bundle())
                await node.offer(world, placed(node, "o-1"))
                assert await node.quiet(world, 60_000)
                vfs.judge = no_room
                await placed_all(node, world, ["full"])
                assert node.status() == "read_only"
                told = (node.clock.sample(), "suspend", "me", "why", orders.ORDERS, b"o-1")
                with pytest.raises(DiskFull):
                    await asyncio.wait_for(node.one(world, Operate(*told)), 10)
                with pytest.raises(DiskFull):
                    await asyncio.wait_for(node.snapshot(world), 10)
                vfs.judge = calm

    go(main())


@pytest.mark.clause("X-07")
def test_a_disk_that_fills_in_a_snapshot_is_found_to_have_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ND-27: with two worlds whose minute is over, the disk fills in the snapshot of the first: the
    duties waited for that of the second, and nobody looked at the disk any more until a new start.
    """
    monkeypatch.setattr(duties, "_LOOK_S", 0.05)

    async def main() -> None:
        with watched() as vfs:
            async with running(config(tmp_path), Bank(), vfs=vfs.name) as node:
                monkeypatch.setattr(node.duties, "_has_space", lambda: vfs.judge is calm)
                for name in ("one", "two"):
                    world = await node.create(name, orders.bundle())
                    await node.offer(world, placed(node, "before"))
                    assert await node.quiet(world, 60_000)
                await asyncio.sleep(0.2)  # both were looked at
                for world in node.names.values():
                    await node.offer(world, placed(node, "after"))
                    assert await node.quiet(world, 60_000)
                vfs.judge = no_room
                monkeypatch.setattr(duties, "CHECKPOINT_S", 0.0)
                assert await status_is(node, "read_only")
                await asyncio.sleep(0.2)
                vfs.judge = calm
                assert await asyncio.wait_for(status_is(node, "ok"), 10)

    go(main())


@pytest.mark.invariant("I44")
def test_a_full_disk_does_not_keep_a_node_from_stopping(tmp_path: Path) -> None:
    """F3: a command without a node met a full disk, and never ended: its last snapshot waited."""

    async def main() -> None:
        with watched() as vfs:
            async with running(config(tmp_path), Bank(), vfs=vfs.name) as node:
                world = await node.create("main", orders.bundle())
                await node.offer(world, placed(node, "o-1"))
                assert await node.quiet(world, 60_000)
                vfs.judge = no_room
                await placed_all(node, world, ["full"])
                assert node.status() == "read_only"
                await asyncio.wait_for(node.duties.last(), 20)  # as the end of a node does
                vfs.judge = calm

    go(main())


@pytest.mark.invariant("I44")
def test_a_snapshot_that_found_no_room_is_not_taken_for_one(tmp_path: Path) -> None:
    """F3: the disk filled in a snapshot; the node believed in it, and when it stopped later it left
    none, so that the next start folded everything.
    """

    async def main() -> None:
        with watched() as vfs:
            async with running(config(tmp_path), Bank(), vfs=vfs.name) as node:
                world = await node.create("main", orders.bundle())
                for n in range(2):
                    await node.offer(world, placed(node, f"o-{n}"))
                assert await node.quiet(world, 60_000)
                vfs.judge = no_room
                hosted, snaps = node.engine.worlds[world], node.engine._snaps
                assert await node.on_kernel(lambda: snaps.take(hosted))
                assert await status_is(node, "read_only")
                vfs.judge = calm
                node.engine.call(node.engine.writable)
                await node.duties.last()
                head = node.feed.head(world)
                taken = await node.read(lambda reader: reader.snapshots(world))
                assert [row.seq for row in taken] == [head - 1]

    go(main())


@pytest.mark.clause("X-07")
def test_who_looks_as_the_disk_fills_is_answered(tmp_path: Path) -> None:
    """04 section 13, reads work: a question in the turn of a commit that found no room was refused
    like the commit. Among them may be the one that lists what a start has to take up: it was never
    asked again.
    """

    async def main() -> None:
        with watched() as vfs:
            async with running(config(tmp_path), Bank(), vfs=vfs.name) as node:
                world = await node.create("main", orders.bundle())
                await node.offer(world, placed(node, "o-1"))
                assert await node.quiet(world, 60_000)
                vfs.judge = no_room
                node.engine.call(lambda: time.sleep(0.2))  # both are there when it turns to them
                event = asyncio.create_task(node.one(world, placed(node, "full")))
                await asyncio.sleep(0)
                asked = [phase(node, world, name) for name in ("o-1", "full")]
                assert await asyncio.wait_for(asyncio.gather(*asked), 10) == ["paid", None]
                with pytest.raises(DiskFull):
                    await event
                vfs.judge = calm

    go(main())
