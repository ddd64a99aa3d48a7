"""A wall clock that stands behind what a world has seen already: time never goes back in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw

from tallystick.errors import DiskFull
from tallystick.executors.base import Failed, Job, Ok, Outcome
from tallystick.kernel.inputs import Operate
from tallystick.node.node import Node
from tests import orders
from tests.journal.watched import Deed, watched
from tests.node.rig import Bank, config, phase, placed, running

HOUR_NS = 3_600_000_000_000


async def logical_ns(node: Node, world: str) -> int:
    return await node.look(world, lambda live: live.logical_ns)


def test_a_world_goes_on_from_the_time_it_has_seen(tmp_path: Path) -> None:
    """X-14: started again with a clock an hour behind, events, looks and timers go on behind it."""

    async def before() -> int:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            given = placed(node, "o-1")
            later = given.sample._replace(now_ns=given.sample.now_ns + HOUR_NS)
            await node.one(world, given._replace(sample=later))
            assert await node.quiet(world, 60_000)
            return await logical_ns(node, world)

    async def after(seen_ns: int) -> None:
        async with running(config(tmp_path), Bank(_flaky())) as node:
            world = node.resolve("main")
            assert node.clock.now_ns() < seen_ns, "the clock is behind"
            await node.one(world, placed(node, "o-2"))
            first_ns = await logical_ns(node, world)
            assert seen_ns < first_ns < seen_ns + HOUR_NS // 2
            # It fails once, so its timer has to fire, and that is due in the time of the world.
            while await phase(node, world, "o-2") != "paid":  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            given = Operate(node.clock.sample(), "suspend", "eva", "why", orders.LEDGER)
            async with node.held(world):
                assert (await node.now(world, given)).seq > 0
            assert await logical_ns(node, world) > first_ns

    asyncio.run(asyncio.wait_for(after(asyncio.run(before())), 120))


def _flaky() -> Callable[[Job], Awaitable[Outcome]]:
    """Fails the first time, so that the order waits for its timer and charges again."""
    asked: list[Job] = []

    async def act(job: Job) -> Outcome:
        asked.append(job)
        closed = Failed("connection", "bank.closed", "later")
        return closed if len(asked) == 1 else Ok({"ref": "pay"})

    return act


# tidy: two lives of a node.
def test_a_full_disk_does_not_hold_the_time_of_a_world(tmp_path: Path) -> None:
    """X-14: what ran ahead of a full disk is folded again from it; the world that comes back goes
    on in its own time, does not wait for the wall to come up to it, and stays with who holds it.
    """

    async def before() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            given = placed(node, "o-1")
            later = given.sample._replace(now_ns=given.sample.now_ns + HOUR_NS)
            await node.one(world, given._replace(sample=later))

    async def after() -> None:
        with watched() as vfs:
            async with running(config(tmp_path), Bank(), vfs=vfs.name) as node:
                world = node.resolve("main")
                assert await node.quiet(world, 60_000)
                vfs.judge = _full
                (told,) = await node.offer(world, placed(node, "o-2"))
                assert isinstance(told, DiskFull)
                async with node.held(world):
                    await node.on_kernel(node.engine.worlds[world].again)
                    assert node.engine.worlds[world].driver.held
                assert not await node.on_kernel(lambda: node.engine.worlds[world].driver.held)
                vfs.judge = lambda _deed: None
                node.engine.call(node.engine.writable)
                await node.one(world, placed(node, "o-3"))
                first_ns = await logical_ns(node, world)
                await asyncio.sleep(0.2)
                await node.one(world, placed(node, "o-4"))
                assert await logical_ns(node, world) - first_ns > 100_000_000

    asyncio.run(asyncio.wait_for(before(), 120))
    asyncio.run(asyncio.wait_for(after(), 120))


def _full(deed: Deed) -> None:
    if deed.what == "write":
        raise apsw.FullError("no space left")
