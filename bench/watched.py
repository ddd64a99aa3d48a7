"""W9: a tree of files: cold and warm scan, one edit to its decision, a storm, a long queue.

The scans run on the scanner alone, beside the bare reading and hashing of the same files; the edit
and the storm run on a whole node with the usual settle times and the hints that are installed.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import queued
from bench.options import Options

from tallystick.cli.here import modules_of
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.lookout import Lookout
from tallystick.node.node import Node
from tallystick.node.watch_disk import Disk, SystemTime
from tallystick.reactions.bundle import reaction_bundle
from tallystick.reactions.document import load
from tallystick.reactions.ignore import load as load_rules
from tallystick.reactions.observation import Observation
from tallystick.reactions.scan import GRAIN_NS, Scanner
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import EMPTY, Tree, tree_id
from tallystick.reactions.triggers import derive

EDITS: Final = 5
PER_FOLDER: Final = 100
_REACTION: Final = """\
reaction: counter
on: [{files: ["src/**"]}]
writes: {files: ["out/**"]}
cooldown: 0s
actions: [{name: page, file.write: {path: out/page.md, content: "{{ trigger.observed_n }}"}}]
"""


def make_tree(folder: Path, count: int) -> None:
    """So many files of a kibibyte, a hundred in a folder."""
    for at in range(count):
        place = folder / "src" / f"d{at // PER_FOLDER}"
        if at % PER_FOLDER == 0:
            place.mkdir(parents=True, exist_ok=True)
        (place / f"f{at}.txt").write_bytes(b"%d\n" % at + b"x" * 1024)


class Timed(NamedTuple):
    """Seconds by the clock, seconds of this thread's processor time, and the result."""

    secs: float
    cpu_s: float
    found: Any


def timed(act: Callable[[], Any]) -> Timed:
    """Run something once."""
    began, used = time.perf_counter(), time.thread_time()
    found = act()
    return Timed(time.perf_counter() - began, time.thread_time() - used, found)


def raw_read(folder: Path) -> int:
    """Read and hash every file, and nothing else."""
    read = 0
    for place, _, names in os.walk(folder):
        for name in names:
            sha256(Path(place, name).read_bytes()).digest()
            read += 1
    return read


def scans(folder: Path) -> dict[str, Any]:
    """Cold and warm, beside the bare read."""
    clock = SystemTime()
    raw = timed(lambda: raw_read(folder))
    scanner = Scanner(Disk(str(folder)), load_rules())
    cold = timed(lambda: scanner.scan(clock.wall_ns()))
    assert cold.found.hashed == raw.found, "a cold scan reads every file"
    time.sleep(GRAIN_NS / 1e9 + 0.2)  # until then no stamp is old enough to be trusted
    scanner.scan(clock.wall_ns())
    time.sleep(0.05)
    rounds = [timed(lambda: scanner.scan(clock.wall_ns())) for _ in range(5)]
    assert rounds[0].found.hashed == 0, "a warm scan reads none"
    derived = derive_us(cold.found.tree)
    return {
        "files": raw.found,
        "raw_read_s": round(raw.secs, 3),
        "raw_read_cpu_s": round(raw.cpu_s, 3),
        "cold_scan_s": round(cold.secs, 3),
        "cold_scan_cpu_s": round(cold.cpu_s, 3),
        "warm_scan_s": round(statistics.median(each.secs for each in rounds), 4),
        "warm_scan_cpu_s": round(statistics.median(each.cpu_s for each in rounds), 4),
        "derive_us": round(derived.secs / raw.found * 1e6, 1),
        "derive_us_cpu": round(derived.cpu_s / raw.found * 1e6, 1),
    }


def derive_us(tree: Tree) -> Timed:
    """Deriving the triggers of a tree that is all new, for each changed path."""
    seen = Observation(
        world_id="w",
        workspace_id="ws",
        n=1,
        observed_at=0,
        before=EMPTY,
        after=tree,
        definitions=[load(_REACTION, "counter.yaml")],
        stamps=Stamps(),
    )
    done = timed(lambda: derive(seen))
    assert len(done.found.triggers) == 1, "one target, one trigger"
    return done


async def watching(given: Options, folder: Path) -> dict[str, Any]:
    """One edit to its decision, and a storm, on a node."""
    node = await open_node(config_of(given.folder / "data", {}, {}), modules_of())
    try:
        world = await node.create("main", reaction_bundle())
        kept = await node.watching.add(world, folder, "bench", shared=False)
        lookout = node.watching.lookouts[kept.place]
        await lookout.scan()
        await node.watching.trust(kept, (), "bench", follow=True)
        await node.quiet(world, 10_000)
        edits = [await _edit(node, world, folder, at) for at in range(min(EDITS, given.n // 20))]
        storm = await _storm(node, lookout, folder, given.n)
        return {
            "edit_to_decision_ms": round(statistics.median(edits) * 1e3, 1),
            "settle_ms": node.config.watch.settle_ms,
            **storm,
        }
    finally:
        await close_node(node, 1)


async def _edit(node: Node, world: str, folder: Path, at: int) -> float:
    """Seconds from the write of a file to the durable decision about it."""
    began = time.perf_counter()
    after = node.feed.head(world)
    (folder / "src" / "d0" / "f0.txt").write_text(f"edit {at}")
    async for item in node.feed.subscribe(world, after):
        if item.kind == "frame" and b"sys/Decision@1" in item.body.body:
            break
    seconds = time.perf_counter() - began
    await asyncio.sleep(0.5)
    await node.quiet(world, 10_000)
    return seconds


# tidy: one storm, told whole.
async def _storm(node: Node, lookout: Lookout, folder: Path, count: int) -> dict[str, Any]:
    """As many new files as fast as they can be made: batches, lost ones, memory."""
    before = lookout.n
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wanted = len(lookout.watcher.known)

    def create() -> None:
        (folder / "src" / "storm").mkdir()
        for at in range(count):
            (folder / "src" / "storm" / f"{at}.txt").write_text(str(at))

    began = time.perf_counter()
    await asyncio.to_thread(create)
    made_s = time.perf_counter() - began
    until = time.monotonic() + 60
    while len(lookout.watcher.known) < wanted + count + 1:
        assert time.monotonic() < until, "the storm was not taken"
        await lookout.scan()
    taken_s = time.perf_counter() - began
    n = lookout.n
    for _ in range(2):  # what the storm started has to end, and its output has to be seen
        await node.quiet(lookout.kept.world, 10_000)
        await lookout.scan()
    cold = Scanner(Disk(str(folder)), load_rules()).scan(time.time_ns()).tree
    lost = sum(path not in lookout.watcher.known for path in cold)
    return {
        "storm_files": count,
        "storm_create_s": round(made_s, 2),
        "storm_taken_s": round(taken_s, 2),
        "storm_batches": n - before,
        "storm_lost": lost,
        "storm_equals_cold_scan": tree_id(cold) == tree_id(lookout.watcher.known),
        "rss_grown_mb": round(
            (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024, 1
        ),
    }


async def w9(given: Options) -> dict[str, Any]:
    """Scans alone, then the node."""
    folder = given.folder / "ws"
    await asyncio.to_thread(make_tree, folder, given.n)
    figures = await asyncio.to_thread(scans, folder)
    reactions = folder / ".reactions"
    reactions.mkdir()
    (reactions / "counter.yaml").write_text(_REACTION)
    return {**figures, **queued.curve(), **await watching(given, folder)}
