"""ND-22: a start with many open intents is no storm: bounded calls, bounded memory (K-41)."""

from __future__ import annotations

import time
from typing import Any

from tests.acceptance.at_30 import memory_kb
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink

SLOTS = 8
SETTINGS = f"""
[dispatch]
slots = {SLOTS}
max_backlog = 1000000
[executors.http]
slots = {SLOTS}
per_host = 1000000
timeout_s = 36000
"""


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Leave intents open at a sink that never answers, kill, start, and count calls and memory."""
    sink = start_sink(bench.fresh("sink"), stall=True)
    with Place(bench.fresh("node"), SETTINGS, planted=bench.planted) as place:
        try:
            place.start()
            # Odd numbers are charged: twice as many orders as intents.
            load = start_load(place, sink.url, connections=16, count=2 * bench["intents"])
            try:
                load.process.wait(3600)
            finally:
                load.close()
            steady_kb = memory_kb(place.node_pid())
            before = len(sink.calls())
            place.kill()
            start_s = place.start()
            peak_kb = 0
            until = time.monotonic() + bench["watch_s"]
            begun_s = None
            while time.monotonic() < until:
                peak_kb = max(peak_kb, memory_kb(place.node_pid()))
                time.sleep(0.05)
                if begun_s is None and len(sink.calls()) > before:
                    begun_s = round(time.monotonic() - until + bench["watch_s"], 2)
            calls = len(sink.calls()) - before
            shown = place.get("/effects?status=open&limit=1000")["items"]
        finally:
            sink.close()
    return {
        "open": bench["intents"],
        "listed": len(shown),
        "slots": SLOTS,
        "calls_before": before,
        "calls_after_start": calls,
        "steady_mb": round(steady_kb / 1024, 1),
        "peak_mb": round(peak_kb / 1024, 1),
        "start_s": round(start_s, 2),
        "first_call_s": begun_s,
    }


def faults(found: dict[str, Any]) -> list[str]:
    """More calls than slots, or none at all."""
    counted = ("calls_before", "calls_after_start")
    bad = [name for name in counted if not 0 < found[name] <= found["slots"]]
    wrong = [f"{name}: {found[name]} with {found['slots']} slots" for name in bad]
    if found["listed"] != min(found["open"], 1000):
        wrong.append(f"{found['listed']} are listed as open")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """Memory at most 1.3 times that of the node that was killed."""
    grown = found["peak_mb"] > 1.3 * found["steady_mb"]
    return ["memory grew beyond 1.3 times"] if grown else []


CASE = Case(
    number="nd-22",
    name="restart-storm",
    rows="ND-22 I42",
    run=run,
    faults=faults,
    floors=floors,
    planted="no_slots",
    small={"intents": 60, "watch_s": 1.0},
    full={"intents": 100_000, "watch_s": 60.0},
)
