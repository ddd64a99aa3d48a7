"""Figures of a machine: commits of the disk, events and ticks of a node, in a folder of its own.

Each figure is taken with the parts that ship: the journal with its syncs, the node, its threads.
`paced` is what the figure would be on the machine of the goals, by the pace taken around it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import apsw

from tallystick.cli import measure_upgrade
from tallystick.cli.here import modules_of
from tallystick.cli.init import template
from tallystick.cli.measure_admit import admit_figure
from tallystick.cli.pace import cpu_pace
from tallystick.kernel.inputs import Submit
from tallystick.modules.source import bundle_of
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node

EVENT: Final = "demo/Greet@1"
BATCH: Final = 100
GUESTS: Final = 64
PROBE_S: Final = 0.25

TIMES: Final = ("us",)
BY_DISK: Final = ("commits/s", "ms")

Row = dict[str, Any]


def measure(
    base: Path, wanted: Sequence[str], *, quick: bool, say: Callable[[str], None]
) -> list[Row]:
    """The wanted figures, in the order of their names in `FIGURES`."""
    rows: list[Row] = []
    for name, (figure, full, few) in FIGURES.items():
        if name in wanted:
            say(f"measuring {name} ...")
            with TemporaryDirectory(prefix=".tally-bench-", dir=base) as folder:
                before = cpu_pace(PROBE_S)
                row = figure(Path(folder), few if quick else full)
                pace = row.pop("pace", None) or (before + cpu_pace(PROBE_S)) / 2
                rows.append({"name": name, **row, "paced": _paced(row, pace)})
    return rows


def _paced(row: Row, pace: float) -> float | None:
    """The figure at the pace of one; none where the disk decides it."""
    if row["unit"] in BY_DISK:
        return None
    value: float = row["value"]
    return round(value * pace if row["unit"] in TIMES else value / pace, 1)


def _row(value: float, unit: str, n: int, says: str) -> Row:
    return {"value": round(value, 1), "unit": unit, "n": n, "says": says}


def _disk(folder: Path, n: int) -> Row:
    """Commits of one small row each, every one synced: what no node on this disk can exceed."""
    db = apsw.Connection(str(folder / "disk.db"))
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE t(body BLOB)")
        begun = time.perf_counter()
        for _ in range(n):
            db.execute("INSERT INTO t VALUES(?)", (b"x" * 200,))
        return _row(n / (time.perf_counter() - begun), "commits/s", n, "one synced row each")
    finally:
        db.close()


def _lone(folder: Path, n: int) -> Row:
    times: list[float] = []

    async def act(node: Node, world: str) -> None:
        for number in range(n):
            begun = time.perf_counter()
            await node.offer(world, _event(node, number))
            times.append(time.perf_counter() - begun)

    _with_node(folder, act)
    return _row(median(times) * 1e3, "ms", n, "one event, alone, until it is durable: median")


def _batch(folder: Path, n: int) -> Row:
    spent = 0.0

    async def act(node: Node, world: str) -> None:
        nonlocal spent
        begun = time.perf_counter()
        for first in range(0, n, BATCH):
            await node.offer(world, *(_event(node, first + i) for i in range(BATCH)))
        await node.quiet(world, 60_000)
        spent = time.perf_counter() - begun

    _with_node(folder, act)
    return _row(n / spent, "events/s", n, f"{BATCH} a commit, each with its tick")


def _ticks(folder: Path, n: int) -> Row:
    found: Row = {}

    async def act(node: Node, world: str) -> None:
        for first in range(0, n, BATCH):
            await node.offer(world, *(_event(node, first + i) for i in range(BATCH)))
        await node.quiet(world, 60_000)
        found.update(await node.ops.replay(world))

    _with_node(folder, act)
    return _row(found["ticks_per_s"], "ticks/s", found["ticks"], "every tick again, bytes compared")


def _event(node: Node, number: int) -> Submit:
    return Submit(node.clock.sample(), EVENT, {"name": f"guest-{number % GUESTS}"}, "native")


def _with_node(folder: Path, act: Callable[[Node, str], Any]) -> None:
    config = config_of(folder, {}, {})
    files = {"app.py": template("hello")["app.py"].encode()}

    async def run() -> None:
        node = await open_node(config, modules_of(config))
        try:
            await act(node, await node.create("main", bundle_of(files)))
        finally:
            await close_node(node, 0)

    asyncio.run(run())


def _admit(folder: Path, n: int) -> Row:
    says = "one effect under 20 rules and 3 flows: median"
    found = admit_figure(folder, n)
    return {**_row(found.us, "us", n, says), "pace": found.cpu}


FIGURES: Final[dict[str, tuple[Callable[[Path, int], Row], int, int]]] = {
    "disk": (_disk, 2_000, 100),
    "lone": (_lone, 1_000, 50),
    "batch": (_batch, 50_000, 1_000),
    "ticks": (_ticks, 20_000, 1_000),
    "admit": (_admit, 20_000, 1_000),
    "prove": (measure_upgrade.prove, 100_000, 100),
    "fork": (measure_upgrade.fork, 1_000_000, 500),
}
