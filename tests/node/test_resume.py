"""After a start, what was open is taken up in the order it was opened, page by page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.executors.base import Job, Outcome
from tallystick.node import resume
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running


@pytest.mark.clause("K-41")
@pytest.mark.parametrize("page", [1, 2, 500])
def test_open_intents_are_listed_in_pages_and_taken_up_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """ND-22: none is left out or taken twice, whatever a page holds; new ones go on meanwhile."""
    monkeypatch.setattr(resume, "PAGE", page)

    async def hang(job: Job) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def main() -> None:
        names = [f"o-{i}" for i in range(7)]
        async with running(config(tmp_path, node={"drain_s": 0}), Bank(hang)) as node:
            world = await node.create("main", orders.bundle())
            for name in names:
                await node.offer(world, placed(node, name))
        bank = Bank(slots=1)
        async with running(config(tmp_path), bank) as node:
            await node.offer(world, placed(node, "new"))
            for _ in range(2_000):
                if not node.resume.works and await node.quiet(world, 0):
                    break
                await asyncio.sleep(0.05)
            assert await phase(node, world, "new") == "paid"
        asked = [job.params["token"] for job in bank.asked]
        assert [name for name in asked if name != "new"] == names
        assert sorted(asked) == sorted([*names, "new"])

    asyncio.run(asyncio.wait_for(main(), 240))
