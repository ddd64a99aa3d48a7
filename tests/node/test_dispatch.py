"""Jobs that wait for a slot, are cancelled, asked for twice, or over before they began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tallystick.executors.base import Job, Ok, Outcome
from tallystick.kernel.inputs import Operate
from tallystick.node.dispatch import CARRIED_MAX
from tallystick.node.driver import Deferred
from tallystick.node.jobs import Published, job_of
from tallystick.node.node import Node
from tallystick.node.worlds import ForkOrder
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running


class Counter:
    """A bank that charges nobody until its door opens."""

    def __init__(self, slots: int = 1) -> None:
        self.door = asyncio.Event()
        self.bank = Bank(self._wait, slots)

    async def _wait(self, job: Job) -> Outcome:
        await self.door.wait()
        return Ok({"ref": "pay"})

    @property
    def tokens(self) -> list[str]:
        return [job.params["token"] for job in self.bank.asked]


def at_counter(
    tmp_path: Path, main: Callable[[Node, str, Counter], Awaitable[None]], slots: int = 1
) -> None:
    async def run() -> None:
        counter = Counter(slots)
        async with running(config(tmp_path, node={"drain_s": 0}), counter.bank) as node:
            await main(node, await node.create("main", orders.bundle()), counter)

    asyncio.run(asyncio.wait_for(run(), 120))


async def opened(node: Node, world: str, *names: str) -> list[Published]:
    """Place orders; their charges, once all of them are with the dispatch."""
    await node.offer(world, *[placed(node, name) for name in names])
    hosted = node.engine.worlds[world]

    def find() -> list[Published]:
        if node.engine.busy(world):
            return []  # not yet durable, so not yet published
        live, blobs = hosted.driver.world, hosted.driver.blobs
        return [job_of(live, blobs, *each) for each in live.intents.entries()]

    while len(jobs := await node.on_kernel(find)) < len(names):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    return sorted(jobs, key=lambda job: job.key)


async def waiting(node: Node, count: int) -> None:
    while len(node.dispatch._waiting) != count:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)


def name_of(job: Published) -> Deferred:
    return Deferred(job.world, job.intent, job.effect, job.executor)


def test_what_is_cancelled_while_it_waits_is_never_performed(tmp_path: Path) -> None:
    """K-27: a charge that is over before a slot is free goes to nobody; the next in line does."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        _, second, _ = await opened(node, world, "o-1", "o-2", "o-3")
        await waiting(node, 2)
        sample = node.clock.sample()
        await node.one(world, Operate(sample, "cancel", "eva", "no", intent=second.intent))
        counter.door.set()
        assert await node.quiet(world, 60_000)
        assert second.intent not in [job.intent for job in counter.bank.asked]
        assert [await phase(node, world, each) for each in ("o-1", "o-3")] == ["paid", "paid"]

    at_counter(tmp_path, main)


def test_a_job_that_is_asked_for_again_while_it_waits_waits_once(tmp_path: Path) -> None:
    """K-04: one job per open intent, however often its name is wanted."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        jobs = await opened(node, world, "o-1", "o-2")
        await waiting(node, 1)
        node.outside.wanted([name_of(job) for job in jobs])
        await node.on_kernel(lambda: None)
        assert len(node.dispatch._waiting) == 1
        counter.door.set()
        assert await node.quiet(world, 60_000)
        assert sorted(counter.tokens) == ["o-1", "o-2"]

    at_counter(tmp_path, main)


def test_more_than_are_carried_wait_by_name_and_all_are_performed(tmp_path: Path) -> None:
    """K-41: behind a thousand that wait only names are kept, and fetched when a slot is free."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        count = CARRIED_MAX + 104
        await node.offer(world, *[placed(node, f"o-{at}") for at in range(count - 100)])
        await waiting(node, count - 100 - 4)
        assert node.engine.outlet.full
        await node.offer(world, *[placed(node, f"p-{at}") for at in range(100)])
        await waiting(node, count - 4)
        counter.door.set()
        assert await node.quiet(world, 90_000)
        assert len(counter.tokens) == len(set(counter.tokens)) == count
        assert not node.engine.outlet.full

    at_counter(tmp_path, main, slots=4)


def test_a_newer_attempt_stands_in_for_the_older_one(tmp_path: Path) -> None:
    """K-27: an operator attempts again while the first hangs; it is paid once, both slots free."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        (job,) = await opened(node, world, "o-1")
        await node.one(
            world, Operate(node.clock.sample(), "attempt", "eva", "hangs", intent=job.intent)
        )
        while len(counter.bank.asked) < 2:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        assert [each.attempt for each in counter.bank.asked] == [1, 2]
        counter.door.set()
        assert await node.quiet(world, 60_000)
        assert await phase(node, world, "o-1") == "paid"
        assert counter.bank.now == 0

    at_counter(tmp_path, main, slots=2)


@pytest.mark.parametrize("how", ["settled", "lost"])
def test_a_job_that_is_over_before_it_began_gives_its_slot_back(tmp_path: Path, how: str) -> None:
    """K-04: two commits land in one turn: one asks for a charge, the next one ends it."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        dispatch = node.dispatch
        dispatch.shut.add(world)
        first, second = await opened(node, world, "o-1", "o-2")
        dispatch.shut.clear()
        dispatch.publish(first)
        if how == "settled":
            dispatch.publish(second)
            dispatch.settled(world, first.intent)
        else:
            dispatch.lost(world)
            dispatch.publish(second)
        counter.door.set()
        assert await node.quiet(world, 10_000), "nothing runs any more"
        assert counter.tokens == ["o-2"]
        assert await phase(node, world, "o-2") == "paid"

    at_counter(tmp_path, main)


def test_who_stops_fetches_nothing_more(tmp_path: Path) -> None:
    """K-20: a name that comes when the node is about to end is left to the next start."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        (job,) = await opened(node, world, "o-1")
        node.dispatch.stopping = True
        node.dispatch.defer(name_of(job)._replace(intent=bytes(32)))
        assert len(node.dispatch._waiting) == 0
        assert node.dispatch.at_once(job) is None
        counter.door.set()

    at_counter(tmp_path, main)


def test_a_fork_is_not_told_of_what_runs_for_its_parent(tmp_path: Path) -> None:
    """D13: two worlds with one history have the same intents; each sees its own attempts."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        (job,) = await opened(node, world, "o-1")
        while not node.serving(world).running:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        child = await node.fork(ForkOrder(world, ""), "other")
        assert node.serving(world).running == {job.intent: 1}
        assert node.serving(child).running == {}
        counter.door.set()

    at_counter(tmp_path, main)
