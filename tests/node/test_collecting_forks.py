"""Collecting in a world that has forks: what a fork reads, live or on its way, is not an orphan."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import BlobLost, Busy
from tallystick.executors.base import Job, Ok, Outcome
from tallystick.governance.whatif import read_edits
from tallystick.model.cells import CellId
from tallystick.node import collecting
from tallystick.node import node as node_module
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.node.ops import Span
from tallystick.node.sweeping import Sweeping
from tallystick.node.worlds import ForkOrder
from tallystick.values import canon
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running
from tests.node.test_collecting import NONE, order, orphan, there
from tests.node.test_reruns import Gate


async def forked(node: Node, count: int) -> tuple[str, str]:
    """A world of so many cells, and a fork that lives on a snapshot of it."""
    main = await node.create("main", orders.bundle())
    for n in range(count):
        await order(node, main, f"o-{n}")
    await node.snapshot(main)
    return main, await node.fork(ForkOrder(main, ""), "child")


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I7", "I21")
def test_a_fork_goes_on_though_its_snapshot_is_thinned_out(tmp_path: Path) -> None:
    """A collection in the parent removed what a running fork reads: the fork stopped, and a
    snapshot of it that came meanwhile could not be opened any more.
    """

    async def main() -> None:
        settings = config(tmp_path, retention=NONE)
        async with running(settings, Bank()) as node:
            parent, child = await forked(node, 60)
            for n in range(60, 120):
                await order(node, parent, f"o-{n}")
            await node.snapshot(parent)
            await collecting.collect(node, parent, dry_run=False)
            await order(node, child, "only here")
            await node.snapshot(child)
            assert [await phase(node, child, f"o-{n}") for n in range(60)] == ["paid"] * 60
            assert (await node.ops.verify(child))["ok"]
        async with running(settings, Bank()) as node:
            assert [await phase(node, child, f"o-{n}") for n in range(60)] == ["paid"] * 60

    asyncio.run(asyncio.wait_for(main(), 240))


# tidy: one story, told in order.
@pytest.mark.clause("K-44", "X-08")
@pytest.mark.invariant("I7", "I21")
def test_a_what_if_stands_on_what_is_still_there(tmp_path: Path) -> None:
    """06 section 11: what a what-if stands on was thinned out while it ran: it was told of damage,
    or its world was made and stopped at the first cell that it had not touched.
    """

    async def main() -> None:
        gate = Gate()
        settings = config(tmp_path, retention=NONE)
        node = await open_node(settings, gate.runner, executors=[Bank()])
        try:
            parent = await node.create("main", orders.bundle())
            for n in range(60):
                await order(node, parent, f"o-{n}")
            await node.snapshot(parent)
            seq = (await node.one(parent, placed(node, "a"))).seq
            await order(node, parent, "b")
            gate.open.clear()
            edits = read_edits([{"seq": seq, "event": {"order_id": "a", "cents": 9}}])
            idea = asyncio.create_task(node.fork(ForkOrder(parent, "", edits=edits), "idea"))
            await gate.is_reached()
            for n in range(60, 120):
                await order(node, parent, f"o-{n}")
            await node.snapshot(parent)
            await collecting.collect(node, parent, dry_run=False)
            with pytest.raises(Busy):
                await collecting.cut(node, parent, 10_000, tmp_path / "archive")
            gate.open.set()
            child = await idea
            assert [await phase(node, child, f"o-{n}") for n in range(60)] == ["paid"] * 60
            assert (await collecting.collect(node, parent, dry_run=False))["snapshots"] == 0
            assert (await node.ops.verify(child))["ok"]
        finally:
            gate.open.set()
            await close_node(node)

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("K-44")
def test_a_replay_stands_on_what_is_still_there(tmp_path: Path) -> None:
    """04 section 13: `tally replay --from` beside `gc` said that the journal is damaged: the
    snapshot behind which it began was gone.
    """

    async def main() -> None:
        gate = Gate()
        settings = config(tmp_path, retention=NONE)
        node = await open_node(settings, gate.runner, executors=[Bank()])
        try:
            world = await node.create("main", orders.bundle())
            for n in range(60):
                await order(node, world, f"o-{n}")
            begin = await node.snapshot(world)
            for n in range(60, 120):
                await order(node, world, f"o-{n}")
            await node.snapshot(world)
            gate.open.clear()
            again = asyncio.create_task(node.ops.replay(world, Span(begin)))
            await gate.is_reached()
            await collecting.collect(node, world, dry_run=False)
            gate.open.set()
            assert (await again)["ok"]
        finally:
            gate.open.set()
            await close_node(node)

    asyncio.run(asyncio.wait_for(main(), 240))


# tidy: one story, told in order.
@pytest.mark.clause("K-44", "K-42")
@pytest.mark.parametrize("once", [False, True])
def test_a_past_stands_on_what_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    """04 section 11: `?at=` beside `gc` said that a blob is lost: the snapshot behind which it
    began was gone. It is read again. Control: who reads once is told of damage.
    """
    if once:
        monkeypatch.setattr(node_module, "unthinned", lambda _journal, _world, read: read())

    async def main() -> None:
        async with running(config(tmp_path, retention=NONE), Bank()) as node:
            world = await node.create("main", orders.bundle())
            for n in range(60):
                await order(node, world, f"o-{n}")
            seq = await node.snapshot(world)
            for n in range(60, 120):
                await order(node, world, f"o-{n}")
            await node.snapshot(world)
            begun: list[Any] = []

            def phases(then: Any) -> list[str]:
                begun.append(then)
                if len(begun) == 1:
                    coming = collecting.collect(node, world, dry_run=False)
                    assert asyncio.run_coroutine_threadsafe(coming, node.loop).result(60)["removed"]
                cells = [CellId(orders.ORDERS, canon.encode(f"o-{n}")) for n in range(60)]
                return [canon.decode(then.state_of(then.cell(cell)))["phase"] for cell in cells]

            if once:
                with pytest.raises(BlobLost):
                    await node.past(world, seq, phases)
            else:
                assert await node.past(world, seq, phases) == ["paid"] * 60
                assert len(begun) == 2

    asyncio.run(asyncio.wait_for(main(), 240))


# tidy: one story, told in order.
@pytest.mark.clause("K-44")
@pytest.mark.invariant("I7", "I21")
def test_what_a_fork_names_between_marking_and_sweep_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I21: a receipt of a fork names an old orphan of its parent while that is looked through; it
    was removed as if nobody had named it.
    """

    async def main() -> None:
        wanted: list[bytes] = []

        async def act(job: Job) -> Outcome:
            named = f"sha256:{wanted[0].hex()}"
            return Ok({"ref": named if job.params["token"] == "meanwhile" else "plain"})

        async with running(config(tmp_path, retention=NONE), Bank(act)) as node:
            parent = await node.create("main", orders.bundle())
            wanted.append(await orphan(node, parent, "wanted after all"))
            await order(node, parent, "before")
            child = await node.fork(ForkOrder(parent, ""), "child")
            begin = Sweeping.begin

            async def slowly(sweeping: Sweeping, older_ns: int) -> Any:
                found = await begin(sweeping, older_ns)
                await order(node, child, "meanwhile")
                return found

            monkeypatch.setattr(Sweeping, "begin", slowly)
            await collecting.collect(node, parent, dry_run=False)
            assert await there(node, child, wanted[0])

    asyncio.run(asyncio.wait_for(main(), 240))
