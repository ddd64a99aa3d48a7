"""K4: ticks of the WASM counter on one core, with a fresh instance each and with a pooled one.

A tick here is the whole work of the lane: envelope in, instance, run, output read and checked.
The counter is compiled from C where clang is, else it is the one by hand; the JSON says which.
Memory is looked at over many traps, because each leaves an object of the engine to be freed.
Stops are the whole corpus of AU-19, each a first tick of its world under the limits that a world
has by itself: loading, compiling and the end of the fuel are in it.
Rates and stops are by processor time of this process, which a busy machine does not stretch;
`stop_wall_ms` and `stop_worker_ms` are what somebody waits for it, here and in a worker process.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.windows import host, rss_bytes

from tallystick.model.abi import Halted, Ran, TickInput
from tallystick.model.records import WorkflowFaulted
from tallystick.modules.runners import Library, Runners
from tallystick.modules.wasm import WasmLane
from tallystick.modules.wasm_engine import ENGINE
from tallystick.modules.wasm_run import GuestSettings
from tallystick.node.wasm_workers import Workers
from tallystick.values import canon
from tests.conformance.abi_lanes import CLANG, world_of
from tests.modules.test_wasm import REFUSED, STOPPED
from tests.modules.wasm_world import STEP, Given, WasmRig, wat

FLOW = "counter/counter@1"
GOALS = {"fresh": 10_000, "pooled": 25_000, "trap_mb": 5, "stop_ms": 200}
ROUNDS = 5


class Added(Given):
    """An event of the counter."""

    def __init__(self) -> None:
        self._document = canon.encode({"$tag": "Add", "$value": {"n": 1, "name": "a"}})

    def value(self) -> bytes:
        """The document, as the kernel has it at hand."""
        return self._document


def rate(language: str, times: int, *, pooled: bool) -> int:
    """Ticks in a second of the processor, in the best of some rounds."""
    world = world_of(language)
    catalogue = world.driver.world.active.catalogue
    lane = WasmLane(world.driver.blobs, GuestSettings(pooled=pooled))
    state = canon.encode({"total": 3, "phase": {"$tag": "open"}})
    given = TickInput(state, "counter/counter.event@1", Added(), canon.encode("a"), None)
    flow = catalogue.workflows[FLOW]
    assert isinstance(lane.tick(catalogue, flow, given, None), Ran)
    best = float("inf")
    for _ in range(ROUNDS):
        begun = process_time()
        for _ in range(times):
            lane.tick(catalogue, flow, given, None)
        best = min(best, process_time() - begun)
    return round(times / best)


def trap_growth(times: int) -> float:
    """Megabytes that the process has gained over so many traps, after a first tenth of them."""
    body = '(func (export "flow") (param i32 i32) (result i64) unreachable)'
    rig = WasmRig(wat(body))
    lane = rig.lane(pooled=True)
    before = 0
    for number in range(times + times // 10):
        if number == times // 10:
            before = rss_bytes()
        assert isinstance(rig.tick(lane, None, 1), Halted)
    return round((rss_bytes() - before) / 1e6, 2)


class Nobody:
    """Vouches for no module, so that all run in a worker."""

    def has(self, _: str, /) -> bool:
        """Never."""
        return False


def stop(code: bytes, workers: Workers | None) -> tuple[float, float]:
    """Milliseconds until a bad module is a recorded fault: of the processor, and of the clock."""
    rig = WasmRig(code)
    rig.world.runner = Runners(rig.driver.blobs, library=Library(None, workers))
    cpu, wall = process_time(), perf_counter()
    rig.send(STEP, {"name": "a", "n": 1})
    took = (process_time() - cpu) * 1e3, (perf_counter() - wall) * 1e3
    assert [each for each in rig.records() if isinstance(each, WorkflowFaulted)]
    return took


def stops() -> dict[str, Any]:
    """The slowest stop of the corpus, each in the best of some rounds."""
    corpus = [code for _, code in REFUSED] + [wat(body) for _, _, body in STOPPED]
    cpu, wall, there = [], [], []
    workers = Workers(Nobody())
    try:
        workers.warm()
        for code in corpus:
            here = [stop(code, None) for _ in range(ROUNDS)]
            cpu.append(min(each for each, _ in here))
            wall.append(min(each for _, each in here))
            there.append(min(stop(code, workers)[1] for _ in range(ROUNDS)))
    finally:
        workers.close()
    slowest = {"stop_ms": cpu, "stop_wall_ms": wall, "stop_worker_ms": there}
    return {"stops": len(corpus), **{name: round(max(ms), 1) for name, ms in slowest.items()}}


def main() -> int:
    """Measure and print; exit 1 when memory is not given back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=2000, help="ticks in a round")
    parser.add_argument("--traps", type=int, default=100_000)
    asked = parser.parse_args()
    language = "wat" if CLANG is None else "c"
    made: dict[str, Any] = {"host": host(), "engine": ENGINE, "language": language}
    made["fresh"] = rate(language, asked.times, pooled=False)
    made["pooled"] = rate(language, asked.times, pooled=True)
    made["trap_mb"] = trap_growth(asked.traps)
    made["traps"] = asked.traps
    made["met"] = {name: made[name] >= GOALS[name] for name in ("fresh", "pooled")}
    made.update(stops())
    most = ("trap_mb", "stop_ms")
    made["met"].update({name: made[name] <= GOALS[name] for name in most})
    print(json.dumps(made))
    return 0 if made["met"]["trap_mb"] else 1


if __name__ == "__main__":
    sys.exit(main())
