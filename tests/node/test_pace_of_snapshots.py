"""How a snapshot keeps up: large rounds first, and more of it with each commit the later it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.journal.staged import EARLY
from tallystick.node.snapping import least
from tallystick.values import canon
from tests import orders
from tests.node.rig import Bank, config, running

EVERY = 10_000


def test_rounds_are_large_until_a_snapshot_is_due() -> None:
    """ADR 0030: few entries share no branch; once it is due it has to end, the later the sooner."""
    assert [least(behind, EVERY) for behind in (0, 5_000, 9_999)] == [625] * 3
    late = [least(behind, EVERY) for behind in range(EVERY, 4 * EVERY, EVERY // 2)]
    assert late == [16, 32, 64, 128, 256, 512]
    assert least(40 * EVERY, EVERY) == 1024, "and no further"
    assert least(0, 10) == least(10, 10) == 16, "where snapshots are frequent, so are rounds"


@pytest.mark.invariant("I42")
def test_the_later_a_snapshot_is_the_more_of_it_goes_along(tmp_path: Path) -> None:
    """AT-32: with a fixed number, snapshots of a large world fell behind for ever, until they were
    overdue and done in haste: then every answer took half a second (BUGS 336).
    """

    async def main() -> None:
        async with running(config(tmp_path, node={"snapshot_every": 100}), Bank()) as node:
            world = await node.create("main", orders.bundle())
            engine = node.engine
            hosted = engine.worlds[world]

            def along(late: int) -> int:
                """How many early nodes a commit takes along when a snapshot is so late."""
                blobs, seq = hosted.driver.blobs, hosted.driver.world.seq
                before, hosted.snapped = hosted.snapped, seq - 100 * late
                for number in range(200):
                    body = b"%d %d" % (late, number)
                    blobs.put_early(canon.digest_of(body), body)
                engine._snaps._prepared(hosted)
                took = len(blobs.taken(1, whole=False))
                hosted.snapped = before
                blobs.forget(blobs.taken(1, whole=True))
                return took

            found = [await node.on_kernel(lambda late=late: along(late)) for late in range(4)]  # type: ignore[misc]  # a default is how a loop binds its value
            assert found == [EARLY, 2 * EARLY, 3 * EARLY, 4 * EARLY]

    asyncio.run(asyncio.wait_for(main(), 60))
