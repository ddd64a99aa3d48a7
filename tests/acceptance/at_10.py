"""AT-10 idempotent-ingress (ND-11, I9): one key, one record, one effect, equal answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.audit import events
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Send each order from many callers at once, kill, send it again, then with another body."""
    sink = start_sink(bench.fresh("sink"))
    orders = [f"o{number}" for number in range(bench["orders"])]
    said: dict[str, set[Any]] = {order: set() for order in orders}
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        try:
            place.start()
            with ThreadPoolExecutor(bench["callers"]) as callers:
                for order in orders:
                    calls = [
                        callers.submit(place.send, order, 1, sink.url)
                        for _ in range(bench["callers"])
                    ]
                    said[order] |= {_answer(*call.result()) for call in calls}
            settled = place.settled()
            place.kill()
            place.start()
            for order in orders:
                said[order].add(_answer(*place.send(order, 1, sink.url)))
            others = [place.send(order, 3, sink.url) for order in orders]
            settled = place.settled() and settled
            there = events(place)
            calls_seen = len(sink.calls())
        finally:
            sink.close()
    return {
        "orders": len(orders),
        "settled": settled,
        "records": sum(there.values()),
        "calls": calls_seen,
        "answers": {
            order: sorted(map(str, said[order])) for order in orders if len(said[order]) > 1
        },
        "other_body": sorted({status for status, _ in others}),
    }


def _answer(status: int, body: Any) -> tuple[int, int]:
    """What makes two answers the same: their status and the record they name."""
    return status, body.get("seq", -1)


def faults(found: dict[str, Any]) -> list[str]:
    """More than one record or call for a key, answers that differ, another body that is taken."""
    wrong = []
    if found["records"] != found["orders"]:
        wrong.append(f"{found['records']} records for {found['orders']} orders")
    if found["calls"] != found["orders"] or not found["settled"]:
        wrong.append(f"{found['calls']} calls for {found['orders']} orders")
    if found["answers"]:
        wrong.append(f"answers differ: {dict(list(found['answers'].items())[:2])}")
    if found["other_body"] != [409]:
        wrong.append(f"another body was answered with {found['other_body']}")
    return wrong


CASE = Case(
    number="at-10",
    name="idempotent-ingress",
    rows="ND-11 I9",
    run=run,
    faults=faults,
    planted="no_duplicate_fence",
    small={"orders": 4, "callers": 8},
    full={"orders": 200, "callers": 32},
)
