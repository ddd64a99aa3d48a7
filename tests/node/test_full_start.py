"""A node that starts on a disk without any room left (04 section 13)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import DiskFull
from tallystick.journal.reserve import RESERVE_BYTES, START_BYTES, Reserve, make_way, room
from tests import orders
from tests.acceptance.kit import image
from tests.node.rig import Bank, config, phase, placed, running


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    if not image.available():
        pytest.skip("needs root, losetup, mount and mkfs.ext4 for a disk that can be filled")
    made = image.make_image(tmp_path / "disk.img", tmp_path / "disk", 64)
    try:
        yield made.folder
    finally:
        made.close()


def fill(folder: Path) -> None:
    """Take all the room there is, to the last block; what is reserved for root too."""
    for size in (1 << 20, 1 << 12, 1 << 9):
        try:
            with (folder / f"fill-{size}").open("ab", buffering=0) as file:
                while True:
                    file.write(bytes(size))
        except OSError:
            continue


# tidy: one disk, three lives of a node
@pytest.mark.clause("X-07")
@pytest.mark.slow
def test_a_node_comes_up_on_a_full_disk_and_reads(disk: Path) -> None:
    """BUGS 98: its reserve pays for the start; events are refused, and nothing is lost."""

    async def lived() -> str:
        async with running(config(disk), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "before"))
            assert await node.quiet(world, 60_000)
            assert Reserve(node.folder).make()
            return world

    async def full(world: str) -> list[Any]:
        async with running(config(disk), Bank()) as node:
            assert await phase(node, world, "before") == "paid"
            assert not Reserve(node.folder).whole, "it was spent"
            fill(disk)
            return await node.offer(world, placed(node, "after"))

    world = asyncio.run(asyncio.wait_for(lived(), 120))
    fill(disk)
    assert room(disk) < START_BYTES
    (answer,) = asyncio.run(asyncio.wait_for(full(world), 120))
    assert isinstance(answer, DiskFull)
    for path in disk.glob("fill-*"):
        path.unlink()

    async def after() -> str | None:
        async with running(config(disk), Bank()) as node:
            return await phase(node, world, "before")

    assert asyncio.run(asyncio.wait_for(after(), 120)) == "paid"


def test_a_disk_with_room_keeps_its_reserve(tmp_path: Path) -> None:
    """The reserve is for the moment when there is nothing else."""
    reserve = Reserve(tmp_path)
    assert reserve.make()
    if room(tmp_path) < RESERVE_BYTES:
        pytest.skip("the disk under the temporary folder is nearly full")
    assert not make_way(tmp_path)
    assert reserve.whole
