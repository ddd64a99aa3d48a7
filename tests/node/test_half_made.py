"""A world whose making found no room leaves nothing behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.errors import DiskFull
from tallystick.node.worlds import ForkOrder
from tests import orders
from tests.journal.watched import Deed, watched
from tests.node.rig import Bank, config, running
from tests.node.test_faults import calm, no_room


# tidy: how the disk fills and what is left are one story.
@pytest.mark.clause("X-08")
@pytest.mark.parametrize("before", range(8))
def test_a_fork_that_found_no_room_leaves_its_parent_free(tmp_path: Path, before: int) -> None:
    """F3: the disk filled while a world was forked; a half of the fork that nobody can see kept its
    parent from being removed or trimmed until the node started again.
    """

    async def main() -> None:
        with watched() as vfs:
            async with running(config(tmp_path), Bank(), vfs=vfs.name) as node:
                world = await node.create("main", orders.bundle())
                assert await node.quiet(world, 60_000)
                left = before

                def some_room(deed: Deed) -> None:
                    nonlocal left
                    if deed.what == "sync":
                        left -= 1
                        if left == 0:
                            vfs.judge = once
                    if left <= 0:
                        no_room(deed)

                def once(deed: Deed) -> None:
                    if deed.what == "write":
                        vfs.judge = calm
                    no_room(deed)

                vfs.judge = some_room if before else once
                try:
                    await node.fork(ForkOrder(world, ""), "child")
                except DiskFull:
                    vfs.judge = calm
                    assert await node.read(lambda reader: reader.forks(world)) == []
                    await node.remove("main")
                vfs.judge = calm

    asyncio.run(asyncio.wait_for(main(), 60))
