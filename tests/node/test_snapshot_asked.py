"""A snapshot somebody asks for lets the cells that are ready run first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.kernel.inputs import TakeSnapshot
from tallystick.node.driver import Driver, Ticket
from tallystick.node.engine import Engine
from tests import orders
from tests.node.rig import Bank, config, placed, running


def at_once(_engine: Engine, driver: Driver) -> None:
    """The planted defect: work is handled whatever is ready."""
    while driver.work:
        driver.handle(driver.work.popleft())


@pytest.mark.parametrize("waits", [True, pytest.param(False, marks=pytest.mark.pure_only)])
def test_a_busy_world_rests_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """50 cells are ready when it is asked for; control: an engine that does not run them first."""
    if not waits:
        monkeypatch.setattr(Engine, "_work", at_once)

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            driver = node.engine.worlds[world].driver
            asked = Ticket(TakeSnapshot(node.clock.sample()))

            def flood() -> None:
                for i in range(50):
                    driver.handle(Ticket(placed(node, f"o-{i}")))
                assert len(driver.world.ring) == 50
                driver.work.append(asked)

            await node.on_kernel(flood)
            assert await node.quiet(world, 60_000)
            assert asked.done
            assert getattr(asked.error, "code", None) == (None if waits else "snapshot.busy")

    asyncio.run(asyncio.wait_for(main(), 240))
