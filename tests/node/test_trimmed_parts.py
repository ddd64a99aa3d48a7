"""A trim lets frames go a part at a time: others go on meanwhile, and a cut one is finished."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tallystick.errors import UnknownName
from tallystick.journal.base import Reader
from tallystick.kernel.roots import state_root
from tallystick.node import collecting
from tallystick.node.node import Node
from tests import orders
from tests.node.rig import Bank, config, placed, running

ORDERS = 60


def frames(folder: Path) -> int:
    """How many frames stand in the file of a node."""
    with sqlite3.connect(f"file:{folder}/.tally/tally.db?mode=ro", uri=True) as held:
        return int(held.execute("SELECT count(*) FROM frame").fetchone()[0])


async def grown(node: Node) -> str:
    """A world with a snapshot, and a tail behind it."""
    world = await node.create("main", orders.bundle())
    await node.offer(world, *[placed(node, f"o-{number}") for number in range(ORDERS)])
    assert await node.quiet(world, 60_000)
    await node.snapshot(world)
    await node.one(world, placed(node, "behind"))
    assert await node.quiet(world, 60_000)
    return world


async def answered(folder: Path) -> list[int]:
    """How many events had been answered each time that a trim let some frames go."""
    count, found = 0, []
    async with running(config(folder), Bank()) as node:
        world = await grown(node)
        drop = node.journal.drop_below

        def dropped(world: str, most: int) -> int:
            gone = drop(world, most)
            if gone:
                found.append(count)
            return gone

        node.journal.drop_below = dropped  # type: ignore[method-assign]  # it is watched
        cut = asyncio.create_task(collecting.cut(node, world, 10_000, folder / "archive"))
        while not cut.done():
            await node.one(world, placed(node, f"meanwhile-{count}"))
            count += 1
        assert (await cut)["frames"] > 100
        assert (await node.ops.verify(world, "full"))["ok"]
    return found


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I40", "I42")
def test_others_go_on_while_a_trim_lets_frames_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """04 section 13: all at once, a long journal held up the node, and its log grew with it."""
    monkeypatch.setattr(collecting, "PART", 10)
    found = asyncio.run(asyncio.wait_for(answered(tmp_path), 120))
    assert len(set(found)) > 3, "events are answered between the parts"


def test_a_trim_in_one_part_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    monkeypatch.setattr(collecting, "PART", 1_000_000)
    assert len(asyncio.run(asyncio.wait_for(answered(tmp_path), 120))) == 1


@pytest.mark.clause("K-44")
# tidy: one world, cut short and taken up again.
def test_a_trim_that_was_cut_short_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """04 section 13: nobody reads what is left below the floor, and it goes with the next `gc`."""
    dropped, asked = collecting._dropped, []

    async def killed(node: Node, world: str) -> int:
        asked.append(world)
        if len(asked) > 1:
            return await dropped(node, world)
        await node.write(lambda held: held.drop_below(world, 7))
        raise asyncio.CancelledError

    def past(reader: Reader) -> None:
        list(reader.read(world, 0))

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            known = await grown(node)
            with pytest.raises(asyncio.CancelledError):
                await collecting.cut(node, known, 10_000, tmp_path / "archive")
            roots.append(await node.look(known, state_root))
            worlds.append(known)

    async def again() -> None:
        async with running(config(tmp_path), Bank()) as node:
            before = frames(tmp_path)
            assert await node.look(world, state_root) == roots[0]
            assert (await node.ops.verify(world, "full"))["ok"]
            with pytest.raises(UnknownName) as caught:
                await node.read(past)
            assert caught.value.code == "journal.trimmed"
            await collecting.collect(node, world, dry_run=False)
            assert frames(tmp_path) < before - 100
            assert (await node.ops.verify(world, "full"))["ok"]
            assert await node.look(world, state_root) == roots[0]

    roots: list[bytes] = []
    worlds: list[str] = []
    monkeypatch.setattr(collecting, "_dropped", killed)
    asyncio.run(asyncio.wait_for(main(), 120))
    (world,) = worlds
    asyncio.run(asyncio.wait_for(again(), 120))
