"""A node whose disk fails: nothing unacknowledged is promised, nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from tallystick.errors import DiskFull, SyncFailed, TallyError
from tallystick.executors.base import Job, Ok, Outcome
from tallystick.node import duties
from tallystick.node.driver import Ticket
from tallystick.node.node import Node
from tests import orders
from tests.journal.watched import Deed, Watched, watched
from tests.node.rig import Bank, config, phase, placed, running


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 240))


def calm(_deed: Deed) -> None:
    """Refuses nothing."""


def no_sync(deed: Deed) -> None:
    if deed.what == "sync":
        raise apsw.IOError("the disk is broken")


def no_room(deed: Deed) -> None:
    if deed.what == "write":
        raise apsw.FullError("no space left")


async def placed_all(node: Node, world: str, names: list[str]) -> list[Any]:
    calls = [node.offer(world, placed(node, name)) for name in names]
    told = await asyncio.gather(*calls, return_exceptions=True)
    return [answer for found in told for answer in _flat(found)]


def _flat(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


@pytest.mark.clause("X-07", "K-26")
def test_after_a_failed_sync_nobody_is_told_yes(tmp_path: Path) -> None:
    """ND-05 in one process: every caller is told 503, the node stops; a new one has all acks."""

    async def main() -> None:
        with watched() as vfs:
            bank = Bank()
            async with running(config(tmp_path), bank, vfs=vfs.name) as node:
                world = await node.create("main", orders.bundle())
                await node.offer(world, placed(node, "good"))
                assert await node.quiet(world, 60_000)
                asked = len(bank.asked)
                vfs.judge = no_sync
                found = await placed_all(node, world, [f"bad-{i}" for i in range(20)])
                assert all(isinstance(f, SyncFailed) for f in found), found
                failed = await asyncio.wait_for(node.stopped, 60)
                assert isinstance(failed, TallyError)
                assert failed.exit_code == 3
                with pytest.raises(SyncFailed):
                    await node.offer(world, placed(node, "later"))
                assert len(bank.asked) == asked, "no effect of a frame that is not durable"
                vfs.judge = calm
        async with running(config(tmp_path), Bank()) as node:
            assert await phase(node, world, "good") == "paid"

    go(main())


@pytest.mark.pure_only
@pytest.mark.clause("K-26")
# tidy: one story
def test_the_control_an_early_answer_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ND-03, ND-05 control: a driver that answers when it stages is caught by the same test."""
    from tallystick.node.driver import Driver

    handle = Driver.handle

    def early(self: Driver, ticket: Ticket) -> None:
        handle(self, ticket)
        made = self.staged[-1]
        self.staged[-1] = made._replace(ticket=None)  # it is told, and will not be told again
        ticket.answer = made.frame.answer
        if ticket.waiter is not None:
            waiter, ticket.waiter = ticket.waiter, None
            asyncio_loop.call_soon_threadsafe(waiter.told, ticket)

    async def main() -> None:
        nonlocal asyncio_loop  # type: ignore[misc]
        asyncio_loop = asyncio.get_running_loop()
        with watched() as vfs:
            async with running(config(tmp_path), Bank(), vfs=vfs.name) as node:
                world = await node.create("main", orders.bundle())
                monkeypatch.setattr(Driver, "handle", early)
                vfs.judge = no_sync
                found = await placed_all(node, world, ["lost"])
                assert not any(isinstance(f, Exception) for f in found), "it lied, as planted"
                vfs.judge = calm
                monkeypatch.undo()

    asyncio_loop: Any = None
    go(main())


class Gate:
    """A bank that waits for a word before it charges."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, job: Job) -> Outcome:
        await self.open.wait()
        return Ok({"ref": "pay"})


async def status_is(node: Node, wanted: str) -> bool:
    for _ in range(3_000):
        if node.status() == wanted:
            return True
        await asyncio.sleep(0.02)
    return False


# tidy: before, while and after the disk is full are one story.
@pytest.mark.clause("X-07")
def test_a_full_disk_refuses_new_events_and_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ND-27 with a node: 507 while it lasts, receipts wait, nothing is lost, it recovers."""
    monkeypatch.setattr(duties, "_LOOK_S", 0.05)

    async def main(vfs: Watched) -> None:
        gate = Gate()
        async with running(config(tmp_path), Bank(gate), vfs=vfs.name) as node:
            monkeypatch.setattr(node.duties, "_has_space", lambda: vfs.judge is calm)
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "before"))
            vfs.judge = no_room
            found = await placed_all(node, world, [f"full-{i}" for i in range(5)])
            assert all(isinstance(f, DiskFull) for f in found), found
            assert node.status() == "read_only"
            assert await phase(node, world, "before") == "charging", "reads go on"
            gate.open.set()  # a receipt comes while the disk is full: it waits
            await asyncio.sleep(0.1)
            vfs.judge = calm
            assert await status_is(node, "ok")
            await node.one(world, placed(node, "after"))
            assert await node.quiet(world, 60_000)
            assert await phase(node, world, "before") == "paid"
            assert await phase(node, world, "full-0") is None
            assert (await node.ops.replay(world))["ok"]

    with watched() as vfs:
        go(main(vfs))
