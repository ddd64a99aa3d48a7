"""Duties go on, whatever becomes of what they are about."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.node import duties
from tallystick.node.node import Node
from tests import orders
from tests.node.rig import Bank, config, placed, running
from tests.node.test_removing import blocked


def on_duty(node: Node) -> bool:
    return node.duties._task is not None and not node.duties._task.done()


def test_duties_go_on_when_a_world_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A world that goes while its snapshot is on the way ends no duty: the disk is still looked at,
    and the other worlds are signed.
    """
    monkeypatch.setattr(duties, "_LOOK_S", 0.02)
    monkeypatch.setattr(duties, "CHECKPOINT_S", 0.0)

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("gone", orders.bundle())
            await asyncio.sleep(0.2)  # it was looked at
            await node.one(world, placed(node, "changes it"))
            held = blocked(node)
            await asyncio.sleep(0.2)  # a snapshot is asked for
            removing = asyncio.ensure_future(node.remove("gone"))
            await asyncio.sleep(0.05)
            held.set()
            await asyncio.wait_for(removing, 60)
            await asyncio.sleep(0.2)
            assert on_duty(node)

    asyncio.run(asyncio.wait_for(main(), 240))


def test_duties_go_on_without_a_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F3: a reserve that cannot be taken is told once; the rest is done without it."""
    monkeypatch.setattr(duties, "_LOOK_S", 0.01)
    settings = config(tmp_path)
    (settings.data / "reserve").mkdir(parents=True)  # whatever it is that is in the way

    async def main() -> None:
        async with running(settings, Bank()) as node:
            await asyncio.sleep(0.2)
            assert on_duty(node)

    asyncio.run(asyncio.wait_for(main(), 240))
    told = (settings.data / "logs" / "node.jsonl").read_text()
    assert told.count("node.no_reserve") == 1
