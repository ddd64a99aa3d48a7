"""Executions in a real node over a real folder, with the executors that people use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tallystick.executors.base import Executor
from tallystick.kernel.inputs import Submit
from tallystick.model.cells import CellId
from tallystick.modules.builtin import Builtin
from tallystick.modules.runners import Library, Runners
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.playbooks.bundle import WORKFLOW, play_bundle
from tallystick.playbooks.document import load
from tallystick.playbooks.values import Values, plain
from tallystick.playbooks.written import whole_of
from tallystick.values import canon

ENABLED = ["timer", "http", "blob", "file", "sql", "llm", "human", "python", "shell", "playbook"]
LOOPBACK = {"cidrs": ["127.0.0.0/8"]}
GRANTS: Mapping[str, Any] = {
    "python": {},
    "http": LOOPBACK,
    "shell": {},
    "file": {},
    "sql": {},
    "llm": {},
}


def lanes(blobs: Any) -> Runners:
    """The runner of a world, with the lane of built-in modules."""
    return Runners(blobs, library=Library(), lanes={"builtin": Builtin()})


@asynccontextmanager
async def playing(
    base: Path, *executors: Executor, enabled: Sequence[str] = ENABLED, **sections: Any
) -> AsyncIterator[tuple[Node, str]]:
    """A node with one world that plays."""
    settings = {"executors": {"enabled": list(enabled), **sections.pop("executors", {})}}
    node = await open_node(
        config_of(base, {**settings, **sections}, {}), lanes, executors=executors
    )
    try:
        known = node.worlds()
        world = known["main"] if "main" in known else await node.create("main", play_bundle())
        yield node, world
    finally:
        await close_node(node)


class Ended(NamedTuple):
    """What an execution looks like: its net, and its values read."""

    net: dict[str, Any]
    ctx: dict[str, Any]
    results: dict[str, Any]

    @property
    def status(self) -> str | None:
        return self.net["status"]

    @property
    def runs(self) -> dict[str, int]:
        return dict(self.net["counts"]["step_runs"])


async def request(
    node: Node, world: str, text: str, *, name: str = "e1", workload: Any = None, grants: Any = None
) -> None:
    """Ask for an execution, as the commands do."""
    value = {
        "execution": name,
        "document": load(text).bytes,
        "workload": workload or {},
        "grants": dict(GRANTS if grants is None else grants),
        "principal": "ana",
        "parent": None,
    }
    await send(node, world, "sys/PlayRequested@1", value)


async def send(node: Node, world: str, schema: str, value: Any) -> None:
    """A system input."""
    given = Submit(node.clock.sample(), schema, value, lens="native", origin="system")
    await node.one(world, given)


async def net_of(node: Node, world: str, name: str = "e1") -> dict[str, Any] | None:
    """The net of an execution as it stands."""
    key = canon.encode(name)

    def ask(live: Any) -> bytes | None:
        cell = live.cell(CellId(WORKFLOW, key))
        return None if cell is None else live.state_of(cell)

    data = await node.look(world, ask)
    if data is None:
        return None
    state = canon.decode(data)

    def read(reader: Any) -> dict[str, Any]:
        found = whole_of(state, lambda text: reader.blob(world, canon.raw_of(text)))
        net: dict[str, Any] = found["net"]
        return net

    return state["net"] or await node.read(read)


async def until(
    node: Node, world: str, *phases: str, name: str = "e1", seconds: float = 60
) -> dict[str, Any]:
    """Wait until an execution is in one of some phases."""
    end = asyncio.get_running_loop().time() + seconds
    while True:
        net = await net_of(node, world, name)
        if net is not None and net["phase"] in phases:
            return net
        assert asyncio.get_running_loop().time() < end, net
        await asyncio.sleep(0.01)


async def ended(node: Node, world: str, name: str = "e1", seconds: float = 60) -> Ended:
    """Wait for the end, and read what the execution kept."""
    net = await until(node, world, "done", name=name, seconds=seconds)

    def read(reader: Any) -> Ended:
        values = Values(lambda text: reader.blob(world, canon.raw_of(text)))
        ctx = {key: plain(values.read(row["v"])) for key, row in net["ctx"].items()}
        results = {key: plain(values.read(row["v"])) for key, row in net["results"].items()}
        return Ended(net, ctx, results)

    return await node.read(read)


async def played(base: Path, text: str, **more: Any) -> Ended:
    """One execution from beginning to end in a node of its own."""
    async with playing(base) as (node, world):
        await request(node, world, text, **more)
        return await ended(node, world)
