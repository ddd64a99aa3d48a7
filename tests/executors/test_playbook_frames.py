"""Runs that wait in the middle of their tasks, with much in their hands."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tallystick.node import collecting
from tallystick.node.node import Node
from tests.playbooks.nets import HEAD
from tests.playbooks.rig import Ended, ended, playing, request, send, until

BIG = 3 << 20
WAITS = HEAD + (
    "workflow:\n  - step: a\n    tool:\n"
    f"      - {{name: big, kind: python, code: \"result = 'x' * {BIG}\"}}\n"
    "      - {name: stop, kind: wait, signal: go}\n"
    "      - {name: last, kind: python, args: {n: '{{ big | length }}', s: '{{ _prev }}'}, "
    'code: "result = [n, s]"}\n'
)
ENABLED = ["timer", "python", "playbook"]
SETTINGS = {"python": {"isolation": "rlimits"}}
RETENTION = {"blob_grace": "0s", "snapshots": 1}


def at_work(folder: Path) -> AbstractAsyncContextManager[tuple[Node, str]]:
    """A node that plays programs, and forgets at once what nothing names."""
    return playing(folder, enabled=ENABLED, executors=SETTINGS, retention=RETENTION)


async def waiting(node: Node, world: str) -> dict[str, Any]:
    """The unit of a run that waits for a signal."""
    async with asyncio.timeout(60):
        while True:
            net = await until(node, world, "running")
            units = [unit for run in net["runs"].values() for unit in run["open"].values()]
            found = [each for each in units if each.get("wish", {}).get("kind") == "signal"]
            if found:
                return dict(found[0])
            await asyncio.sleep(0.01)


async def go(node: Node, world: str, value: Any) -> None:
    """The signal that it waits for."""
    told = {"execution": "e1", "name": "go", "value": value, "principal": "ana"}
    await send(node, world, "sys/PlaySignal@1", told)


@pytest.mark.clause("N-15")
def test_a_run_may_wait_with_a_large_result_in_its_hands(tmp_path: Path) -> None:
    """07 sections 5 and 10: over 1 MiB before a wait failed the step (`receipt_bytes_max`).

    What it holds stands in the store meanwhile, through a collection and a new start.
    """

    async def begin() -> None:
        async with at_work(tmp_path) as (
            node,
            world,
        ):
            await request(node, world, WAITS)
            unit = await waiting(node, world)
            assert set(unit["frame"]) == {"h", "n", "iter"}
            assert unit["frame"]["n"] > BIG
            await node.snapshot(world)
            await collecting.collect(node, world, dry_run=False)

    async def end() -> Ended:
        async with at_work(tmp_path) as (
            node,
            world,
        ):
            await go(node, world, "now")
            return await ended(node, world)

    asyncio.run(asyncio.wait_for(begin(), 120))
    found = asyncio.run(asyncio.wait_for(end(), 120))
    assert found.status == "success", str(found.net["failures"])
    assert found.results["a"] == [BIG, "now"]


def test_a_small_frame_stands_in_its_place(tmp_path: Path) -> None:
    """07 section 10: what is small is no blob of its own."""

    async def main() -> Ended:
        async with at_work(tmp_path) as (node, world):
            await request(node, world, WAITS.replace(str(BIG), "3"))
            assert (await waiting(node, world))["frame"]["results"]["big"] == "xxx"
            await go(node, world, 1)
            return await ended(node, world)

    assert asyncio.run(asyncio.wait_for(main(), 120)).results["a"] == [3, 1]


def test_what_no_document_can_hold_ends_the_step_as_an_error(tmp_path: Path) -> None:
    """07 section 5: two results of 9 MiB before a wait are told, not lost with their worker."""
    big = f"      - {{name: big, kind: python, code: \"result = 'x' * {BIG}\"}}\n"
    two = "".join(big.replace("big", name).replace(str(BIG), str(9 << 20)) for name in ("b1", "b2"))

    async def main() -> Ended:
        async with at_work(tmp_path) as (node, world):
            await request(node, world, WAITS.replace(big, two).replace("big |", "b1 |"))
            return await ended(node, world)

    (row,) = asyncio.run(asyncio.wait_for(main(), 120)).net["failures"]
    assert (row["code"], row["kind"]) == ("task.result", "schema")
