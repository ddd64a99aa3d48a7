"""Figures of upgrades: verdicts on parked cells, and what a fork of many cells costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.cli.here import modules_of
from tallystick.journal.sqlite import SqliteJournal
from tallystick.kernel.inputs import Submit
from tallystick.modules.source import bundle_of
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.node.proofs import prove_on
from tallystick.node.rehearsal import Rehearsal
from tallystick.node.worlds import ForkOrder

TICKS: Final = 8
BATCH: Final = 500
EVENT: Final = "parked/Step@1"
SOURCE: Final = """
from tallystick import Bundle, Ctx, Record
app = Bundle("parked")
class Step(Record):
    key: str
    n: int
class Total(Record):
    steps: int = 0
    total: int = 0
@app.workflow(key="key")
def parked(state: Total | None, event: Step, ctx: Ctx) -> Total:
    held = state or Total()
    return held.replace(steps=held.steps + 1, total=held.total + event.n)
"""

Act = Callable[[Node, str], Awaitable[None]]


class Proved(NamedTuple):
    """How long verdicts took, on how many cells, by running how many ticks."""

    seconds: float
    cells: int
    ticks: int


class Forked(NamedTuple):
    """How long a fork took, and how many bytes the journal has more."""

    seconds: float
    bytes: int


def prove(folder: Path, n: int) -> dict[str, Any]:
    """Verdicts on n parked cells of eight ticks each, under code that does the same."""
    found = proved(folder, n)
    assert found.cells == n, "every cell does the same under the same code"
    says = f"verdicts a second, {TICKS} ticks each; {found.seconds:.1f} s in all"
    return {"value": round(n / found.seconds, 1), "unit": "cells/s", "n": n, "says": says}


def proved(folder: Path, n: int) -> Proved:
    """Park n cells and ask for a verdict on each; how many are identical."""
    made: list[Proved] = []
    # Another text with the same meaning: nothing is proved by its hash, every tick is run.
    candidate = bundle_of({"app.py": (SOURCE + "OTHER = 1\n").encode()})

    async def act(node: Node, world: str) -> None:
        await _fill(node, world, n, TICKS)
        await node.snapshot(world)
        begun = time.perf_counter()
        report = (await prove_on(node, world, Rehearsal(candidate))).report
        seconds = time.perf_counter() - begun
        made.append(Proved(seconds, report["verdicts"]["identical"], report["ticks"]))

    _with_node(folder, act)
    return made[0]


def fork(folder: Path, n: int) -> dict[str, Any]:
    """The time to fork a world of n cells, and the bytes that this writes."""
    seconds, size = forked(folder, n)
    says = f"ms for one fork, {size} bytes more on disk"
    return {"value": round(seconds * 1e3, 1), "unit": "ms", "n": n, "says": says}


def forked(folder: Path, n: int) -> Forked:
    """Fork a world of n cells, all of which the fork has and the parent keeps."""
    made: list[Forked] = []

    async def act(node: Node, world: str) -> None:
        await _fill(node, world, n, 1)
        await node.snapshot(world)
        before = await node.read(lambda reader: reader.head(world).seq)
        # What was written before must not come home while it is measured what the fork writes.
        while await node.write(_brought_home):  # noqa: ASYNC110 - a reader may need old pages
            await asyncio.sleep(0.1)
        size = _size(folder)
        begun = time.perf_counter()
        child = await node.fork(ForkOrder(world, ""), "other")
        made.append(Forked(time.perf_counter() - begun, _size(folder) - size))
        assert await node.look(child, lambda live: live.cell_count) == n
        assert await node.read(lambda reader: reader.head(world).seq) == before

    _with_node(folder, act)
    return made[0]


def _brought_home(journal: SqliteJournal) -> int:
    """The bytes of the log that are not in the journal's file yet."""
    return journal.wal_checkpoint(idle=True)


def _size(folder: Path) -> int:
    """The bytes of the journal and of its log."""
    files = (f for f in folder.rglob("*") if f.is_file() and f.name.startswith("tally.db"))
    return sum(f.stat().st_size for f in files if not f.name.endswith("-shm"))


async def _fill(node: Node, world: str, cells: int, rounds: int) -> None:
    events = [(f"c{cell}", n) for n in range(rounds) for cell in range(cells)]
    for first in range(0, len(events), BATCH):
        batch = events[first : first + BATCH]
        given = (
            Submit(node.clock.sample(), EVENT, {"key": key, "n": n}, "native") for key, n in batch
        )
        await node.offer(world, *given)
    await node.quiet(world, 600_000)


def _with_node(folder: Path, act: Act) -> None:
    config = config_of(folder, {}, {})

    async def run() -> None:
        node = await open_node(config, modules_of())
        try:
            world = await node.create("main", bundle_of({"app.py": SOURCE.encode()}))
            await act(node, world)
        finally:
            await close_node(node, 0)

    asyncio.run(run())
