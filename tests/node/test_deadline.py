"""Deadlines are the owner's: what an executor says of one does not count before the kernel does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.executors.base import Failed, Job, Outcome
from tallystick.model.records import ReceiptSettled
from tallystick.node.node import Node
from tallystick.views.journal import entries
from tests import orders
from tests.node.rig import Bank, config, placed, running

TIMEOUT_NS = 300_000_000


@pytest.mark.clause("X-10")
def test_an_executor_that_watches_its_deadline_does_not_settle_before_the_owner(
    tmp_path: Path,
) -> None:
    """ND-14, X-10: executor and owner wait for one time; the intent ends as `timeout`, never early.

    Found by AT-33: an executor's own clock may ring a moment sooner, and then the outcome was an
    error of the executor, before the time that was asked for.
    """

    async def main() -> None:
        async def punctual(job: Job) -> Outcome:
            assert job.deadline_ns is not None
            # As punctual as a timer that is asked for a moment too little.
            left_ns = job.deadline_ns - node.clock.now_ns() - 5_000_000
            await asyncio.sleep(max(left_ns, 0) / 1e9)
            return Failed("timeout", "test.timeout", "my own clock says so")

        async with running(config(tmp_path), Bank(punctual)) as node:
            world = await node.create("main", orders.bundle(timeout_ns=TIMEOUT_NS))
            await node.offer(world, placed(node, "o-1"))
            for _ in range(6_000):
                found = await receipts(node, world)
                if found:
                    break
                await asyncio.sleep(0.01)
            assert [each.status for each in found] == ["timeout"]

    asyncio.run(asyncio.wait_for(main(), 240))


async def receipts(node: Node, world: str) -> list[ReceiptSettled]:
    """The first receipt of the charge, once it is there."""
    frames = await node.read(lambda reader: list(reader.read(world)))
    records = [entry.record for entry in entries(frames)]
    return [each for each in records if isinstance(each, ReceiptSettled)][:1]
