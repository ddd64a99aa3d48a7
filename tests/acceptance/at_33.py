"""AT-33 timers-clock (ND-14): hung executors time out, timers fire once over restarts and jumps."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit import skew
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink

SECOND_NS = 1_000_000_000
YEAR_S = 365 * 86_400


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Timers and calls that never end, two starts with another clock, and a pause over due time."""
    sink = start_sink(bench.fresh("sink"), stall=True)
    count = bench["each"]
    library = skew.build(bench.folder)
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        try:
            place.start()
            for n in range(count):
                due_ns = bench.random.randrange(1, bench["spread_s"] * SECOND_NS)
                assert place.send(f"t{n}", 2, sink.url, due_ns=due_ns)[0] == 202
                assert place.send(f"h{n}", 1, sink.url, timeout_ns=SECOND_NS)[0] == 202
            latest_ms = _timed_out(place, count, bench["wait_s"])
            for jump_s in bench["jumps_s"]:
                place.kill()
                place.environment = skew.environment(library, jump_s)
                time.sleep(bench["pause_s"])
                place.start()
            settled = place.settled(bench["wait_s"])
            return {"settled": settled, "latest_ms": latest_ms, **_figures(place, count)}
        finally:
            sink.close()


def _timed_out(place: Place, count: int, wait_s: float) -> int | None:
    """Wait for the timeouts of the hung calls; how late the latest was, by the node's clock."""
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        rows = [row for row in place.rows("receipt") if row["record"]["status"] == "timeout"]
        if len(rows) == count:
            due = {row["intent"]: row["record"] for row in place.rows("intent")}
            late = [
                row["record"]["stamp"]["now_ns"] - due[row["intent"]]["timeout_at_ns"]
                for row in rows
            ]
            return max(late) // 1_000_000
        time.sleep(0.1)
    return None


def _figures(place: Place, count: int) -> dict[str, Any]:
    opened = {
        row["intent"]: row["record"]
        for row in place.rows("intent")
        if row["record"]["record"] == "IntentOpened"
    }
    receipts = [row["record"] for row in place.rows("receipt")]
    times = Counter(receipt["intent"] for receipt in receipts)
    statuses = Counter(receipt["status"] for receipt in receipts)
    early = 0
    for receipt in receipts:
        asked = opened[receipt["intent"]]
        logical = receipt["stamp"]["logical_ns"]
        due = asked.get("timeout_at_ns") or asked["params"]["deliver_at_ns"]
        early += logical < int(due)
    return {
        "timers": count,
        "fired": statuses["ok"],
        "hung": count,
        "timed_out": statuses["timeout"],
        "not_once": sum(times[intent] != 1 for intent in opened),
        "early": early,
    }


def faults(found: dict[str, Any]) -> list[str]:
    """A timer or timeout that came early, twice or never."""
    wrong = [name for name in ("early", "not_once") if found[name]]
    if found["fired"] != found["timers"] or found["timed_out"] != found["hung"]:
        wrong.append(f"fired {found['fired']}, timed out {found['timed_out']}")
    return wrong if found["settled"] else [*wrong, "effects stayed open"]


def floors(found: dict[str, Any]) -> list[str]:
    """A hung call is timed out within a second of its time."""
    late = found["latest_ms"] is None or found["latest_ms"] > 1000
    return [f"a timeout was {found['latest_ms']} ms late"] if late else []


CASE = Case(
    number="at-33",
    name="timers-clock",
    rows="ND-14 I25",
    run=run,
    faults=faults,
    floors=floors,
    suite="none",
    planted="time_stands_still",
    small={"each": 15, "spread_s": 4, "jumps_s": [YEAR_S], "pause_s": 0.2, "wait_s": 30},
    control={"each": 3, "spread_s": 2, "jumps_s": [], "pause_s": 0, "wait_s": 5},
    possible=skew.available,
    full={
        "each": 1000,
        "spread_s": 60,
        "jumps_s": [0, -3600, YEAR_S, -YEAR_S],
        "pause_s": 3,
        "wait_s": 300,
    },
)
