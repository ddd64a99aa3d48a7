"""AT-08 effect-after-flush (ND-03, RL-05): the outside hears nothing before its frame is synced."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit import syscalls
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink
from tests.acceptance.kit.syscalls import SystemCall

_CHARGE = re.compile(r"charge:(\w+)\.")
_EVENT = re.compile(r"(o\d+)dsink")  # the id and the next key of the event's document
_WRITES = "pwrite64,fdatasync,sendto,sendmsg,write,writev"


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Slow every sync, and hold each call of an effect against the sync of its intent."""
    sink = start_sink(bench.fresh("sink"))
    folder = bench.fresh("timeline")
    timeline = folder / "calls"
    with Place(folder / "node", planted=bench.planted) as place:
        try:
            place.start()
            place.stop()
            slow = f"fdatasync:delay_enter={bench['slow_us']}"
            place.prefix = syscalls.traced(timeline, _WRITES, slow)
            place.start(120)
            load = start_load(place, sink.url, connections=16, count=bench["orders"])
            try:
                load.process.wait(300)
                place.settled(120)
            finally:
                load.close()
            place.stop()
        finally:
            sink.close()
    return _compared(syscalls.read(timeline), load.acks())


def _compared(calls: list[SystemCall], acks: list[Any]) -> dict[str, Any]:
    asked, admitted, sent = _first_times(calls)
    ends = _sync_ends(calls)
    known = {ack.order: ack.at_ns for ack in acks if ack.status == 202}
    return {
        "syncs": len(ends),
        "effects": len(sent),
        "early_effects": _early(sent, asked, ends),
        "acks": len(known),
        "early_acks": _early(known, admitted, ends),
        # A name that straddles two pages of the file is in none of its writes.
        "unseen": len(sent.keys() - asked.keys()) + len(known.keys() - admitted.keys()),
    }


def _early(told: dict[str, int], written: dict[str, int], ends: list[tuple[int, int]]) -> int:
    """How many were told to the outside before the sync behind their write had ended."""
    seen = [order for order in told if order in written]
    return sum(told[order] < _durable(written[order], ends) for order in seen)


def _first_times(
    calls: list[SystemCall],
) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """When each order's intent and event were first written, and when its call went out."""
    asked: dict[str, int] = {}
    admitted: dict[str, int] = {}
    sent: dict[str, int] = {}
    for call in calls:
        if call.name == "pwrite64" and "tally.db" in call.file:
            for order in _CHARGE.findall(call.arguments):
                asked.setdefault(order, call.ended_ns)
            for order in _EVENT.findall(call.arguments):
                admitted.setdefault(order, call.ended_ns)
        elif call.file.startswith(("socket", "TCP")):
            for order in _CHARGE.findall(call.arguments):
                sent.setdefault(order, call.began_ns)
    return asked, admitted, sent


def _sync_ends(calls: list[SystemCall]) -> list[tuple[int, int]]:
    return sorted((call.began_ns, call.ended_ns) for call in syscalls.syncs(calls))


def _durable(written_ns: int, ends: list[tuple[int, int]]) -> float:
    """When the first sync that began after a write had ended; never, if none did."""
    at = bisect_left(ends, (written_ns, 0))
    return ends[at][1] if at < len(ends) else float("inf")


def faults(found: dict[str, Any]) -> list[str]:
    """An effect or an acknowledgement before the sync of its frame."""
    wrong = [f"{name} {found[name]}" for name in ("early_effects", "early_acks") if found[name]]
    if found["unseen"] * 20 > found["effects"] + found["acks"] or not found["effects"]:
        wrong.append(f"too little was seen: {found}")
    return wrong


CASE = Case(
    number="at-08",
    name="effect-after-flush",
    rows="ND-03 RL-05 I5",
    run=run,
    faults=faults,
    suite="both",
    planted="release_before_commit",
    small={"orders": 30, "slow_us": 20_000},
    full={"orders": 2000, "slow_us": 200_000},
    possible=syscalls.available,
)
