"""W10: a million cells, a restart, a random event; and a restart with many open intents.

Whoever makes them is killed, so that the first restart folds the tail that a crash leaves; the
second one follows a clean stop.
Each restart is a process of its own: its memory is what a node holds, not what made the cells.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, Final

from bench.hosted import Noop, node_in, send
from bench.options import Options, latency, rss_mb

from tallystick.kernel.inputs import Submit
from tallystick.node.node import Node

CELLS_PER_INTENT: Final = 10  # a million cells, a hundred thousand open intents
_BATCH: Final = 1_000
_FLIGHT: Final = 4
_EVENTS: Final = 500
_SLOW: Final = {"slots": 100, "resume_rate": 200}


async def w10(given: Options) -> dict[str, Any]:
    """Cells, then open intents; each made here and opened by another process."""
    if given.role == "make":
        return await _make(given)
    if given.role != "driver":
        return await _opened(given)
    intents = max(1, given.n // CELLS_PER_INTENT)
    cells = replace(given, folder=given.folder / "cells")
    opened = replace(given, folder=given.folder / "intents", n=intents)
    made = await asyncio.to_thread(_made, cells, "Note")
    asked = await asyncio.to_thread(_made, opened, "Start")
    found, clean = [await asyncio.to_thread(_restart, cells, "cells") for _ in range(2)]
    again, later = [await asyncio.to_thread(_restart, opened, "intents") for _ in range(2)]
    return {
        "create_s": made["took"],
        "create_per_s": round(given.n / made["took"], 1),
        "tail": made["tail"],
        **found,
        "clean": clean,
        "intents": {"n": intents, "create_s": asked["took"], "tail": asked["tail"], **again},
        "intents_clean": later,
    }


def _made(given: Options, schema: str) -> dict[str, Any]:
    """Let a process make the cells, and kill it once they are durable."""
    given.folder.mkdir(parents=True)
    words = ["--n", str(given.n), "--dir", str(given.folder), "--limit", str(given.limit_s)]
    with _begun([*words, "--role", "make", "--out", str(given.folder / schema)]) as process:
        assert process.stdout is not None, "it is read"
        said: dict[str, Any] = json.loads(process.stdout.readline())
        process.kill()
    return said


async def _make(given: Options) -> dict[str, Any]:
    """So many events, each for a cell of its own, in batches. Nobody serves the effect."""
    assert given.out is not None, "its name says what is sent"
    schema = given.out.name
    fields = {"by": 1} if schema == "Note" else {"steps": 1}
    begun = perf_counter()
    async with node_in(given.folder) as (node, world):
        waiting: set[asyncio.Task[None]] = set()
        for at in range(0, given.n, _BATCH):
            numbers = range(at, min(at + _BATCH, given.n))
            batch = [{"name": f"c{number}", **fields} for number in numbers]
            waiting.add(asyncio.create_task(_send(node, world, schema, batch)))
            if len(waiting) >= _FLIGHT:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
        await asyncio.gather(*waiting)
        taken = await node.read(lambda reader: reader.snapshots(world))
        took, tail = perf_counter() - begun, node.feed.head(world) - (taken[-1].seq if taken else 0)
        print(json.dumps({"took": round(took, 2), "tail": tail}), flush=True)
        await asyncio.sleep(given.limit_s)
    return {}


async def _send(node: Node, world: str, schema: str, batch: list[dict[str, Any]]) -> None:
    name = f"bench/{schema}@1"
    answers = await node.offer(world, *(Submit(node.clock.sample(), name, v) for v in batch))
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer


def _restart(given: Options, role: str) -> dict[str, Any]:
    words = ["--n", str(given.n), "--dir", str(given.folder), "--role", role]
    with _begun(words) as process:
        said, _ = process.communicate()
    found: dict[str, Any] = json.loads(said)["opened"]
    return found


def _begun(words: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("tally.py")), "--workload", "w10"]
    return subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)


async def _opened(given: Options) -> dict[str, Any]:
    """Open, then send random events; in the process of the restart."""
    base, begun = rss_mb(), perf_counter()
    executor = Noop() if given.role == "intents" else None
    async with node_in(given.folder, executor, dispatch=_SLOW) as (node, world):
        first = await send(node, world, "Note", name="c0", by=1)
        opened, held = perf_counter() - begun, rss_mb()
        took: list[float] = []
        chance = Random(7)
        for _ in range(min(_EVENTS, given.n)):
            begun = perf_counter()
            await send(node, world, "Note", name=f"c{chance.randrange(given.n)}", by=1)
            took.append(perf_counter() - begun)
    figures = {
        "open_s": round(opened, 3),
        "base_rss_mb": round(base, 1),
        "open_rss_mb": round(held, 1),
        "rss_mb": round(rss_mb(), 1),
        "first_seq": first,
        **latency(took),
    }
    return {"opened": figures}
