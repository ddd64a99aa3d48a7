"""ND-06: ticks continue while a commit syncs, so slow syncs are shared by many events (K-25)."""

from __future__ import annotations

from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit import syscalls
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place


def run(bench: Bench) -> dict[str, Any]:
    """Delay every sync, and count how many events share one."""
    folder = bench.fresh("shared")
    timeline = folder / "calls"
    with Place(folder / "node", planted=bench.planted) as place:
        place.start()
        place.stop()
        slow = f"fdatasync:delay_enter={bench['slow_us']}"
        place.prefix = syscalls.traced(timeline, "fdatasync", slow)
        place.start(120)
        load = start_load(
            place, "http://127.0.0.1:1/", connections=64, effects=0, count=bench["orders"]
        )
        try:
            load.process.wait(300)
        finally:
            load.close()
        place.stop()
    acks = sorted(ack.at_ns for ack in load.acks() if ack.status == 202)
    assert acks, "no order was accepted"
    calls = [c for c in syscalls.syncs(syscalls.read(timeline)) if _within(c.began_ns, acks)]
    seconds = (acks[-1] - acks[0]) / 1e9
    return {
        "acked": len(acks),
        "syncs": len(calls),
        "events_per_sync": round(len(acks) / max(len(calls), 1), 2),
        "per_s": round(len(acks) / max(seconds, 1e-9)),
        "slow_us": bench["slow_us"],
    }


def _within(at_ns: int, acks: list[int]) -> bool:
    return acks[0] - 10**9 < at_ns <= acks[-1]


def faults(found: dict[str, Any]) -> list[str]:
    """Fewer than five events to a sync: then commits are not shared."""
    few = found["events_per_sync"] < 5
    return [f"{found['events_per_sync']} events to a sync"] if few else []


CASE = Case(
    number="nd-06",
    name="ticks-while-syncing",
    rows="ND-06",
    run=run,
    faults=faults,
    planted="one_frame_per_commit",
    small={"orders": 600, "slow_us": 5000},
    control={"orders": 200, "slow_us": 5000},
    full={"orders": 20_000, "slow_us": 5000},
    possible=syscalls.available,
)
