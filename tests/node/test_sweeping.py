"""A sweep goes in parts beside service, and what the world puts meanwhile stays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Busy
from tallystick.executors.base import Job, Ok, Outcome
from tallystick.journal.base import Append, Swept
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.roots import state_root
from tallystick.node import collecting, sweeping
from tallystick.node.driver import Driver
from tallystick.node.node import Node
from tallystick.node.sweeping import Sweeping
from tallystick.node.worlds import ForkOrder
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running
from tests.node.test_collecting import NONE, order, orphan, there

ORPHANS = 300


async def litter(node: Node, world: str) -> list[bytes]:
    """So many blobs that nothing names."""
    bodies = [b"orphan %d" % number for number in range(ORPHANS)]
    blobs = {sha256(body).digest(): body for body in bodies}
    await node.write(lambda journal: journal.append(Append(world, (), journal.head(world), blobs)))
    await order(node, world, "later")  # what was added at the very end is young
    return list(blobs)


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[Sweeping], Awaitable[Any]]) -> None:
    """Let something happen between what was found and the first part."""
    begin = Sweeping.begin

    async def slowly(sweep: Sweeping, older_ns: int) -> Any:
        found = await begin(sweep, older_ns)
        await act(sweep)
        return found

    monkeypatch.setattr(Sweeping, "begin", slowly)


# ---- parts ------------------------------------------------------------------------------------


async def answered(folder: Path) -> list[int]:
    """How many events had been answered each time that a sweep let some blobs go."""
    count, found = 0, []
    async with running(config(folder, retention=NONE), Bank()) as node:
        world = await node.create("main", orders.bundle())
        gone = await litter(node, world)
        discard = node.journal.discard

        def discarded(world: str, blobs: Iterable[bytes], before: int | None = None) -> Swept:
            swept = discard(world, blobs, before)
            if swept.blobs:
                found.append(count)
            return swept

        node.journal.discard = discarded  # type: ignore[method-assign]  # it is watched
        sweep = asyncio.create_task(collecting.collect(node, world, dry_run=False))
        while not sweep.done():
            await node.one(world, placed(node, f"meanwhile-{count}"))
            count += 1
        assert (await sweep)["removed"] >= ORPHANS
        assert not any([await there(node, world, digest) for digest in gone])
        assert (await node.ops.verify(world, "full"))["ok"]
    return found


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I40", "I42")
def test_others_go_on_while_a_sweep_lets_blobs_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """04 section 13: all at once, many orphans held up every world of the node."""
    monkeypatch.setattr(sweeping, "PART", 10)
    found = asyncio.run(asyncio.wait_for(answered(tmp_path), 120))
    assert len(found) >= ORPHANS // 10
    assert len(set(found)) > 1, "events are answered between the parts"


def test_a_sweep_in_one_part_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    monkeypatch.setattr(sweeping, "PART", 1_000_000)
    assert len(asyncio.run(asyncio.wait_for(answered(tmp_path), 120))) == 1


# ---- what the world does meanwhile ------------------------------------------------------------


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
@pytest.mark.parametrize("forgets", [False, True])
def test_a_node_that_is_prepared_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """I21: a world that stands again as it stood before prepares nodes that are there as orphans,
    and nothing names them until its snapshot comes. Control: a sweep that does not note them.
    """

    async def main() -> None:
        async with running(config(tmp_path, retention=NONE), Bank()) as node:
            world = await node.create("main", orders.bundle())
            old = await orphan(node, world, "a node of long ago")
            other = await orphan(node, world, "never wanted")
            await order(node, world, "later")
            if forgets:
                monkeypatch.setattr(StagedBlobs, "begin_noting", lambda _blobs: set())

            async def prepared(_sweep: Sweeping) -> None:
                blobs = node.engine.worlds[world].driver.blobs
                await node.on_kernel(lambda: blobs.put_early(old, b"a node of long ago"))
                await order(node, world, "its commit takes it along")

            meanwhile(monkeypatch, prepared)
            await collecting.collect(node, world, dry_run=False)
            assert not await there(node, world, other)
            assert await there(node, world, old) is not forgets
            blobs = node.engine.worlds[world].driver.blobs
            assert await node.on_kernel(lambda: list(blobs._noting)) == []

    asyncio.run(asyncio.wait_for(main(), 120))


# tidy: one story, told in order.
@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_snapshots_may_come_while_a_world_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ND-26: a world that snaps faster than it can be looked through is collected all the same;
    `gc` gave up with `gc.busy` after five tries.
    """

    async def main() -> None:
        settings = config(tmp_path, retention=NONE)
        async with running(settings, Bank()) as node:
            world = await node.create("main", orders.bundle())
            for n in range(40):
                await order(node, world, f"o-{n}")
            await node.snapshot(world)
            gone = await litter(node, world)

            async def snapped(_sweep: Sweeping) -> None:
                for n in range(5):
                    await order(node, world, f"more-{n}")
                    await node.snapshot(world)

            meanwhile(monkeypatch, snapped)
            assert (await collecting.collect(node, world, dry_run=False))["removed"] >= ORPHANS
            assert not any([await there(node, world, digest) for digest in gone])
            root = await node.look(world, state_root)
            assert (await node.ops.verify(world, "full"))["ok"]
        async with running(settings, Bank()) as node:
            assert await node.look(world, state_root) == root
            assert [await phase(node, world, f"o-{n}") for n in range(40)] == ["paid"] * 40

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I7", "I21")
def test_what_a_fork_of_meanwhile_names_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I21: a fork that was not there when the world was looked through names an old orphan."""

    async def main() -> None:
        wanted: list[bytes] = []

        async def act(job: Job) -> Outcome:
            named = f"sha256:{wanted[0].hex()}"
            return Ok({"ref": named if job.params["token"] == "late" else "plain"})

        async with running(config(tmp_path, retention=NONE), Bank(act)) as node:
            world = await node.create("main", orders.bundle())
            wanted.append(await orphan(node, world, "wanted after all"))
            other = await orphan(node, world, "never wanted")
            await order(node, world, "before")

            async def forked(_sweep: Sweeping) -> None:
                children.append(await node.fork(ForkOrder(world, ""), "child"))
                await order(node, children[0], "late")

            children: list[str] = []
            meanwhile(monkeypatch, forked)
            await collecting.collect(node, world, dry_run=False)
            assert await there(node, children[0], wanted[0])
            assert not await there(node, world, other)
            assert (await node.ops.verify(children[0]))["ok"]

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
@pytest.mark.parametrize("times", [1, 1000])
def test_a_world_that_was_folded_again_is_looked_through_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """I21: what it put before is not known any more; one that never rests is not collected."""

    async def main() -> None:
        async with running(config(tmp_path, retention=NONE), Bank()) as node:
            world = await node.create("main", orders.bundle())
            gone = await litter(node, world)
            folded: list[Driver] = []

            async def again(_sweep: Sweeping) -> None:
                if len(folded) < times:
                    folded.append(node.engine.worlds[world].driver)
                    await node.on_kernel(node.engine.worlds[world].again)

            meanwhile(monkeypatch, again)
            if times == 1:
                await collecting.collect(node, world, dry_run=False)
            else:
                with pytest.raises(Busy) as caught:
                    await collecting.collect(node, world, dry_run=False)
                assert caught.value.code == "gc.busy"
            assert [await there(node, world, gone[0])] == [times > 1]
            await order(node, world, "goes on")

    asyncio.run(asyncio.wait_for(main(), 120))
