"""W8: playbooks in one node, with an executor that says at once that a step was done.

A parallel loop, a chain of steps and a chain of noops; the journal says what each iteration cost.
A chain of python steps has the real executor, and a sandbox for each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.floor import one_commit_ms
from bench.options import Options

from tallystick.cli.here import modules_of
from tallystick.executors.base import Executor, Job, Ok, Outcome, Repeat, Report
from tallystick.executors.isolate_bubblewrap import bubblewrap
from tallystick.kernel.inputs import Submit
from tallystick.model.frames import open_frame
from tallystick.model.records import Ticked
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.playbooks.bundle import play_bundle
from tallystick.playbooks.document import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

STEPS: Final = 100
TURNS: Final = 5
SHORT_LOOPS: Final = 20
_HEAD: Final = "apiVersion: tally/v1\nkind: Playbook\nmetadata: {name: bench}\n"
_LOOP: Final = _HEAD + (
    "workload: {items: []}\nworkflow:\n"
    "  - step: fan\n"
    "    loop: {in: '{{ workload.items }}', iterator: i,\n"
    "           spec: {mode: parallel, max_in_flight: 32}}\n"
    "    tool: {kind: python, code: x, args: {i: '{{ iter.i }}'}}\n"
)
_ENDS: Final = (b"completed", b"playbook.failed")


class Noop:
    """Performs every step at once."""

    name = "playbook"
    effects = frozenset({"sys/playbook.step@1"})
    repeat: Repeat = "same"
    slots = 10_000

    def at_once(self, job: Job) -> Outcome:
        """Done."""
        del job
        return Ok(
            {
                "status": "ok",
                "result": None,
                "ref": None,
                "size": 1,
                "error": None,
                "patches": {},
                "results": {},
                "tasks": [],
                "frame": None,
                "wish": None,
            }
        )

    async def perform(self, job: Job, report: Report) -> Outcome:
        """Done."""
        del report
        return self.at_once(job)

    async def cancel(self, job: Job) -> None:
        """Nothing to tell."""

    async def close(self) -> None:
        """Nothing to give back."""


class Cost(NamedTuple):
    """One execution: seconds, processor time, commits, and what it wrote."""

    secs: float
    cpu_s: float
    commits: int
    records: int
    journal_bytes: int
    state_bytes: int


@asynccontextmanager
async def playing(folder: Path, *executors: Executor) -> AsyncIterator[tuple[Node, str]]:
    """A node that plays: steps are performed by what is given, or as they are for users."""
    enabled = ["timer"] if executors else ["timer", "playbook", "python"]
    settings: Mapping[str, Any] = {
        "dispatch": {"slots": 10_000},
        "executors": {"enabled": enabled},
    }
    node = await open_node(config_of(folder, settings, {}), modules_of(), executors=executors)
    try:
        yield node, await node.create("main", play_bundle())
    finally:
        await close_node(node, 0)


# tidy: one execution and all of its figures.
async def play(node: Node, world: str, name: str, text: str, **workload: Any) -> Cost:
    """One execution to its end."""
    head, blobs = node.feed.head(world), await _blob_bytes(node, world)
    document = load(
        text
    ).bytes  # whoever sends a playbook has read it; that has a figure of its own
    commits, cpu, begun = _commits(node), process_time(), perf_counter()
    feed = node.feed.subscribe(world, head)
    value: dict[str, Any] = {
        "execution": name,
        "document": document,
        "workload": workload,
        "grants": {"python": {}},
        "principal": "bench",
        "parent": None,
    }
    await node.one(
        world,
        Submit(node.clock.sample(), "sys/PlayRequested@1", value, lens="native", origin="system"),
    )
    async for item in feed:
        if item.kind == "frame" and any(word in item.body.body for word in _ENDS):
            break
    secs, cpu = perf_counter() - begun, process_time() - cpu
    await feed.aclose()  # type: ignore[attr-defined]  # an async generator has it
    commits = _commits(node) - commits
    frames = await node.read(lambda reader: [f for f in reader.read(world) if f.seq > head])
    records = [record for frame in frames for record in open_frame(frame.body)[3]]
    sizes = [record.size for record in records if isinstance(record, Ticked)]
    # Pages of results leave the state as blobs, which the journal holds as well as its frames.
    wrote = sum(len(f.body) for f in frames) + await _blob_bytes(node, world) - blobs
    return Cost(secs, cpu, commits, len(records), wrote, max(sizes, default=0))


async def _blob_bytes(node: Node, world: str) -> int:
    return await node.read(lambda reader: sum(size for _, size in reader.blobs(world)))


def _commits(node: Node) -> int:
    lines = node.metrics.text().splitlines()
    return sum(
        int(line.split()[-1]) for line in lines if line.startswith("tally_commit_seconds_count")
    )


def chain(count: int, tool: str) -> str:
    """A playbook of steps one after the other."""
    steps = [
        f"  - {{step: s{i}, tool: {tool}, next: {{arcs: [{{step: s{j}}}]}}}}\n"
        for i, j in pairwise(range(count))
    ]
    return _HEAD + "workflow:\n" + "".join(steps) + f"  - {{step: s{count - 1}, tool: {tool}}}\n"


async def _chains(node: Node, world: str, given: Options) -> list[tuple[Cost, float, float]]:
    """Chains and commits by turns: what each took, and the chain as a multiple of its commits."""
    text = chain(STEPS, "{kind: python, code: x}")
    await play(node, world, "chain", text)
    found = []
    for turn in range(TURNS):
        before = one_commit_ms(given.folder, STEPS)
        cost = await play(node, world, f"chain{turn}", text)
        commit = (before + one_commit_ms(given.folder, STEPS)) / 2
        found.append((cost, round(commit, 3), cost.secs * 1e3 / (commit * 2 * STEPS)))
    return found


def _load_ms() -> float:
    """What reading and judging the document of a chain costs, before anything runs."""
    text = chain(STEPS, "{kind: python, code: x}")
    took = []
    for _ in range(TURNS):
        begun = process_time()
        load(text)
        took.append(process_time() - begun)
    return round(min(took) * 1e3, 1)


async def _small(node: Node, world: str, name: str, count: int) -> float:
    """Processor seconds of an iteration of short loops.

    As many of them as bring their share of what a node does now and then, such as snapshots.
    """
    cpu_s = 0.0
    for turn in range(SHORT_LOOPS):
        items = list(range(count))
        cpu_s += (await play(node, world, f"{name}{turn}", _LOOP, items=items)).cpu_s
    return cpu_s / SHORT_LOOPS / count


async def _python_s(folder: Path) -> float | None:
    """Seconds of a chain of python steps, each in a sandbox; None where there is none."""
    if bubblewrap() is None:
        return None
    text = chain(STEPS, "{kind: python, code: 'result = 1'}")
    async with playing(folder / "python") as (node, world):
        await play(node, world, "warm", chain(2, "{kind: python, code: 'result = 1'}"))
        return round((await play(node, world, "python", text)).secs, 2)


# tidy: one answer, all of its figures.
async def w8(given: Options) -> dict[str, Any]:
    """A parallel loop of n, 32 in flight; ten times and a tenth of it; chains of 100 steps."""
    tenth = max(1, given.n // 10)
    async with playing(given.folder, Noop()) as (node, world):
        await play(node, world, "warm", _LOOP, items=list(range(100)))
        before = await _small(node, world, "before", tenth)
        loop = await play(node, world, "loop", _LOOP, items=list(range(given.n)))
        large = await play(node, world, "large", _LOOP, items=list(range(given.n * 10)))
        after = await _small(node, world, "after", tenth)
        chains = await _chains(node, world, given)
        await play(node, world, "noops0", chain(STEPS, "{kind: noop}"))
        noops = await play(node, world, "noops", chain(STEPS, "{kind: noop}"))
    linked, commit, ratio = sorted(chains, key=lambda each: each[2])[len(chains) // 2]
    costs = {
        "small": (before + after) / 2,
        "loop": loop.cpu_s / given.n,
        "large": large.cpu_s / given.n / 10,
    }
    return {
        "iterations_per_s": round(given.n / loop.secs, 1),
        "secs": round(loop.secs, 3),
        "us_cpu": round(costs["loop"] * 1e6, 1),
        "us_cpu_small": round(costs["small"] * 1e6, 1),
        "us_cpu_large": round(costs["large"] * 1e6, 1),
        "large_per_s": round(given.n * 10 / large.secs, 1),
        "records_per_iteration": round(loop.records / given.n, 2),
        "commits_per_iteration": round(loop.commits / given.n, 3),
        "journal_bytes_per_iteration": round(loop.journal_bytes / given.n),
        "state_bytes": max(loop.state_bytes, large.state_bytes),
        "chain_ms": round(linked.secs * 1e3, 1),
        "chain_commits": linked.commits,
        "chain_records": linked.records,
        "commit_ms": commit,
        "chain_to_commits": round(ratio, 2),
        "chain_to_commits_all": [round(each[2], 2) for each in chains],
        "chain_us_cpu": round(min(each[0].cpu_s for each in chains) / STEPS * 1e6, 1),
        "load_ms": _load_ms(),
        "noops_ms": round(noops.secs * 1e3, 1),
        "python_s": await _python_s(given.folder),
    }
