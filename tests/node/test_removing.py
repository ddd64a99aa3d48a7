"""Removing a world from a busy node: who waits for it is told, and nobody else notices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tallystick.errors import NotOwner
from tallystick.kernel.draft import Answer
from tallystick.node.node import Node
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running

MANY = 600  # more than one commit takes


async def fact(seen: object, what: str) -> None:
    """Wait until something is so."""
    assert callable(seen)
    end = asyncio.get_running_loop().time() + 60
    while not seen():
        assert asyncio.get_running_loop().time() < end, what
        await asyncio.sleep(0.002)


def kinds(told: Sequence[object]) -> set[type]:
    """What kind of answers came; each call was about one event."""
    found: set[type] = set()
    for each in told:
        assert isinstance(each, list | Exception), each
        found |= {type(one) for one in (each if isinstance(each, list) else [each])}
    return found


# tidy: one story, told in order.
@pytest.mark.clause("X-07")
@pytest.mark.invariant("I40")
def test_a_world_goes_while_its_commit_is_on_its_way(tmp_path: Path) -> None:
    """A commit that was handed to a slow disk lands before the world goes; what waits behind it is
    answered, and the other world of the node goes on.
    """

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            gone = await node.create("gone", orders.bundle())
            stays = await node.create("stays", orders.bundle())
            assert await node.quiet(stays, 60_000)
            begun, held = threading.Event(), threading.Event()

            def slow() -> None:
                begun.set()
                assert held.wait(60)

            node.writer._queue.put(slow)  # the thread that writes is busy, and holds no lock
            assert await asyncio.to_thread(begun.wait, 60)
            events = [placed(node, f"o-{n}") for n in range(MANY)]
            calls = [asyncio.ensure_future(node.offer(gone, each)) for each in events]
            await fact(lambda: node.engine._commits.flight is not None, "no commit flew")
            removing = asyncio.ensure_future(node.remove("gone"))
            await asyncio.sleep(0.1)
            held.set()
            told = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)
            await asyncio.wait_for(removing, 60)
            assert kinds(told) <= {Answer, NotOwner}
            assert node.engine.failed is None
            assert "gone" not in node.worlds()
            await node.one(stays, placed(node, "after"))
            assert await node.quiet(stays, 60_000)
            assert await phase(node, stays, "after") == "paid"

    asyncio.run(asyncio.wait_for(main(), 240))


def blocked(node: Node) -> threading.Event:
    """Let the kernel's thread stand still until this is set."""
    held = threading.Event()

    def stand() -> None:
        assert held.wait(60)

    node.engine.call(stand)
    return held


def test_who_comes_as_a_world_goes_is_answered(tmp_path: Path) -> None:
    """What reaches the kernel's thread behind the removal, inputs and looks, does not wait for
    ever.
    """

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("gone", orders.bundle())
            held = blocked(node)
            removing = asyncio.ensure_future(node.remove("gone"))
            await asyncio.sleep(0)
            late = asyncio.ensure_future(node.offer(world, placed(node, "late")))
            look = asyncio.ensure_future(node.look(world, lambda live: live.seq))
            await asyncio.sleep(0.05)
            held.set()
            await asyncio.wait_for(removing, 60)
            told = await asyncio.wait_for(asyncio.gather(late, look, return_exceptions=True), 60)
            assert kinds([told[0]]) == {NotOwner}
            assert isinstance(told[1], NotOwner)

    asyncio.run(asyncio.wait_for(main(), 240))


def test_a_world_that_is_removed_is_forgotten_by_the_index(tmp_path: Path) -> None:
    """06 section 11: all that a world owns goes with it, what the index knows of it too."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            gone = await node.create("gone", orders.bundle())
            stays = await node.create("stays", orders.bundle())
            for world in (gone, stays):
                await node.one(world, placed(node, "private"))
                assert await node.quiet(world, 60_000)
                assert await node.index.ask(world, lambda index: len(index.dump()["touch"])) > 0
            await node.remove("gone")
            rows = await node.index.ask(stays, lambda index: index.dump())
            assert {row[0] for table in rows.values() for row in table} == {stays}

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.invariant("I40")
def test_a_world_whose_files_cannot_be_removed_goes_all_the_same(tmp_path: Path) -> None:
    """F3: its folder of large blobs stood on another disk, by a link; the removal failed half way,
    and the next event for that world stopped the whole node.
    """

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            gone = await node.create("gone", orders.bundle())
            stays = await node.create("stays", orders.bundle())
            (tmp_path / "elsewhere").mkdir()
            (node.folder / "blobs").mkdir(exist_ok=True)
            (node.folder / "blobs" / gone).symlink_to(tmp_path / "elsewhere")
            await node.remove("gone")
            with pytest.raises(NotOwner):
                await node.one(gone, placed(node, "too late"))
            await node.one(stays, placed(node, "o-1"))

    asyncio.run(asyncio.wait_for(main(), 120))
