"""Stopping in time: whoever would hold the node up is left behind when its time is over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tallystick.journal.base import Reader
from tallystick.journal.sqlite_read import DATABASE
from tallystick.modules.python import PythonRunner
from tallystick.node.files import Lock
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running


def modules(_blobs: object) -> PythonRunner:
    return PythonRunner(orders.FUNCTIONS)


MANY_S = 120.0  # far more than a stop may take, however slow the machine is


@asynccontextmanager
async def stopped(base: Path, bank: Bank, until_s: float) -> AsyncIterator[Node]:
    """A node that has so long to stop."""
    node = await open_node(config(base), modules, executors=[bank])
    try:
        yield node
    finally:
        await close_node(node, 0, until_s=node.loop.time() + until_s)


def test_a_reader_that_never_ends_is_broken_off(tmp_path: Path) -> None:
    """ND-30, I44: a long read of history does not hold a stop up; it ends, and with an error."""
    begun = threading.Event()

    def forever(reader: Reader) -> int:
        begun.set()
        query = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"
        rows: Any = reader
        return sum(1 for _ in rows._rows(query))

    async def main() -> BaseException | int:
        async with stopped(tmp_path, Bank(), 0.2) as node:
            reading = asyncio.create_task(node.read(forever))
            await asyncio.to_thread(begun.wait, MANY_S)
        (found,) = await asyncio.gather(reading, return_exceptions=True)
        return found

    found = asyncio.run(asyncio.wait_for(main(), MANY_S))
    assert isinstance(found, Exception)


@pytest.mark.parametrize(("until_s", "signed"), [(MANY_S, True), (-1.0, False)])
def test_when_time_is_over_no_snapshot_is_begun(
    tmp_path: Path, until_s: float, signed: bool
) -> None:
    """ND-30: with time it leaves a checkpoint; without, it only says so, and loses nothing."""

    async def main() -> tuple[int, bool]:
        async with stopped(tmp_path, Bank(), until_s) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "o-1"))
            assert await node.quiet(world, 60_000)
            before = node.feed.head(world)
        again = await open_node(config(tmp_path), modules, passive=True)
        try:
            rows = await again.read(lambda reader: reader.checkpoints(world))
            return again.feed.head(world) - before, bool(rows)
        finally:
            await close_node(again)

    more, found = asyncio.run(asyncio.wait_for(main(), MANY_S))
    assert more >= 0
    assert found is signed


def test_a_checkpoint_that_finds_no_room_does_not_hinder_a_stop(tmp_path: Path) -> None:
    """I44, F3: the file of checkpoints is a copy: what cannot be written to it keeps no node from
    letting go of its folder, whole.
    """

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.one(world, placed(node, "o-1"))
            assert await node.quiet(world, 60_000)
            node.files.checkpoints.mkdir()  # nobody can write to it
        async with running(config(tmp_path), Bank()) as node:
            assert await phase(node, world, "o-1") == "paid"
            rows = await node.read(lambda reader: reader.checkpoints(world))
            assert rows, "the journal keeps it"

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.invariant("I44")
def test_a_damaged_page_does_not_hinder_a_stop(tmp_path: Path) -> None:
    """F4: a page that says what was signed last is damaged: the stop broke off there, with the last
    events unanswered, the folder held and no other world signed.
    """

    async def main() -> None:
        node = await open_node(config(tmp_path), modules, executors=[Bank()])
        world = await node.create("main", orders.bundle())
        await node.one(world, placed(node, "o-1"))
        assert await node.quiet(world, 60_000)
        await node.write(lambda journal: journal.wal_checkpoint(idle=True))
        db = apsw.Connection(str(node.folder / DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
        query = "SELECT rootpage FROM sqlite_master WHERE name='checkpoint'"
        page, size = db.execute(query).get, db.execute("PRAGMA page_size").get
        db.close()
        with (node.folder / DATABASE).open("r+b") as file:
            file.seek((page - 1) * size)
            file.write(b"\xff" * size)
        await close_node(node)
        Lock(node.files).release()

    asyncio.run(asyncio.wait_for(main(), MANY_S))
