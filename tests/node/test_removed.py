"""A world that is removed takes all with it: callers, effects that wait, and work for others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import NotOwner, TallyError
from tallystick.node.node import Node
from tallystick.node.rollback import Order, move_alias
from tallystick.node.worlds import ForkOrder
from tests.node.rig import Bank, config, phase, placed, running
from tests.node.test_work import WISH, anywhere, go, pooled, trusted


def with_world(
    settings: Any, main: Callable[[Node, str], Awaitable[None]], *executors: Any
) -> None:
    async def run() -> None:
        async with running(settings, *executors) as node:
            await main(node, await trusted(node))

    go(asyncio.wait_for(run(), 60))


async def told(asked: Awaitable[object]) -> TallyError:
    with pytest.raises(TallyError) as caught:
        await asyncio.wait_for(asked, 20)
    return caught.value


def test_who_waits_for_a_world_is_told_that_it_is_gone(tmp_path: Path) -> None:
    """K-26: an event that is queued when its world is removed is refused, not forgotten."""

    async def main(node: Node, world: str) -> None:
        async with node.held(world):
            sending = [asyncio.create_task(node.one(world, placed(node, n))) for n in "abc"]
            await node.on_kernel(lambda: None)
            await node.remove("main")
        for each in sending:
            assert isinstance(await told(each), NotOwner)

    with_world(config(tmp_path), main, Bank())


def test_who_asks_while_a_world_goes_is_told(tmp_path: Path) -> None:
    """K-26: a look and an event that come right behind the removal are not left waiting."""

    async def main(node: Node, world: str) -> None:
        door = threading.Event()

        def waits() -> None:
            door.wait(20)

        node.engine.call(waits)
        removing = asyncio.create_task(node.remove("main"))
        await asyncio.sleep(0)
        looking = asyncio.create_task(phase(node, world, "a"))
        sending = asyncio.create_task(node.one(world, placed(node, "a")))
        await asyncio.sleep(0)
        door.set()
        await removing
        assert [type(await told(each)) for each in (looking, sending)] == [NotOwner, NotOwner]

    with_world(config(tmp_path), main, Bank())


def test_what_nobody_serves_goes_with_its_world(tmp_path: Path) -> None:
    """04 section 5: a node whose only unserved effect was of a removed world is well again."""

    async def main(node: Node, world: str) -> None:
        await node.one(world, placed(node, "o-1"))
        while node.status() != "degraded":  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        await node.remove("main")
        assert node.status() == "ok"

    with_world(config(tmp_path), main)


@pytest.mark.clause("N-23")
def test_no_worker_is_given_a_job_of_a_removed_world(tmp_path: Path) -> None:
    """N-23: what waited in a pool is gone with its world, and so is what a worker had."""

    async def main(node: Node, world: str) -> None:
        await node.offer(world, placed(node, "o-1"), placed(node, "o-2"))
        (job,) = await node.work.lease(WISH._replace(most=1), anywhere)
        while not node.work.pools(world):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        await node.remove("main")
        assert node.work.pools(world) == node.work.running(world) == {}
        assert await node.work.lease(WISH._replace(wait_ms=0), anywhere) == []
        with pytest.raises(TallyError) as caught:
            node.work.find(job["lease"])
        assert caught.value.code == "work.lease_lost"

    with_world(pooled(tmp_path), main)


@pytest.mark.clause("X-08")
def test_no_worker_is_given_a_job_of_a_world_that_lost_its_name(tmp_path: Path) -> None:
    """I7: what waits in a pool of a frozen world waits on; with the name it is worked for again."""

    async def main(node: Node, world: str) -> None:
        now = WISH._replace(wait_ms=0)
        await node.offer(world, placed(node, "o-1"))
        while not node.work.pools(world):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        fork = await node.fork(ForkOrder(world, ""), "other")
        await move_alias(node, Order("main", fork, "alice", node.clock.sample()))
        assert await node.work.lease(now, lambda each: each == world) == []
        await move_alias(node, Order("main", world, "alice", node.clock.sample()))
        (job,) = await node.work.lease(WISH, lambda each: each == world)
        assert (job["world"], job["attempt"]) == (world, 1)

    with_world(pooled(tmp_path), main)


def test_a_snapshot_that_waits_for_a_removed_world_ends_nothing(tmp_path: Path) -> None:
    """04 section 13: the duties of a node go on, such as looking for room on a full disk."""

    async def main(node: Node, world: str) -> None:
        async with node.held(world):
            snapping = asyncio.create_task(node.duties._snapshot(world))
            await asyncio.sleep(0)
            await node.on_kernel(lambda: None)
            await node.remove("main")
        await asyncio.wait_for(snapping, 20)

    with_world(config(tmp_path), main, Bank())
