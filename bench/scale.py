"""Growth: what a tick, a snapshot, a fork, an opening and a parked cell cost among many cells.

Cells are made by real events and parked by snapshots in the product's own tables.
At each size, ticks go to new cells, to cells picked at random among all (cold: read from the
index), and to a few that stay in use (hot).
The cache of cells is small, and a snapshot stands between two rounds: else all of a thousand cells
would be in memory, and cold only where there are many.
The worlds of all sizes stand side by side, and their ticks are taken in turns, so that a busy
moment of the machine falls on every size alike.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from time import perf_counter_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import counter, fanout, intents
from bench.disk import DiskJournal
from bench.kernel import SAMPLE, Loop
from bench.windows import Stopwatch, rss_bytes

from tallystick.journal.sqlite_read import SqliteReader
from tallystick.kernel import tick
from tallystick.kernel.inputs import Submit
from tallystick.kernel.machine import advance, submit
from tallystick.kernel.world import Settings
from tallystick.model.cells import CellId
from tallystick.node.host import calm_collector
from tallystick.node.worlds import ForkOrder, fork_world, open_driver, world_at
from tallystick.values import canon
from tests.rig import WORLD, Rig

CHUNK = 50_000  # cells between two snapshots
TOUCHED = 20_000  # ticks of a fresh process: enough to fill its caches
DIRTY = 1_000
ROUNDS = 20
TICKS = 100  # of each kind, at each size, in each round
HOT = 100
CACHED = 32  # cells in memory that are clean: so few that none of a thousand is met again
INTENTS_MAX = 100_000
KINDS = ("hot", "new", "cold")


def settled_rss() -> int:
    """Memory after everything that can be given back has been."""
    gc.collect()
    with suppress(OSError):  # another C library: the figure is an upper bound
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return rss_bytes()


class Field:
    """A world of counters over a file, and how many there are."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder / f"scale-{size}"
        self.journal = DiskJournal(self.folder)
        self.rig = Rig(
            counter.documents(),
            counter.FUNCTIONS,
            settings=Settings(cell_cache=CACHED),
            journal=self.journal,  # type: ignore[arg-type]  # the same contract on disk
        )
        self.loop = Loop(self.rig)
        self.size = size
        self.cells = 0
        self.rng = Random(7)
        self.watches = {kind: Stopwatch(20) for kind in KINDS}
        self.reads = self.visits = 0  # nodes that were read for so many cold cells

    def add(self, number: int) -> None:
        """An event to one counter."""
        value = {"name": f"c-{number}", "by": 1}
        self.loop.take(submit(self.rig.world, Submit(SAMPLE, counter.ADDED, value)))
        self.loop.take(advance(self.rig.world))

    def park(self) -> float:
        """Make everything durable and clean; seconds of the snapshot."""
        self.loop.flush()
        begin = perf_counter_ns()
        ticket = self.rig.driver.snapshot()
        took = perf_counter_ns() - begin
        assert ticket.error is None, str(ticket.error)
        return took / 1e9

    def grow(self) -> None:
        """New cells up to its size, parked chunk by chunk."""
        while self.cells < self.size:
            for _ in range(min(CHUNK, self.size - self.cells)):
                self.add(self.cells)
                self.cells += 1
            self.park()

    def ticks(self, turn: int) -> None:
        """One round of ticks of each kind; in the first the caches are filled, and none counts."""
        self.park()
        hot = min(HOT, self.size // 4)
        for number in range(hot):
            self.add(number)
        numbers = {
            "hot": [n % hot for n in range(TICKS)],
            "new": [10**9 + turn * TICKS + n for n in range(TICKS)],
            "cold": self.rng.sample(range(hot, self.size), min(TICKS, self.size - hot)),
        }
        for kind in KINDS:
            watch = self.watches[kind]
            before = self.journal.reads
            watch.go_on()
            for number in numbers[kind]:
                self.add(number)
                watch.add(1)
            watch.rest()
        self.reads += self.journal.reads - before  # the last kind is the one that reads
        self.visits += len(numbers["cold"])

    def begin(self) -> None:
        """Forget what the first round took."""
        self.watches = {kind: Stopwatch(20) for kind in KINDS}
        self.reads = self.visits = 0


def snapshot_of(field: Field) -> dict[str, Any]:
    """What a snapshot of some dirty cells costs and writes."""
    before = field.journal.counts()["blobs"]
    dirty = min(DIRTY, field.size // 10)
    for number in field.rng.sample(range(field.size), dirty):
        field.add(number)
    seconds = field.park()
    written = field.journal.counts()["blobs"] - before
    return {"dirty": dirty, "ms": round(seconds * 1e3, 1), "blobs": written, "before": before}


def grown(fields: list[Field]) -> list[dict[str, Any]]:
    """All figures of each size; ticks are taken of all sizes in turns."""
    snapshots = []
    for field in fields:
        field.grow()
        snapshots.append(snapshot_of(field))
    for turn in range(ROUNDS + 1):
        for field in fields:
            field.ticks(turn)
            if turn == 0:
                field.begin()
    return [at_size(*pair) for pair in zip(fields, snapshots, strict=True)]


def at_size(field: Field, snapshot: dict[str, Any]) -> dict[str, Any]:
    """All figures at one number of cells."""
    field.park()
    size = field.size
    ticks = {f"tick_{kind}": field.watches[kind].stop().report() for kind in KINDS}
    return {
        "cells": size,
        "records": field.rig.world.seq,
        "memory": parked(field, size),
        "dirty_entries": len(field.rig.world.cells[counter.COUNTER].delta),
        **ticks,
        "cold_reads": round(field.reads / field.visits, 2),
        "snapshot": {name: snapshot[name] for name in ("dirty", "ms", "blobs")},
        "blobs": snapshot["before"],
        "fork": fork(field, size),
        "open_ms": opened(field),
    }


def parked(field: Field, size: int) -> dict[str, Any]:
    """Memory of a fresh process that opens the world and visits cells at random."""
    field.journal.settle()
    command = [sys.executable, __file__, "--open", str(field.folder), "--cells", str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def visit(folder: Path, size: int) -> dict[str, Any]:
    """Open a world of so many cells, fill its caches, and say what that took.

    It writes to nowhere: the world runs ahead of its journal and ends here.
    """
    rig = Rig(counter.documents(), counter.FUNCTIONS)
    reader = SqliteReader(folder)
    empty = settled_rss()
    world = world_at(reader, WORLD, rig.runner)
    served = settled_rss()
    rng = Random(11)
    for _ in range(min(TOUCHED, 2 * size)):
        world.cell(CellId(counter.COUNTER, canon.encode(f"c-{rng.randrange(size)}")))
    full = settled_rss()
    assert world.cell_count >= size
    return {
        "cached_cells": world.settings.cell_cache,
        "cached_nodes": world.settings.node_cache,
        "mb_before": round(empty / 2**20, 1),
        "mb_open": round(served / 2**20, 1),
        "mb_visited": round(full / 2**20, 1),
    }


def fork(field: Field, size: int) -> dict[str, Any]:
    """Milliseconds and writes of a fork at the head."""
    before = field.journal.counts()
    begin = perf_counter_ns()
    fork_world(field.rig.ports(), ForkOrder(WORLD, f"fork-{size}"), field.rig.runner)
    took = perf_counter_ns() - begin
    after = field.journal.counts()
    made = {f"{name}_written": after[name] - before[name] for name in after}
    return {"ms": round(took / 1e6, 1), **made}


def opened(field: Field) -> float:
    """Milliseconds until the world serves again after its snapshot."""
    begin = perf_counter_ns()
    driver = open_driver(field.rig.ports(), WORLD, field.rig.runner)
    took = perf_counter_ns() - begin
    assert driver.world.cell_count == field.rig.world.cell_count
    # The writer's epoch moved on; the field goes on as that writer.
    field.rig.driver.head = field.rig.driver.head._replace(epoch=driver.head.epoch)
    return round(took / 1e6, 1)


def measure(sizes: list[int], children: list[int]) -> dict[str, Any]:
    """Growth at each size, and joins of each width."""
    calm_collector()  # as a node has it
    with tempfile.TemporaryDirectory() as folder:
        fields = [Field(Path(folder), size) for size in sizes]
        rows = grown(fields)
        for field in fields:
            field.journal.close()
    return {
        "path": "pure" if str(tick.__file__).endswith(".py") else "compiled",
        "sizes": rows,
        "joins": [{"children": n, **fanout.join(n).report()} for n in children],
        "intents": intents.growth([size for size in sizes if size <= INTENTS_MAX]),
    }


def numbers(text: str) -> list[int]:
    """A list of sizes as it is written on the command line."""
    return [int(float(part)) for part in text.split(",")]


def main() -> int:
    """Print the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description="growth benchmarks on one path")
    parser.add_argument("--cells", type=numbers, default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--children", type=numbers, default=[1000, 10_000])
    parser.add_argument("--open", type=Path, help="only open this folder of so many cells")
    given = parser.parse_args()
    if given.open is not None:
        print(json.dumps(visit(given.open, given.cells[0])))
    else:
        print(json.dumps(measure(given.cells, given.children)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
