"""Rollback: a name goes to a fork in one transaction, and whoever has it is the one that works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tallystick.errors import NotOwner, TallyError, Unavailable
from tallystick.executors.base import Job, Ok, Outcome
from tallystick.journal.sqlite import SqliteJournal
from tallystick.model.records import AliasMoved
from tallystick.modules.python import PythonRunner
from tallystick.node import rollback
from tallystick.node.node import Node
from tallystick.node.rollback import Order, move_alias, settled_since
from tallystick.node.worlds import ForkOrder, world_at
from tests import orders
from tests.journal.watched import MODES, Deed, Image, watched
from tests.node.rig import Bank, config, phase, placed, running


async def moved(node: Node, alias: str, to: str) -> str | None:
    return await move_alias(node, Order(alias, to, "alice", node.clock.sample()))


async def forked(node: Node) -> tuple[str, str]:
    """A world under the name `prod`, and a fork of it."""
    old = await node.create("orders", orders.bundle())
    await node.alias("prod", old)
    await node.one(old, placed(node, "a"))
    assert await node.quiet(old, 60_000)
    new = await node.fork(ForkOrder(old, ""), "orders-b")
    return old, new


@pytest.mark.clause("X-08")
def test_a_target_that_was_removed_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """06 section 11: between the check and the switch it goes: no bare KeyError, nothing moves."""
    switch = rollback._switch

    async def late(node: Node, order: Order, now: str) -> None:
        await node.remove(order.to)
        await switch(node, order, now)

    monkeypatch.setattr(rollback, "_switch", late)

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            old, new = await forked(node)
            with pytest.raises(NotOwner) as caught:
                await moved(node, "prod", new)
            assert caught.value.where["world"] == new
            assert node.names["prod"] == old
            await node.one(old, placed(node, "b"))
            assert await node.quiet(old, 60_000)

    asyncio.run(asyncio.wait_for(main(), 60))


# tidy: one story, there and back.
@pytest.mark.clause("X-08")
def test_there_and_back(tmp_path: Path) -> None:
    """AG-32: the old world is frozen, what it settled since the fork is told, the fork works; the
    name goes back, and what was open goes on, attempted again.
    """

    # tidy: one story, told in order.
    async def main() -> None:
        paid = asyncio.Event()

        async def act(job: Job) -> Outcome:
            if job.params["cents"] == 77:
                await paid.wait()
            return Ok({"ref": "pay"})

        bank = Bank(act)
        async with running(config(tmp_path), bank) as node:
            old, new = await forked(node)
            await node.one(old, placed(node, "b"))
            assert await node.quiet(old, 60_000)
            await node.one(old, placed(node, "slow", cents=77))
            since = await node.read(lambda reader: settled_since(reader, old, new))
            assert [(row["effect"], row["status"]) for row in since] == [(orders.CHARGE, "ok")]
            epoch = (await node.read(lambda reader: reader.head(old))).epoch
            assert await moved(node, "prod", new) == old
            assert node.resolve("prod") == new
            assert (await node.read(lambda reader: reader.head(old))).epoch == epoch + 1
            with pytest.raises(Unavailable) as caught:
                await node.one(old, placed(node, "c"))
            assert caught.value.code == "ingress.read_only"
            assert not node.dispatch.works_for(old)
            await node.one(new, placed(node, "d"))
            assert await node.quiet(new, 60_000)
            assert await phase(node, new, "d") == "paid"
            asked = len(bank.asked)
            paid.set()
            assert await moved(node, "prod", old) == new
            assert await node.quiet(old, 60_000)
            assert await phase(node, old, "slow") == "paid"
            again = bank.asked[asked:]
            assert [(job.world, job.attempt) for job in again] == [(old, 2)]
            for world in (old, new):
                found = await node.read(lambda reader, world=world: records(reader, world))  # type: ignore[misc]
                assert [record.to for record in found] == [new, old]
                assert (await node.ops.replay(world))["ok"]

    asyncio.run(main())


# tidy: one story, told in order.
def test_who_asked_may_be_gone(tmp_path: Path) -> None:
    """BUGS 87: a move that was queued happens though its caller was cancelled; the node follows."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            old, new = await forked(node)
            asked: asyncio.Task[str | None]
            gone = threading.Event()

            def waits() -> None:
                gone.wait(60)

            class Shut(set[str]):
                def add(self, world: str) -> None:
                    """The move is about to be queued: its caller goes before it is done."""
                    super().add(world)
                    node.engine.call(waits)
                    node.loop.call_soon(asked.cancel)
                    node.loop.call_soon(gone.set)

            node.dispatch.shut = Shut(node.dispatch.shut)
            asked = asyncio.create_task(moved(node, "prod", new))
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert await node.read(lambda reader: reader.resolve("prod")) == new
            assert node.resolve("prod") == new
            assert old in node.dispatch.shut
            await node.one(node.resolve("prod"), placed(node, "e"))
            assert await node.quiet(new, 60_000)
            assert await phase(node, new, "e") == "paid"

    asyncio.run(main())


def records(reader: Any, world: str) -> list[AliasMoved]:
    from tallystick.model.frames import open_frame

    every = [record for frame in reader.read(world) for record in open_frame(frame.body)[3]]
    return [record for record in every if isinstance(record, AliasMoved)]


@pytest.mark.clause("X-08")
def test_a_frozen_world_stays_so_over_a_restart(tmp_path: Path) -> None:
    """AG-32: after a restart the world that lost its name takes nothing and starts nothing."""

    async def main() -> None:
        never = asyncio.Event()

        async def act(_job: Job) -> Outcome:
            await never.wait()
            return Ok({"ref": "pay"})

        async with running(config(tmp_path), Bank(act)) as node:
            old, new = await node.create("orders", orders.bundle()), ""
            await node.alias("prod", old)
            await node.one(old, placed(node, "a"))
            new = await node.fork(ForkOrder(old, ""), "orders-b")
            await moved(node, "prod", new)
        bank = Bank()
        async with running(config(tmp_path), bank) as node:
            assert node.resolve("prod") == new
            assert await node.quiet(new, 60_000)
            with pytest.raises(TallyError):
                await node.one(old, placed(node, "b"))
            assert [job.world for job in bank.asked if job.world == old] == []

    asyncio.run(main())


# ---- the crash ------------------------------------------------------------------------------


def crashes(log: list[Deed], mark: int) -> Iterator[tuple[str, dict[str, bytes]]]:
    """What the disk may hold after each deed behind a mark, in every mode."""
    image, chance = Image(), Random("rollback")
    for at, deed in enumerate(log):
        image.take(deed)
        if at >= mark:
            for mode in MODES:
                yield mode, image.after(mode, chance)


def standing(folder: Path, worlds: tuple[str, str]) -> tuple[str, tuple[bool, bool]]:
    """Which world the name means, and which of the two are frozen."""
    journal = SqliteJournal(folder)
    try:
        runner = PythonRunner(orders.FUNCTIONS)
        frozen = [world_at(journal, world, runner).frozen for world in worlds]
        return journal.aliases()["prod"], (frozen[0], frozen[1])
    finally:
        journal.close()


def enumerated(base: Path, break_: Callable[[SqliteJournal], None]) -> list[Any]:
    """Where things stand after a crash at each write of a move."""
    seen: list[Any] = []

    async def main() -> tuple[list[Deed], int, tuple[str, str]]:
        with watched() as vfs:
            async with running(config(base / "node"), Bank(), vfs=vfs.name) as node:
                worlds = await forked(node)
                break_(node.journal)
                mark = len(vfs.log)
                await moved(node, "prod", worlds[1])
                return list(vfs.log), mark, worlds

    log, mark, worlds = asyncio.run(main())
    for number, (_, files) in enumerate(crashes(log, mark)):
        folder = base / f"image-{number}"
        folder.mkdir()
        for name, data in files.items():
            if not name.endswith("-shm"):
                (folder / name).write_bytes(data)
        alias, frozen = standing(folder, worlds)
        seen.append((worlds.index(alias), frozen))
    return seen


BEFORE = (0, (False, False))
AFTER = (1, (True, False))


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I1")
def test_killed_at_every_write(tmp_path: Path) -> None:
    """AG-32: after a crash at any write of the move the name means the old world and nothing is
    frozen, or it means the fork and the old one is: never else.
    """
    seen = enumerated(tmp_path, lambda _journal: None)
    assert len(seen) >= 8
    assert set(seen) == {BEFORE, AFTER}


def test_control_two_commits_are_found_out(tmp_path: Path) -> None:
    """AG-32 control: a move in two commits leaves, after some crash, two that work or none."""

    def break_(journal: SqliteJournal) -> None:
        whole = journal.append

        def in_two(name: str, to: str, batch: Any) -> Any:
            journal.alias(name, to)
            return whole(*batch)

        journal.move_alias = in_two  # type: ignore[method-assign]  # the planted defect

    seen = enumerated(tmp_path, break_)
    assert set(seen) - {BEFORE, AFTER}
