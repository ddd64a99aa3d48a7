"""Leases at their edges: who left, who comes too late, and what a restart makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tallystick.errors import JournalCorrupt, TallyError
from tallystick.journal.base import Reader
from tallystick.kernel.inputs import Progress
from tallystick.node.driver import Deferred
from tallystick.node.leases import Lease
from tallystick.node.node import Node
from tallystick.values import canon
from tests import orders
from tests.journal.watched import watched
from tests.node.rig import phase, placed, running
from tests.node.test_faults import calm, no_room
from tests.node.test_work import WISH, anywhere, brought, go, pooled, trusted


def leasing(tmp_path: Path, main: Callable[[Node, str], Awaitable[None]]) -> None:
    """A world whose one order waits for a worker."""

    async def run() -> None:
        async with running(pooled(tmp_path)) as node:
            world = await trusted(node)
            await node.offer(world, placed(node, "o-1"))
            await main(node, world)

    go(run())


async def lost(asked: Awaitable[object]) -> str:
    with pytest.raises(TallyError) as caught:
        await asked
    assert "drop the job" in (caught.value.hint or "")
    return caught.value.code


def progress(node: Node, lease: Lease) -> Progress:
    data = canon.encode({"half": True})
    return Progress(node.clock.sample(), lease.world, lease.job.intent, 1, 1, "log", data)


def test_a_job_whose_worker_left_before_it_saw_it_is_free_again(tmp_path: Path) -> None:
    """ND-16: a worker that is gone when its lease is durable made no attempt; another has it."""

    async def main(node: Node, world: str) -> None:
        gone: asyncio.Future[None] = node.loop.create_future()

        def leaves(_world: str) -> bool:
            gone.set_result(None)
            return True

        assert await node.work.lease(WISH, leaves, gone) == []
        assert node.work.running(world) == {}
        assert await node.work.lease(WISH, anywhere, gone) == [], "who left is given nothing"
        (job,) = await node.work.lease(WISH._replace(worker="w-2"), anywhere)
        assert job["attempt"] == 1
        await node.work.receipt(node.work.find(job["lease"]), brought(world, job))
        assert await phase(node, world, "o-1") == "paid"

    leasing(tmp_path, main)


def test_a_job_that_a_worker_has_is_given_to_nobody_else(tmp_path: Path) -> None:
    """N-23: published once more, a leased job does not wait for a second worker."""

    async def main(node: Node, world: str) -> None:
        (job,) = await node.work.lease(WISH, anywhere)
        intent = canon.raw_of(job["intent"])
        node.outside.wanted([Deferred(world, intent, orders.CHARGE, "payments")])
        await node.on_kernel(lambda: None)
        assert node.work.pools(world) == {}
        assert node.work.running(world) == {intent: 1}
        assert await node.work.lease(WISH._replace(wait_ms=0), anywhere) == []

    leasing(tmp_path, main)


def test_behind_its_receipt_a_lease_is_over(tmp_path: Path) -> None:
    """N-23: another receipt, progress and giving back are refused; keeping it says `cancel`."""

    async def main(node: Node, world: str) -> None:
        work = node.work
        (job,) = await work.lease(WISH, anywhere)
        held = work.find(job["lease"])
        assert not (await work.extend(held, None))["cancel"]
        assert (await work.progress(held, progress(node, held))).seq > 0
        given = brought(world, job)
        assert (await work.receipt(held, given)).kind == "settled"
        lease = work.find(job["lease"])
        assert await work.extend(lease, 60_000) == {
            "lease_until_ns": lease.until_ns, "cancel": True,
        }  # fmt: skip
        other = given._replace(payload=canon.encode({"ref": "another"}))
        assert await lost(work.receipt(lease, other)) == "work.lease_lost"
        assert await lost(work.progress(lease, progress(node, lease))) == "work.lease_lost"
        assert await lost(work.release(lease)) == "work.lease_lost"
        assert await phase(node, world, "o-1") == "paid"

    leasing(tmp_path, main)


def test_a_restart_takes_no_settled_job_for_a_leased_one(tmp_path: Path) -> None:
    """N-23: rows of leases that brought their receipt bind nobody after a restart."""

    async def main(node: Node, world: str) -> None:
        def leased(reader: Reader) -> bool:
            return any(row.state == "leased" for row in reader.work(world))

        (job,) = await node.work.lease(WISH, anywhere)
        await node.work.receipt(node.work.find(job["lease"]), brought(world, job))
        while await node.read(leased):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)

    async def again() -> None:
        async with running(pooled(tmp_path)) as node:
            world = node.resolve("main")
            assert await phase(node, world, "o-1") == "paid"
            assert node.work.running(world) == node.work.pools(world) == {}
            await node.offer(world, placed(node, "o-2"))
            (job,) = await node.work.lease(WISH, anywhere)
            assert job["attempt"] == 1

    leasing(tmp_path, main)
    go(again())


@pytest.mark.invariant("I42")
def test_the_row_of_a_lost_lease_goes(tmp_path: Path) -> None:
    """N-23: each lease that was lost or given back left a row in the journal for ever, unless a
    worker brought the outcome of a later attempt.
    """

    async def main(node: Node, world: str) -> None:
        (job,) = await node.work.lease(WISH, anywhere)
        await node.work.release(node.work.find(job["lease"]))
        assert await node.read(lambda reader: reader.work(world)) == []
        (job,) = await node.work.lease(WISH, anywhere)
        (row,) = await node.read(lambda reader: reader.work(world))
        assert (row.state, row.attempt, row.lease_id) == ("leased", 2, job["lease"])
        late = row._replace(attempt=1, state="settled")
        await node.write(lambda journal: journal.put_work(world, late))
        assert await node.read(lambda reader: reader.work(world)) == [row], "a newer lease stays"

    leasing(tmp_path, main)


def test_a_lease_that_cannot_be_written_binds_nobody(tmp_path: Path) -> None:
    """N-23: a worker that is refused on a full disk has no job; the next one gets it at once."""

    async def run() -> None:
        with watched() as vfs:
            async with running(pooled(tmp_path), vfs=vfs.name) as node:
                world = await trusted(node)
                await node.offer(world, placed(node, "o-1"))
                while not node.work.pools(world):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
                vfs.judge = no_room
                with pytest.raises(TallyError):
                    await node.work.lease(WISH, anywhere)
                vfs.judge = calm
                assert node.work.running(world) == {}
                (job,) = await node.work.lease(WISH._replace(worker="w-2", wait_ms=0), anywhere)
                assert job["attempt"] == 1

    go(run())


def test_a_lease_that_ends_while_its_world_stands_still_is_lost_later(tmp_path: Path) -> None:
    """N-23: the next attempt cannot be journaled just then; it is once the world goes on."""

    async def main(node: Node, world: str) -> None:
        (first,) = await node.work.lease(WISH._replace(lease_ms=300), anywhere)
        driver = node.engine.worlds[world].driver
        await node.on_kernel(lambda: driver.stop(JournalCorrupt("lost", where={"row": 1})))
        await asyncio.sleep(1)
        await node.on_kernel(lambda: setattr(driver, "stopped", None))
        (job,) = await node.work.lease(WISH._replace(worker="w-2"), anywhere)
        assert (first["attempt"], job["attempt"]) == (1, 2)

    leasing(tmp_path, main)
