"""Parameters of an open intent that the disk has lost: its world waits for them, and no other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.executors.base import Job, Outcome
from tallystick.journal.base import Append
from tallystick.node.dispatch import Dispatch
from tallystick.node.driver import Deferred, Driver
from tallystick.node.node import Node
from tallystick.values import canon
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running

LARGE = "o" * 70_000  # its parameters stand in the store, not in the record
PARAMS = canon.encode({"token": LARGE, "cents": 5})
DIGEST = canon.digest_of(PARAMS)


async def hang(job: Job) -> Outcome:
    await asyncio.Event().wait()
    raise AssertionError(job)


async def lose(node: Node) -> None:
    """Delete the row of the parameters, as no part of the node ever would."""

    def act(journal: Any) -> None:
        journal._db.execute("DELETE FROM blob WHERE hash=?", (DIGEST,))
        assert journal._db.changes() == 1

    await node.write(act)


async def put_back(node: Node, world: str) -> None:
    """Put the same bytes into the store again, as PUT W/blobs does."""

    def keep(journal: Any) -> None:
        journal.append(Append(world, (), journal.head(world), {DIGEST: PARAMS}))

    await node.write(keep)


async def begun(tmp_path: Path) -> tuple[str, str]:
    """Two worlds: one stopped with an open intent, whose parameters are lost then."""
    async with running(config(tmp_path, node={"drain_s": 0}), Bank(hang)) as node:
        world = await node.create("main", orders.bundle())
        other = await node.create("other", orders.bundle())
        await node.offer(world, placed(node, LARGE))
        await until(node, lambda: bool(node.dispatch.running))
        await lose(node)
    return world, other


async def until(node: Node, holds: Any) -> None:
    for _ in range(6_000):
        if holds():
            return
        assert node.engine.failed is None, node.engine.failed
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


async def only_one_stops(node: Node, world: str, other: str) -> None:
    """The hurt world says what it lacks, its head stays; the other one works."""
    await until(node, lambda: node.engine.stopped() == [world])
    with pytest.raises(TallyError) as caught:
        await node.offer(world, placed(node, "late"))
    assert caught.value.code == "journal.blob_lost"
    assert caught.value.where == {"blob": canon.text_of(DIGEST)}
    at = await node.look(world, lambda live: live.head)
    await node.offer(other, placed(node, "beside"))
    assert await node.quiet(other, 60_000)
    assert await phase(node, other, "beside") == "paid"
    assert await node.look(world, lambda live: live.head) == at
    assert node.status() == "degraded"


async def goes_on(node: Node, world: str, ends: str) -> None:
    """With the bytes back the intent settles by itself, and a replay says the same."""
    await put_back(node, world)
    await until(node, lambda: node.engine.stopped() == [])
    # A world that waits for a timer is quiet too, so that its end is asked for.
    for _ in range(6_000):
        if await phase(node, world, LARGE) == ends:
            break
        await asyncio.sleep(0.01)
    assert await node.quiet(world, 60_000)
    assert await phase(node, world, LARGE) == ends
    verdict = await node.ops.verify(world, "replay")
    assert verdict["ok"], verdict
    assert node.status() == "ok"


@pytest.mark.clause("K-38")
@pytest.mark.invariant("I3")
def test_an_intent_whose_parameters_are_lost_stops_its_world_alone(tmp_path: Path) -> None:
    """F4: lost while the node was down, over two starts; with them back it is attempted once."""

    async def main() -> None:
        world, other = await begun(tmp_path)
        bank = Bank()
        async with running(config(tmp_path), bank) as node:
            await only_one_stops(node, world, other)
        async with running(config(tmp_path), bank) as node:
            await until(node, lambda: node.engine.stopped() == [world])
            assert [job.params["token"] for job in bank.asked] == ["beside"]
            await goes_on(node, world, "paid")
        assert [job.params["token"] for job in bank.asked] == ["beside", LARGE]

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.pure_only
@pytest.mark.clause("K-38")
def test_what_may_not_be_tried_again_waits_for_its_parameters_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: an executor whose `on_restart` is `fail` is not asked, and its intent settles in the end
    as of unknown outcome; the workflow then charges under a new key.
    """

    def failing(self: Dispatch, name: Any) -> bool:
        return name.effect == orders.CHARGE

    async def main() -> None:
        world, other = await begun(tmp_path)
        monkeypatch.setattr(Dispatch, "fails_at_restart", failing)
        bank = Bank()
        async with running(config(tmp_path), bank) as node:
            await only_one_stops(node, world, other)
            await goes_on(node, world, "paid")
        keys = [job.params["token"] for job in bank.asked]
        assert keys == ["beside", LARGE]
        assert bank.asked[-1].attempt == 1  # of another intent: the one of unknown fate is over

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.pure_only
@pytest.mark.clause("K-38")
def test_a_job_that_waits_by_name_stops_its_world_when_its_turn_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: lost under a live node, between commit and free slot: found when it is fetched."""

    async def main() -> None:
        bank = Bank()
        async with running(config(tmp_path), bank) as node:
            world = await node.create("main", orders.bundle())
            other = await node.create("other", orders.bundle())
            kept: list[Any] = []
            with monkeypatch.context() as patch:
                patch.setattr(node.dispatch, "publish_all", kept.extend)
                await node.offer(world, placed(node, LARGE))
                await until(node, lambda: bool(kept))
            await lose(node)
            job = kept[0]
            node.dispatch.defer(Deferred(job.world, job.intent, job.effect, job.executor))
            await only_one_stops(node, world, other)
            await goes_on(node, world, "paid")

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.pure_only
def test_control_a_driver_that_raises_ends_the_engine_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: the loss let through amid a release ends the kernel's thread, as it once did."""

    def loud(self: Driver, why: TallyError) -> None:
        raise why

    async def main() -> None:
        await begun(tmp_path)
        monkeypatch.setattr(Driver, "stop", loud)
        async with running(config(tmp_path), Bank()) as node:
            why = await asyncio.wait_for(asyncio.shield(node.stopped), 60)
            assert why is not None
            assert why.code == "journal.blob_lost"

    asyncio.run(asyncio.wait_for(main(), 240))
