"""W1, W2, W3, W5 and W6: instances in one process, from their first event to their end."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from contextlib import suppress
from time import perf_counter
from typing import Any

from bench.floor import one_commit_ms, to_limit
from bench.hosted import Ends, Noop, node_in, send
from bench.options import Options, cpu_s, latency, rss_mb

from tallystick.kernel.world import World
from tallystick.node.node import Node

STEPS = 3
LINKS = 40
_BATCH = 500
_COMMITS = "tally_commit_seconds_count"


async def w1(given: Options) -> dict[str, Any]:
    """Throughput: independent instances of three durable steps, some in flight at a time."""
    async with node_in(given.folder, Noop()) as (node, world):
        warm = min(200, given.n)
        await _chains(node, world, "warm", warm, given)
        commits, cpu = _commits(node), cpu_s()
        begun = perf_counter()
        await _chains(node, world, "i", given.n, given)
        took, cpu = perf_counter() - begun, cpu_s() - cpu
        every = _commits(node)
        frames = await node.read(lambda reader: list(reader.read(world)))
    journal = (given.folder / ".tally" / "tally.db").stat().st_size
    floor = to_limit(frames, given.folder, given.n + warm)
    return {
        "completed": given.n,
        "secs": round(took, 3),
        "wf_per_s": round(given.n / took, 1),
        "steps_per_s": round(given.n * STEPS / took, 1),
        "cpu_s": round(cpu, 2),
        "us_cpu": round(cpu / given.n * 1e6, 1),
        **floor,
        "to_l1": round(given.n / took / floor["l1_per_s"], 3),
        "to_l1_cpu": round(floor["l1_us_cpu"] / (cpu / given.n * 1e6), 3),
        "commits": every - commits,
        "commits_all": every,
        "bytes_per_instance": round(journal / (given.n + warm)),
    }


async def _chains(node: Node, world: str, name: str, count: int, given: Options) -> None:
    """Run so many instances to their end; as many in flight as were asked for."""
    numbers = iter(range(count))
    waiting: set[asyncio.Task[int]] = set()

    def start() -> None:
        number = next(numbers, None)
        if number is not None:
            event = send(node, world, "Start", name=f"{name}-{number}", steps=STEPS)
            task = asyncio.create_task(event)
            waiting.add(task)
            task.add_done_callback(waiting.discard)

    ends = Ends(node, world, start)
    try:
        for _ in range(given.conc):
            start()
        await ends.reach(count, given.limit_s)
    finally:
        await ends.close()


def _commits(node: Node) -> int:
    """How many commits there were, as the node itself counts them."""
    lines = node.metrics.text().splitlines()
    return sum(int(line.split()[-1]) for line in lines if line.startswith(_COMMITS))


async def w2(given: Options) -> dict[str, Any]:
    """Latency: one instance of one step at a time, from the event to its durable end."""
    return await _one_by_one(given, 1)


async def w6(given: Options) -> dict[str, Any]:
    """A chain: forty steps in sequence, one instance at a time."""
    return await _one_by_one(given, LINKS)


async def _one_by_one(given: Options, steps: int) -> dict[str, Any]:
    took: list[float] = []
    async with node_in(given.folder, Noop()) as (node, world):
        ends = Ends(node, world)
        for number in range(-5, given.n):
            begun = perf_counter()
            await send(node, world, "Start", name=f"i{number}", steps=steps)
            await ends.reach(number + 6, given.limit_s)
            if number >= 0:
                took.append(perf_counter() - begun)
        await ends.close()
    commit = one_commit_ms(given.folder)
    figures = latency(took)
    # Two commits a step are the floor: the intent and the receipt.
    ratio = figures["p50_ms"] / max(commit * 2 * steps, 0.001)
    return {**figures, "steps": steps, "commit_ms": commit, "to_commits": round(ratio, 2)}


async def w3(given: Options) -> dict[str, Any]:
    """Idle: instances that wait for an event; what each of them holds in memory."""
    async with node_in(given.folder, Noop()) as (node, world):
        await _park(node, world, 0, min(_BATCH, given.n))
        before = await _settled(node, world, given)
        begun = perf_counter()
        await _park(node, world, _BATCH, given.n)
        took = perf_counter() - begun
        after = await _settled(node, world, given)
        cpu = cpu_s()
        await asyncio.sleep(given.settle_s)
        idle = (cpu_s() - cpu) / given.settle_s
        await send(node, world, "Wake", name=f"p{_BATCH}")
        waiting = await node.look(world, _cells)
    return {
        "created": given.n,
        "waiting": waiting,
        "create_s": round(took, 2),
        "create_per_s": round(given.n / took, 1),
        "base_rss_mb": round(before, 1),
        "rss_mb": round(after, 1),
        "kb_per_instance": round((after - before) * 1024 / given.n, 3),
        "idle_cpu_cores": round(idle, 3),
    }


async def _park(node: Node, world: str, first: int, count: int) -> None:
    for at in range(first, first + count, _BATCH):
        names = range(at, min(at + _BATCH, first + count))
        await asyncio.gather(*(send(node, world, "Park", name=f"p{name}") for name in names))


async def _settled(node: Node, world: str, given: Options) -> float:
    """Memory once everything is parked and all that can be given back has been."""
    await node.snapshot(world)
    await asyncio.sleep(given.settle_s)
    gc.collect()
    with suppress(OSError):  # another C library: the figure is an upper bound
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return rss_mb()


def _cells(world: World) -> int:
    """How many instances wait: all that there are, but for those that have ended."""
    store = world.cells["bench/parked@1"]
    return sum(cell.status == "running" for _, cell in store.entries())


async def w5(given: Options) -> dict[str, Any]:
    """Fan-out and join: one parent calls all children at once, each of one durable step."""
    async with node_in(given.folder, Noop()) as (node, world):
        ends = Ends(node, world)
        await send(node, world, "Family", name="warm", children=10)
        await ends.reach(11, given.limit_s)
        cpu, begun = cpu_s(), perf_counter()
        await send(node, world, "Family", name="f", children=given.n)
        await ends.reach(12 + given.n, given.limit_s)
        took, cpu = perf_counter() - begun, cpu_s() - cpu
        await ends.close()
    return {
        "secs": round(took, 3),
        "children_per_s": round(given.n / took, 1),
        "us_cpu": round(cpu / given.n * 1e6, 1),
    }
