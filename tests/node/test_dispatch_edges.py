"""Jobs at the edges of dispatch: long queues, names that lead nowhere, and odd executors."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tallystick.kernel.inputs import Operate
from tallystick.node.dispatch import CARRIED_MAX
from tallystick.node.node import Node
from tests.node.rig import phase, placed
from tests.node.test_dispatch import Counter, at_counter, name_of, opened, waiting


def test_a_queue_of_names_is_worked_off_however_long_it_is(tmp_path: Path) -> None:
    """K-41: behind those that are carried over a thousand wait by name; none does for ever."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        first = CARRIED_MAX + 4
        await node.offer(world, *[placed(node, f"o-{at}") for at in range(first)])
        await waiting(node, first - 4)
        await node.offer(world, *[placed(node, f"p-{at}") for at in range(CARRIED_MAX + 200)])
        await waiting(node, first - 4 + CARRIED_MAX + 200)
        counter.door.set()
        assert await node.quiet(world, 60_000)
        assert len(counter.tokens) == len(set(counter.tokens)) == first + CARRIED_MAX + 200

    at_counter(tmp_path, main, slots=4)


def test_a_name_that_leads_to_no_job_gives_its_slot_to_the_next(tmp_path: Path) -> None:
    """K-04: the first that waits by name is over when it is fetched; the next one has the slot."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        first, second = await opened(node, world, "o-1", "o-2")
        await waiting(node, 1)
        lane = node.dispatch.running[world, first.intent].lane
        node.dispatch.defer(name_of(second)._replace(intent=bytes(32)))
        lane.waiting.rotate(1)  # as if it had come first
        counter.door.set()
        for _ in range(500):
            if counter.tokens == ["o-1", "o-2"]:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("the slot stays empty")

    at_counter(tmp_path, main)


def test_an_attempt_that_hangs_gives_way_to_the_next(tmp_path: Path) -> None:
    """K-27: an operator attempts again what hangs in the only slot; the old attempt is stopped."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        (job,) = await opened(node, world, "o-1")
        while not counter.tokens:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        again = Operate(node.clock.sample(), "attempt", "eva", "hangs", intent=job.intent)
        await node.one(world, again)
        for _ in range(500):
            if len(counter.bank.asked) == 2:
                break
            await asyncio.sleep(0.01)
        assert [each.attempt for each in counter.bank.asked] == [1, 2]
        assert counter.bank.now == 1, "the first one is over"
        counter.door.set()
        assert await node.quiet(world, 20_000)
        assert await phase(node, world, "o-1") == "paid"

    at_counter(tmp_path, main)


def test_a_hung_attempt_does_not_keep_its_slot_behind_the_end(tmp_path: Path) -> None:
    """K-27: with room for both, the older one is not forgotten when the newer one is done."""

    async def main(node: Node, world: str, counter: Counter) -> None:
        (job,) = await opened(node, world, "o-1")
        while not counter.tokens:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        again = Operate(node.clock.sample(), "attempt", "eva", "hangs", intent=job.intent)
        await node.one(world, again)
        await node.one(
            world, Operate(node.clock.sample(), "cancel", "eva", "no", intent=job.intent)
        )
        while len(counter.bank.asked) < 3:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        assert counter.bank.now == 1, "only the charge that the order asks for next"

    at_counter(tmp_path, main, slots=2)
