"""AT-32 soak (I42): hours in small: steady load with kills costs no memory, log or time."""

from __future__ import annotations

import statistics
import time
from typing import Any

from tests.acceptance.at_29 import rates
from tests.acceptance.at_30 import memory_kb
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.audit import audit, sound
from tests.acceptance.kit.load import Ack, Load, start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink

PATIENCE_S = 900.0  # a million records are settled and verified on a slow machine too
SHARE = 0.3  # of what the machine can take
FEW = 5  # lives at each end that are held against each other


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Load at a steady pace; measure between kills."""
    sink = start_sink(bench.fresh("sink"), delay_ms=5)
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        try:
            place.start()
            most, acks = _capacity(place, sink.url, bench["full_s"])
            place.settled(PATIENCE_S)  # what a full load left behind is none of the steady one's
            rate = round(SHARE * most)
            load = start_load(place, sink.url, connections=16, rate=rate)
            try:
                lives = [_life(place, load, bench) for _ in range(bench["lives"])]
                load.stop(120)
            finally:
                load.close()
            settled = place.settled(PATIENCE_S)
            found = audit(place, acks + load.acks(), sink.calls())
            verified = place.tally("--json", "verify", wait_s=PATIENCE_S).returncode
        finally:
            sink.close()
    return {
        "lives": len(lives),
        "most_per_s": round(most, 1),
        "rate": rate,
        "sound": sound(found),
        "acked": found["acked"],
        "settled": settled,
        "verify_exit": verified,
        "grown_mb": max(life["grown_mb"] for life in lives),
        "grown_max_mb": bench["grown_max_mb"],
        "wal_mb": max(life["wal_mb"] for life in lives),
        "slope_mb_per_min": _slope(lives, bench),
        "first_p99_ms": _median(lives[:FEW], "p99_ms"),
        "last_p99_ms": _median(lives[-FEW:], "p99_ms"),
        # What decides a ratio of two noisy figures is seen in all of them, beside the usual answer.
        "p50s_ms": [life["p50_ms"] for life in lives],
        "p99s_ms": [life["p99_ms"] for life in lives],
    }


def _capacity(place: Place, sink: str, seconds: float) -> tuple[float, list[Ack]]:
    """How many orders a second this machine takes at full load, and their answers."""
    load = start_load(place, sink, connections=16, name="c")
    try:
        load.wait_for(1)
        time.sleep(seconds)
        load.stop(120)
    finally:
        load.close()
    acks = load.acks()
    return len(acks) / seconds, acks


def _life(place: Place, load: Load, bench: Bench) -> dict[str, Any]:
    """From one start to the kill: memory at both ends, the log at its largest, the answers."""
    time.sleep(bench["settle_s"])
    known = load.size()
    began_kb = memory_kb(place.node_pid())
    largest = 0
    until = time.monotonic() + bench["life_s"]
    log = place.data / "tally.db-wal"
    while time.monotonic() < until:
        largest = max(largest, log.stat().st_size if log.exists() else 0)
        time.sleep(0.2)
    ended_kb = memory_kb(place.node_pid())
    answers = rates(load.acks(known))
    place.kill()
    place.start()
    return {
        "grown_mb": round((ended_kb - began_kb) / 1024, 1),
        "ended_mb": round(ended_kb / 1024, 1),
        "wal_mb": round(largest / 1024 / 1024, 1),
        "p50_ms": answers["p50_ms"],
        "p99_ms": answers["p99_ms"],
    }


def _slope(lives: list[dict[str, Any]], bench: Bench) -> float:
    """How much more memory a life needs at its end than one before, by the minute."""
    minutes = (len(lives) - FEW) * (bench["life_s"] + bench["settle_s"]) / 60
    grown = _median(lives[-FEW:], "ended_mb") - _median(lives[:FEW], "ended_mb")
    return round(grown / minutes, 2) if minutes > 0 else 0.0


def _median(lives: list[dict[str, Any]], name: str) -> float:
    """The middle of a few lives: one bad moment of the machine is not the product's."""
    return float(statistics.median(life[name] for life in lives))


def faults(found: dict[str, Any]) -> list[str]:
    """Something lost or doubled, or memory that grows while nothing is kept."""
    wrong = [] if found["sound"] and found["settled"] else ["something was lost, doubled or open"]
    if found["verify_exit"]:
        wrong.append("it does not verify")
    if found["grown_mb"] > found["grown_max_mb"]:
        wrong.append(f"it grew by {found['grown_mb']} MB between two kills")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """The floors of section 7."""
    wrong = []
    if found["slope_mb_per_min"] >= 1:
        wrong.append(f"{found['slope_mb_per_min']} MB a minute")
    if found["wal_mb"] > 64:
        wrong.append(f"a log of {found['wal_mb']} MB")
    if found["last_p99_ms"] > 1.2 * found["first_p99_ms"]:
        wrong.append(f"p99 went from {found['first_p99_ms']} to {found['last_p99_ms']} ms")
    return wrong


CASE = Case(
    number="at-32",
    name="soak",
    rows="I1 I3 I42",
    run=run,
    faults=faults,
    floors=floors,
    planted="frames_kept_for_ever",
    small={"full_s": 1.0, "lives": 1, "life_s": 3.0, "settle_s": 0.5, "grown_max_mb": 12},
    full={"full_s": 10.0, "lives": 40, "life_s": 25.0, "settle_s": 5.0, "grown_max_mb": 64},
)
