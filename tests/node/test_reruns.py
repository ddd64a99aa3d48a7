"""Re-runs beside the node's work: other worlds go on, and none runs for ever."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Rejected
from tallystick.governance.whatif import read_edits
from tallystick.kernel.index import Blobs
from tallystick.kernel.roots import root, state_root
from tallystick.modules.python import PythonRunner
from tallystick.node import reruns, whatif
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.node.worlds import ForkOrder, world_at
from tests import orders
from tests.node.rig import Bank, config, phase, placed

PATIENCE_S = 60.0
SOON_S = 1.0


class Gate:
    """While it is shut, runners are made whose ticks wait for it."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        self.open.set()

    def runner(self, _blobs: Blobs) -> PythonRunner:
        known: Any = orders.FUNCTIONS
        if not self.open.is_set():
            known = {name: self._waiting(function) for name, function in known.items()}
        return PythonRunner(known)

    def _waiting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def tick(*args: Any) -> Any:
            self.reached.set()
            while not self.open.wait(0.02):
                pass
            return function(*args)

        return tick

    async def is_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, PATIENCE_S)


class Scene:
    """A node with a world that has some history, and another world."""

    def __init__(self, node: Node, first: str, other: str, seq: int) -> None:
        self.node = node
        self.first = first
        self.other = other
        edits = read_edits([{"seq": seq, "event": {"order_id": "a", "cents": 9}}])
        self.order = ForkOrder(first, "", principal="alice", edits=edits)

    async def worlds(self) -> int:
        return len(await self.node.read(lambda reader: reader.worlds()))

    async def serves_the_other(self, within_s: float = PATIENCE_S) -> bool:
        """True when an event of the other world is decided in time."""
        offered = asyncio.create_task(self.node.one(self.other, placed(self.node, "z")))
        done, _ = await asyncio.wait([offered], timeout=within_s)
        return bool(done)


@asynccontextmanager
async def scene(base: Path, gate: Gate) -> AsyncIterator[Scene]:
    node = await open_node(config(base), gate.runner, executors=[Bank()])
    try:
        first = await node.create("first", orders.bundle())
        other = await node.create("other", orders.bundle())
        answer = await node.one(first, placed(node, "a"))
        for name in ("b", "c"):
            await node.one(first, placed(node, name))
        assert await node.quiet(first, 60_000)
        yield Scene(node, first, other, answer.seq)
    finally:
        gate.open.set()
        await close_node(node)


@pytest.mark.clause("X-08")
def test_other_worlds_go_on_meanwhile(tmp_path: Path) -> None:
    """06 section 11: while a what-if is in the middle of a tick, another world is served; its own
    ticks are the same as ever, and the journal of it folds to the same root.
    """

    async def main() -> None:
        gate = Gate()
        async with scene(tmp_path, gate) as given:
            node = given.node
            gate.open.clear()
            idea = asyncio.create_task(node.fork(given.order, "idea"))
            await gate.is_reached()
            assert await given.serves_the_other()
            assert await given.serves_the_other(), "and not only once"
            assert not idea.done()
            gate.open.set()
            world = await idea
            assert await phase(node, world, "a") == "paid"
            live = await node.look(world, root)
            runner = PythonRunner(orders.FUNCTIONS)
            fold = await node.read(lambda reader: root(world_at(reader, world, runner)))
            assert live == fold

    asyncio.run(asyncio.wait_for(main(), 240))


def test_control_on_the_kernels_thread_all_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """06 section 11, control: the same what-if on the kernel's thread keeps the other waiting."""

    async def main() -> None:
        gate = Gate()
        async with scene(tmp_path, gate) as given:
            node = given.node

            async def run(ask: Any, _limit_s: float) -> Any:
                return await node.on_kernel(lambda: ask(node.reader, lambda: False))

            monkeypatch.setattr(node.reruns, "run", run)
            gate.open.clear()
            idea = asyncio.create_task(node.fork(given.order, "idea"))
            await gate.is_reached()
            assert not await given.serves_the_other(SOON_S)
            gate.open.set()
            await idea

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("X-08")
def test_pages_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """06 section 11: a what-if of many pages is there after a restart, as it was, and says in the
    node's log how far it came.
    """
    monkeypatch.setattr(whatif, "PAGE", 2)
    monkeypatch.setattr(whatif, "_NEWS_S", -1.0)

    async def main() -> None:
        gate = Gate()
        async with scene(tmp_path, gate) as given:
            world = await given.node.fork(given.order, "idea")
            before = await given.node.look(world, state_root)
            assert (await given.node.ops.verify(world))["ok"]
        node = await open_node(config(tmp_path), gate.runner, executors=[Bank()])
        try:
            assert node.resolve("idea") == world
            assert await node.look(world, state_root) == before
        finally:
            await close_node(node)

    asyncio.run(asyncio.wait_for(main(), 240))
    (log,) = tmp_path.rglob("node.jsonl")
    lines = log.read_text("utf-8").splitlines()
    said = [line for line in map(json.loads, lines) if line["code"] == "whatif.running"]
    assert said
    assert said[-1]["of"] >= said[-1]["inputs"]


# tidy: one story, told in order.
@pytest.mark.clause("X-08")
def test_what_takes_too_long_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """06 section 11: over its ticks or its time a what-if is refused, also in a tick that never
    ends; one that nobody waits for ends; no world is left of any, and the next one is served.
    """

    async def main() -> None:
        gate = Gate()
        async with scene(tmp_path, gate) as given:
            node, count = given.node, await given.worlds()
            with monkeypatch.context() as patch:
                patch.setattr(whatif, "TICKS_MAX", 1)
                assert await refused(given) == "rerun.too_long"
            gate.open.clear()
            with monkeypatch.context() as patch:
                patch.setattr(reruns, "SECONDS", 0.2)
                assert await refused(given) == "rerun.too_long"
            gate.reached.clear()
            idea = asyncio.create_task(node.fork(given.order, "idea"))
            await gate.is_reached()
            idea.cancel()
            await asyncio.wait([idea])
            assert idea.cancelled()
            gate.open.set()
            assert await given.worlds() == count
            world = await node.fork(given.order, "idea")
            assert await phase(node, world, "a") == "paid"

    async def refused(given: Scene) -> str:
        with pytest.raises(Rejected) as caught:
            await given.node.fork(given.order, "idea")
        return caught.value.code

    asyncio.run(asyncio.wait_for(main(), 240))
