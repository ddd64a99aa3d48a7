"""A world that came from another node: its journal holds nothing that it cannot prove alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.errors import Conflict
from tallystick.journal import checkpoints
from tallystick.journal.backup import backup, check_backup
from tallystick.journal.export import export_bundle
from tallystick.journal.imports import import_world, verify_export
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.kernel.inputs import TrustKey
from tallystick.node import collecting
from tallystick.node.node import Node
from tests import orders
from tests.node.rig import Bank, config, placed, running


async def exported(node: Node, world: str, path: Path) -> Path:
    with path.open("wb") as out:
        await node.read(lambda reader: export_bundle(reader, world, out))
    return path


async def signed(node: Node, world: str) -> list[int]:
    rows = await node.read(lambda reader: reader.checkpoints(world))
    return [row.seq for row in rows]


# tidy: one story, from one node to the other.
@pytest.mark.clause("X-07")
@pytest.mark.invariant("I43")
def test_a_backup_of_an_imported_world_can_be_restored(tmp_path: Path) -> None:
    """04 section 4: the node signs for itself what it cannot sign for the world, in the file beside
    the journal; once the world trusts its key, in the journal too.
    """

    async def first() -> str:
        async with running(config(tmp_path / "one"), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.one(world, placed(node, "a"))
            assert await node.quiet(world, 60_000)
            await exported(node, world, tmp_path / "main.tally")
            return world

    async def second(world: str) -> None:
        async with running(config(tmp_path / "two"), Bank()) as node:
            await node.write(lambda held: import_world(tmp_path / "main.tally", held, "main"))
        async with running(config(tmp_path / "two"), Bank()) as node:
            before = await signed(node, world)
            await node.one(world, placed(node, "b"))
            made = await node.duties.checkpoint(world)
            assert await signed(node, world) == before
            assert made in checkpoints.read_file(node.files.checkpoints, world)
            assert verify_export(await exported(node, world, tmp_path / "again.tally")).ok
            with pytest.raises(Conflict) as caught:
                await collecting.cut(node, world, 10_000, tmp_path / "archive.tally")
            assert caught.value.code == "trim.untrusted"
            copied(node, tmp_path / "kept")
            public = node.key.pair.public
            await node.one(world, TrustKey(node.clock.sample(), public, ("*",), ("*",), "eva"))
            made = await node.duties.checkpoint(world)
            assert made.seq in await signed(node, world)
            copied(node, tmp_path / "later")

    world = asyncio.run(asyncio.wait_for(first(), 120))
    asyncio.run(asyncio.wait_for(second(world), 120))


def copied(node: Node, into: Path) -> None:
    reader = SqliteReader(node.folder)
    backup(reader, into)
    reader.close()
    assert check_backup(into).worlds
