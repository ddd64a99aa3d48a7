"""AT-29 ingress-rate (RL-20): events come at their own pace and are durable in time.

The floors are of durable ingress: events for a bounded set of cells, without effects.
A load in which every event makes a new cell under a key of its own is measured beside them.
"""

from __future__ import annotations

import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.audit import audit
from tests.acceptance.kit.cells import states
from tests.acceptance.kit.load import Ack, start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.scaled import rate, span
from tests.acceptance.kit.stream import stream

SINK = "http://127.0.0.1:1/"
BATCH = 100
LINES = 64
FEW = 4  # connections of batches: one is read while one is decided and one is synced


def run(bench: Bench) -> dict[str, Any]:
    """An open loop of single events over 64 connections, then batches, then new cells."""
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        place.start()
        count, wait_s = int(bench["rate"] * bench["seconds"]), bench["wait_s"]
        single = stream(place, wait_s, count=count, rate=bench["rate"], lines=LINES)
        many = bench["batches"] * BATCH
        batched = stream(place, wait_s, count=many, batch=BATCH, lines=FEW)
        place.ran(wait_s)
        coins = sum(state["coins"] for state in states(place, "kit/purse@1").values())
        fresh = _fresh(place, bench)
    return {
        "sent": {"single": count, "batched": many},
        "rate": bench["rate"],
        "single": single,
        "batched": batched,
        "coins": coins,
        "new_cells": fresh,
    }


def _fresh(place: Place, bench: Bench) -> dict[str, Any]:
    """As many as 64 clients get done, each event a new cell with an Idempotency-Key."""
    load = start_load(place, SINK, connections=LINES, effects=0, again=0)
    try:
        load.wait_for(10)
        time.sleep(bench["fresh_s"])
        load.stop(bench["wait_s"])
    finally:
        load.close()
    acks = load.acks()
    found = audit(place, acks, [])
    return {"lost": found["lost"], "doubled": found["doubled"], **rates(acks)}


def rates(acks: list[Ack]) -> dict[str, Any]:
    """How many were accepted in a second, and how long after its due time each was answered."""
    good = [ack for ack in acks if ack.status == 202]
    took = sorted(ack.took_ms for ack in good)
    times = [ack.at_ns for ack in good]
    seconds = (max(times) - min(times)) / 1e9 if good else 0.0
    return {
        "accepted": len(good),
        "per_s": round(len(good) / max(seconds, 1e-9), 1),
        "p50_ms": took[len(took) // 2] if took else None,
        "p99_ms": took[len(took) * 99 // 100] if took else None,
    }


def faults(found: dict[str, Any]) -> list[str]:
    """Something was lost or refused, or the answers fell far behind the pace."""
    wrong = [name for name in ("lost", "doubled") if found["new_cells"][name]]
    for name, sent in found["sent"].items():
        if found[name]["accepted"] != sent:
            wrong.append(f"{found[name]['accepted']} of {sent} were accepted")
    if found["coins"] != sum(found["sent"].values()):
        wrong.append(f"the cells counted {found['coins']}")
    if found["single"]["per_s"] < 0.3 * found["rate"]:
        wrong.append(f"{found['single']['per_s']} in a second, and {found['rate']} came")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """The floors of section 7."""
    wrong = []
    single, batched = found["single"], found["batched"]["per_s"]
    if single["per_s"] < 0.95 * rate(found, 1_500) or single["p99_ms"] > span(found, 100):
        wrong.append(f"{single['per_s']} events/s with a p99 of {single['p99_ms']} ms")
    if batched < rate(found, 8_000):
        wrong.append(f"{batched} events/s in batches")
    return wrong


CASE = Case(
    number="at-29",
    name="ingress-rate",
    rows="RL-20",
    run=run,
    faults=faults,
    floors=floors,
    planted="slow_events",
    small={"rate": 60, "seconds": 2, "batches": 3, "fresh_s": 0.5, "wait_s": 60},
    control={"rate": 200, "seconds": 0.3, "batches": 1, "fresh_s": 0.2, "wait_s": 60},
    full={"rate": 1500, "seconds": 60, "batches": 1000, "fresh_s": 20, "wait_s": 300},
)
