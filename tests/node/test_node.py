"""A node: inputs are answered when durable, effects run, a second start goes on."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.executors.base import Failed, Job, Ok, Outcome
from tallystick.kernel.roots import root
from tallystick.node.host import open_node
from tallystick.node.worlds import ForkOrder
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running

pytestmark = pytest.mark.usefixtures("free_loop")


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 240))


@pytest.fixture
def free_loop() -> None:
    """Each test has a loop of its own, made by asyncio.run."""


@pytest.mark.clause("K-25", "K-26")
def test_orders_are_charged_and_a_second_start_goes_on(tmp_path: Path) -> None:
    """A world is created, orders are charged by an executor, and a new node opens the same root."""

    async def main() -> None:
        bank = Bank()
        async with running(config(tmp_path), bank) as node:
            world = await node.create("main", orders.bundle())
            answers = await node.offer(world, *[placed(node, f"o-{i}") for i in range(20)])
            assert [a.kind for a in answers] == ["accepted"] * 20
            assert await node.quiet(world, 60_000)
            assert await phase(node, world, "o-7") == "paid"
            before = await node.look(world, lambda live: (live.seq, root(live)))
        assert len(bank.asked) == 20
        again = Bank()
        async with running(config(tmp_path), again) as node:
            assert node.resolve("main") == world
            seen = await node.past(world, before[0], root)
            assert seen == before[1], "the same history, the same root"
            assert await phase(node, world, "o-7") == "paid"
            assert again.asked == [], "nothing settled is done again"

    go(main())


@pytest.mark.clause("K-09")
def test_one_key_is_one_event_however_often_it_comes(tmp_path: Path) -> None:
    """ND-11 in one process: duplicates in one commit and later share one answer."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            calls = [node.offer(world, placed(node, "o-1", b"k")) for _ in range(50)]
            found = [a for answers in await asyncio.gather(*calls) for a in answers]
            assert {a.seq for a in found} == {found[0].seq}
            (other,) = await node.offer(world, placed(node, "o-2", b"k"))
            assert isinstance(other, TallyError)
            assert other.code == "ingress.idempotency_conflict"

    go(main())


@pytest.mark.clause("K-36")
def test_a_full_lane_refuses_at_once_and_loses_nothing(tmp_path: Path) -> None:
    """ND-21 in small: over the bound callers are told to wait; everything accepted is there."""

    async def main() -> None:
        async with running(config(tmp_path, ingress={"queue": 10}), Bank()) as node:
            world = await node.create("main", orders.bundle())
            calls = [node.offer(world, placed(node, f"o-{i}")) for i in range(200)]
            found = await asyncio.gather(*calls, return_exceptions=True)
            refused = [f for f in found if isinstance(f, BaseException)]
            accepted = len(found) - len(refused)
            assert {f.code for f in refused} == {"ingress.busy"}  # type: ignore[attr-defined]
            assert accepted >= 10
            assert await node.quiet(world, 60_000)
            cells = await node.look(world, lambda live: live.cell_count)
            assert cells == accepted + 1, "each accepted order has its cell, and the ledger"

    go(main())


def test_at_most_as_many_jobs_as_slots_run_at_once(tmp_path: Path) -> None:
    """K-36: a slow executor is never given more than its slots; the rest waits in the journal."""

    async def slow(job: Job) -> Outcome:
        await asyncio.sleep(0.005)
        return Ok({"ref": "pay"})

    async def main() -> None:
        bank = Bank(slow, slots=3)
        async with running(config(tmp_path), bank) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, f"o-{i}") for i in range(60)])
            assert await node.quiet(world, 60_000)
            assert len(bank.asked) == 60
            assert 1 <= bank.most <= 3

    go(main())


@pytest.mark.clause("X-10")
def test_a_hung_executor_times_out_and_is_told_to_stop(tmp_path: Path) -> None:
    """ND-14 in small: the deadline is the owner's; the executor is cancelled, not believed."""
    bundle = orders.bundle(timeout_ns=200_000_000)

    async def hang(job: Job) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def main() -> None:
        bank = Bank(hang)
        async with running(config(tmp_path), bank) as node:
            world = await node.create("main", bundle)
            await node.offer(world, placed(node, "o-1"))
            for _ in range(6_000):
                if await phase(node, world, "o-1") == "refused":
                    break
                await asyncio.sleep(0.01)
            assert await phase(node, world, "o-1") == "refused", "four attempts, four timeouts"
            while len(bank.cancelled) < len(bank.asked):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.005)
            assert bank.cancelled == [job.intent for job in bank.asked]
            assert 1 <= len(bank.asked) <= 4, "one that is late is not even begun"

    go(main())


def test_an_executor_that_breaks_is_an_outcome(tmp_path: Path) -> None:
    """A raise is `crash`, an answer that does not fit is `schema`, none at all is `no_outcome`."""
    told: list[Any] = [RuntimeError("broken"), Ok({"wrong": 1}), None, Ok({"ref": "pay"})]

    async def act(job: Job) -> Outcome:
        answer = told.pop(0)
        if isinstance(answer, Exception):
            raise answer
        found: Outcome = answer
        return found

    async def main() -> None:
        async with running(config(tmp_path), Bank(act)) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "o-1"))
            for _ in range(6_000):
                if await phase(node, world, "o-1") == "paid":
                    break
                await asyncio.sleep(0.01)
            assert await phase(node, world, "o-1") == "paid"
            assert told == []

    go(main())


@pytest.mark.clause("X-08")
def test_a_fork_runs_beside_its_parent(tmp_path: Path) -> None:
    """A fork has its own name, its own head, and asks nothing of the outside by itself."""

    async def main() -> None:
        bank = Bank()
        async with running(config(tmp_path), bank) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "o-1"))
            assert await node.quiet(world, 60_000)
            asked = len(bank.asked)
            child = await node.fork(ForkOrder(world, ""), "other")
            await node.offer(child, placed(node, "o-2"))
            assert await node.quiet(child, 60_000)
            assert await phase(node, world, "o-2") is None
            assert await phase(node, child, "o-1") == "paid"
            assert await phase(node, child, "o-2") == "paid"
            assert len(bank.asked) == asked + 1

    go(main())


def test_a_folder_has_one_node(tmp_path: Path) -> None:
    """Split brain: a second node on the folder is refused, and the first goes on."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            with pytest.raises(TallyError) as caught:
                await open_node(config(tmp_path), node.modules)
            assert caught.value.code == "node.locked"
            await node.offer(world, placed(node, "o-1"))

    go(main())


@pytest.mark.clause("K-27")
def test_a_restart_attempts_again_and_says_so(tmp_path: Path) -> None:
    """What was on its way is attempted again under a journaled attempt, in bounds (ND-22)."""

    async def hang(job: Job) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def main() -> None:
        settings = config(tmp_path, node={"drain_s": 0.01})
        hanging = Bank(hang, slots=1000)
        async with running(settings, hanging) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, f"o-{i}") for i in range(30)])
            while len(hanging.asked) < 30:  # noqa: ASYNC110 - the bank has no event for it
                await asyncio.sleep(0.005)
        bank = Bank(slots=5)
        async with running(settings, bank) as node:
            for _ in range(6_000):
                if len(bank.asked) == 30 and not node.dispatch.works_for(world):
                    break
                await asyncio.sleep(0.01)
            assert sorted(job.attempt for job in bank.asked) == [2] * 30
            assert bank.most <= 5
            assert await node.quiet(world, 60_000)
            assert await phase(node, world, "o-29") == "paid"

    go(main())


def test_a_feed_has_no_gap_and_no_repeat(tmp_path: Path) -> None:
    """ND-29 in small: a reader from the beginning meets every frame once, in order."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, f"o-{i}") for i in range(50)])
            assert await node.quiet(world, 60_000)
            await node.offer(world, placed(node, "late"))
            seen: list[tuple[int, int]] = []
            end = await node.look(world, lambda live: live.seq)
            async for item in node.feed.subscribe(world, 0):
                if item.kind == "frame":
                    seen.append((item.body.seq, item.body.last))
                    if item.seq >= end:
                        break
            assert seen[0][0] == 1
            assert all(a[1] + 1 == b[0] for a, b in pairwise(seen))

    go(main())


def test_errors_of_an_executor_reach_the_workflow(tmp_path: Path) -> None:
    """A failure is a receipt like any other; the workflow decides what to do."""

    async def refuse(job: Job) -> Outcome:
        return Failed("server_error", "bank.down", "the bank is down", retryable=True)

    async def main() -> None:
        async with running(config(tmp_path), Bank(refuse)) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "o-1"))
            for _ in range(6_000):
                if await phase(node, world, "o-1") == "refused":
                    break
                await asyncio.sleep(0.01)
            assert await phase(node, world, "o-1") == "refused"

    go(main())
