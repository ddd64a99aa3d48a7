"""W4: a process with many instances in flight is killed; how soon a second one has ended them all.

The second of three steps waits for a gate, so that every instance is in flight when SIGKILL comes.
The new process takes up what the journal says is open, and nothing else: a first step that it
performs again is a defect.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.hosted import SLOTS, Noop, node_in, send
from bench.options import Options

from tallystick.executors.base import Job
from tallystick.kernel.world import World
from tallystick.node.node import Node

_GATE: Final = "gate_open"
_BATCH: Final = 500
_PACE: Final = {"slots": SLOTS, "resume_rate": 1_000_000}


class Gate:
    """Counts steps by their number; the second one waits until the gate file is there."""

    def __init__(self, folder: Path) -> None:
        self._open = (folder / _GATE).exists()
        self.asked = {1: 0, 2: 0, 3: 0}

    async def __call__(self, job: Job) -> None:
        at = job.params["at"]
        self.asked[at] += 1
        if at == 2 and not self._open:
            await asyncio.Event().wait()


async def w4(given: Options) -> dict[str, Any]:
    """Kill and start again."""
    if given.role == "first":
        return await _first(given)
    if given.role == "second":
        return await _second(given)
    return await asyncio.to_thread(_both, given)


def _both(given: Options) -> dict[str, Any]:
    first = _start(given, "first")
    try:
        before = _note(given, "first", first)
    finally:
        first.kill()
        first.wait()
    (given.folder / _GATE).touch()
    begun = time.perf_counter()
    second = _start(given, "second")
    try:
        after = _note(given, "second", second)
        took = time.perf_counter() - begun
        second.wait(given.limit_s)
    finally:
        second.kill()
        second.wait()
    return {
        "in_flight": before["parked"],
        "recovered": after["completed"],
        "recover_s": round(took, 2),
        "open_s": after["open_s"],
        "complete": after["completed"] == given.n,
        "s1_reexec": after["s1"],
    }


def _start(given: Options, role: str) -> subprocess.Popen[bytes]:
    words = ["--workload", "w4", "--n", str(given.n), "--dir", str(given.folder), "--role", role]
    command = [sys.executable, str(Path(__file__).with_name("tally.py")), *words]
    # As an installed package starts: its sources were compiled before, here by the first process.
    kept = {"PYTHONPYCACHEPREFIX": str(given.folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **kept})


def _note(given: Options, role: str, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What a process wrote once it was ready."""
    path = given.folder / f"{role}.json"
    until = time.monotonic() + given.limit_s
    while not path.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"w4: the {role} process did not get there")
        time.sleep(0.005)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _write(given: Options, **figures: Any) -> None:
    path = given.folder / f"{given.role}.json"
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(figures), encoding="utf-8")
    draft.rename(path)


async def _first(given: Options) -> dict[str, Any]:
    gate = Gate(given.folder)
    async with node_in(given.folder, Noop(gate), dispatch=_PACE) as (node, world):
        for at in range(0, given.n, _BATCH):
            numbers = range(at, min(at + _BATCH, given.n))
            starts = (send(node, world, "Start", name=f"i{i}", steps=3) for i in numbers)
            await asyncio.gather(*starts)
        while gate.asked[2] < given.n:  # noqa: ASYNC110 - an event per step would be measured too
            await asyncio.sleep(0.01)
        _write(given, parked=gate.asked[2])
        await asyncio.sleep(given.limit_s)
    return {}


async def _second(given: Options) -> dict[str, Any]:
    gate = Gate(given.folder)
    begun = time.perf_counter()
    async with node_in(given.folder, Noop(gate), dispatch=_PACE) as (node, world):
        opened = time.perf_counter() - begun
        await _resumed(node, world, gate, given)
        completed = await node.look(world, _completed)
        _write(given, completed=completed, s1=gate.asked[1], open_s=round(opened, 3))
    return {}


async def _resumed(node: Node, world: str, gate: Gate, given: Options) -> None:
    """Wait until every instance has had its third step and nothing is left to do."""
    async with asyncio.timeout(given.limit_s):
        while gate.asked[3] < given.n or not await node.quiet(world, 0):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)


def _completed(world: World) -> int:
    return sum(cell.status == "completed" for _, cell in world.cells["bench/chain@1"].entries())
