"""A node that opens, serves some orders and closes; `scripts/build_fast` runs it on both paths."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import tallystick.cli.here  # noqa: F401 - all that a command loads
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running

NAMES = [f"o-{number}" for number in range(5)]


def lines() -> list[str]:
    """What became of each order."""
    return asyncio.run(asyncio.wait_for(_served(), 240))


async def _served() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        async with running(config(Path(folder)), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, name) for name in NAMES])
            assert await node.quiet(world, 60_000)
            return [f"{name} {await phase(node, world, name)}" for name in NAMES]
