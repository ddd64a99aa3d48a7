"""ND-30: a stop ends with code 0 and starts no effect after its mark (K-20, I44)."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.audit import audit
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink

SLOTS = 4
SETTINGS = f"""
[dispatch]
slots = {SLOTS}
[executors.http]
slots = {SLOTS}
per_host = {SLOTS}
"""


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Stop a node that has more to do than slots; start it again, and hold all against ledgers."""
    sink = start_sink(bench.fresh("sink"), delay_ms=200)
    with Place(bench.fresh("node"), SETTINGS, planted=bench.planted) as place:
        try:
            place.start()
            load = start_load(place, sink.url, connections=8, rate=bench["rate"])
            try:
                load.wait_for(bench["answers"])
                marked_ns = time.time_ns()
                os.kill(place.node_pid(), signal.SIGTERM)
                began = time.monotonic()
                code = place.wait(60)
                took = time.monotonic() - began
                after = sum(call.at_ns > marked_ns for call in sink.calls())
                place.start()
                load.stop()
            finally:
                load.close()
            settled = place.settled(bench["wait_s"])
            found = audit(place, load.acks(), sink.calls())
        finally:
            sink.close()
    return {
        **found,
        "exit": code,
        "stopped_s": round(took, 2),
        "slots": SLOTS,
        "calls_after_mark": after,
        "settled": settled,
    }


def faults(found: dict[str, Any]) -> list[str]:
    """Another exit code, more calls than were under way, or anything lost."""
    wrong = [name for name in ("lost", "doubled", "not_settled_once", "exit") if found[name]]
    if found["calls_after_mark"] > found["slots"]:
        wrong.append(f"{found['calls_after_mark']} calls after the mark")
    if found["intents"] <= 3 * found["slots"]:
        wrong.append("there was too little to do")
    return wrong if found["settled"] else [*wrong, "effects stayed open"]


def floors(found: dict[str, Any]) -> list[str]:
    """Stopped within the time that a stop may take."""
    return [] if found["stopped_s"] <= 6 else ["the stop took longer than 5 s and a little"]


CASE = Case(
    number="nd-30",
    name="stop-starts-nothing",
    rows="ND-30 I44",
    run=run,
    faults=faults,
    floors=floors,
    planted="dispatch_while_stopping",
    small={"answers": 60, "rate": 0, "wait_s": 60},
    full={"answers": 5000, "rate": 1000, "wait_s": 600},
)
