"""What a fork lets out by its policy goes out with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.executors.base import Job, Ok, Outcome
from tallystick.node.worlds import ForkOrder
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running
from tests.node.test_removing import fact


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I3")
def test_what_a_fork_issues_again_does_not_wait_for_somebody_else(tmp_path: Path) -> None:
    """06 section 11: `fork --pending reissue` on a calm node performed nothing until some world of
    the node recorded something.
    """

    async def main() -> None:
        gate = asyncio.Event()

        async def act(_job: Job) -> Outcome:
            await gate.wait()
            return Ok({"ref": "pay"})

        bank = Bank(act)
        async with running(config(tmp_path), bank) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "o-1"))
            await fact(lambda: bank.asked, "the parent asks")
            child = await node.fork(ForkOrder(world, "", pending="reissue"), "child")
            await fact(lambda: len(bank.asked) == 2, "the fork asks")
            assert bank.asked[1].world == child
            gate.set()
            assert await node.quiet(child, 60_000)
            assert await phase(node, child, "o-1") == "paid"

    asyncio.run(asyncio.wait_for(main(), 120))
