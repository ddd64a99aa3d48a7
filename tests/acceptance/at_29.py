"""AT-29 ingress-rate (RL-20): events come at their own pace and are durable in time."""

from __future__ import annotations

import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.audit import audit
from tests.acceptance.kit.load import Ack, start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.till import Till

SINK = "http://127.0.0.1:1/"
BATCH = 100


def run(bench: Bench) -> dict[str, Any]:
    """An open loop of single events over 64 connections, then batches of a hundred."""
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        place.start()
        count = int(bench["rate"] * bench["seconds"])
        load = start_load(
            place, SINK, connections=64, rate=bench["rate"], count=count, effects=0, again=0
        )
        try:
            load.process.wait(bench["wait_s"])
        finally:
            load.close()
        acks = load.acks()
        found = audit(place, acks, [])
        batched = _batched(place, bench["batches"])
    return {
        "sent": count,
        "rate": bench["rate"],
        "lost": found["lost"],
        "doubled": found["doubled"],
        "batched_per_s": batched,
        **rates(acks),
    }


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


def _batched(place: Place, batches: int) -> float:
    """Events in a second, a hundred to a request, one request after the other."""
    till = Till(place)
    began = time.monotonic()
    try:
        for first in range(batches):
            events = [_order(f"b{first}-{number}") for number in range(BATCH)]
            status, said = till.ask("/v1/worlds/main/events", {"events": events})
            assert status == 202, said
    finally:
        till.close()
    return round(batches * BATCH / (time.monotonic() - began), 1)


def _order(name: str) -> dict[str, Any]:
    value = {"id": name, "cents": 2, "sink": SINK, "due_ns": None, "timeout_ns": None}
    return {"schema": "kit/Order@1", "value": value}


def faults(found: dict[str, Any]) -> list[str]:
    """Something was lost or refused, or the answers fell behind the pace."""
    wrong = [name for name in ("lost", "doubled") if found[name]]
    if found["accepted"] != found["sent"]:
        wrong.append(f"{found['accepted']} of {found['sent']} were accepted")
    if found["per_s"] < 0.7 * found["rate"]:
        wrong.append(f"{found['per_s']} in a second, and {found['rate']} came")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """The floors of section 7."""
    wrong = []
    if found["per_s"] < 1_400 or found["p99_ms"] > 100:
        wrong.append(f"{found['per_s']} events/s with a p99 of {found['p99_ms']} ms")
    if found["batched_per_s"] < 8_000:
        wrong.append(f"{found['batched_per_s']} events/s in batches")
    return wrong


CASE = Case(
    number="at-29",
    name="ingress-rate",
    rows="RL-20",
    run=run,
    faults=faults,
    floors=floors,
    planted="slow_events",
    small={"rate": 60, "seconds": 2, "batches": 3, "wait_s": 60},
    full={"rate": 1500, "seconds": 60, "batches": 500, "wait_s": 300},
)
