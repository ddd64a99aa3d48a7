"""A node without the WASM engine serves everything that needs none (05 section 5)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tallystick.errors import LaneMissing
from tallystick.kernel.inputs import Operate, Submit
from tallystick.model.cells import CellId
from tallystick.modules.runners import Runners
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.testing.sources import built
from tallystick.values import canon
from tests.conformance.abi_lanes import app_of
from tests.node.rig import config
from tests.workflow.apps import HELLO

FLOW = "counter/counter@1"
ADD = {"name": "a", "n": 1}


class Missing:
    """What the door says where the engine is not installed."""

    def tick(self, *given: Any) -> Any:
        raise LaneMissing("no engine")

    init = pure = tick


async def sent(node: Node, world: str, schema: str, value: Any) -> Any:
    (answer,) = await node.offer(world, Submit(node.clock.sample(), schema, value))
    await node.quiet(world, 60_000)
    return answer


async def status(node: Node, world: str, workflow: str, key: str) -> str | None:
    ident = CellId(workflow, canon.encode(key))

    def ask(live: Any) -> str | None:
        cell = live.cell(ident)
        return None if cell is None else cell.status

    return await node.look(world, ask)


# tidy: one story, before and after.
def test_only_the_cell_that_needs_the_engine_waits(tmp_path: Path) -> None:
    """AU-19: no engine is no outcome: the cell is suspended, others work; installed, it goes on."""

    async def without() -> str:
        lanes = {"wasm": Missing()}
        node = await open_node(config(tmp_path), lambda blobs: Runners(blobs, lanes=lanes))
        try:
            counter = await node.create("counter", app_of("wat").bundle)
            hello = await node.create("hello", built(HELLO).bundle)
            await sent(node, counter, "counter/Add@1", ADD)
            assert await status(node, counter, FLOW, "a") == "suspended"
            await sent(node, hello, "demo/Greet@1", {"name": "Ada"})
            assert await status(node, hello, "demo/greeter@1", "Ada") == "running"
            assert node.status() == "ok"
        finally:
            await close_node(node)
        return counter

    async def installed(counter: str) -> None:
        node = await open_node(config(tmp_path), Runners)
        try:
            verb = Operate(
                node.clock.sample(), "resume", "me", "installed", FLOW, canon.encode("a")
            )
            await node.offer(counter, verb)
            await node.quiet(counter, 60_000)
            assert await status(node, counter, FLOW, "a") == "running"
        finally:
            await close_node(node)

    asyncio.run(installed(asyncio.run(without())))
