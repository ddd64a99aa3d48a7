"""AT-31 million-cells: many cells and open intents, a kill, and it serves again (I20, I42)."""

from __future__ import annotations

import time
from typing import Any

from tests.acceptance.at_30 import memory_kb
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.cells import cell
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.scaled import span
from tests.acceptance.kit.till import ROUTES, Till

BATCH = 500
CHARGE = "kit/charge@1"
SINK = "http://127.0.0.1:1/"
SETTINGS = """
[node]
cell_cache = {cache}
[ingress]
queue = 20000
[dispatch]
max_backlog = 1000000
"""


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Make cells and open intents, kill the node, and look whether all is there and quick."""
    settings = SETTINGS.format(cache=bench["cache"]) + ROUTES
    with Place(bench.fresh("node"), settings, planted=bench.planted) as place:
        place.start()
        till = Till(place)
        try:
            till.trust()
            made_s = _make(till, bench["cells"], bench["intents"])
        finally:
            till.close()
        grown_kb = memory_kb(place.node_pid())
        place.kill()
        start_s = place.start(600)
        started_kb = memory_kb(place.node_pid())
        took, wrong = _visit(place, bench)
        found = {
            "cells": place.ask("GET", "/v1/worlds/main")[1]["cells"],
            "open": _open(place),
            "visited_mb": round(memory_kb(place.node_pid()) / 1024, 1),
        }
        place.stop(120)
    return {
        **found,
        "wanted": {"cells": bench["cells"] + bench["intents"], "open": bench["intents"]},
        "wrong": wrong,
        "made_s": round(made_s, 1),
        "start_s": round(start_s, 2),
        "grown_mb": round(grown_kb / 1024, 1),
        "started_mb": round(started_kb / 1024, 1),
        "event_p99_ms": took,
    }


def _make(till: Till, cells: int, intents: int) -> float:
    """Orders that are done at once, and bills that nobody pays."""
    began = time.monotonic()
    for first in range(0, cells, BATCH):
        names = range(first, min(first + BATCH, cells))
        _send(till, [_order(f"o{number}", 2) for number in names])
    for first in range(0, intents, BATCH):
        names = range(first, min(first + BATCH, intents))
        bills = [{"id": f"i{number}", "cents": 5} for number in names]
        _send(till, [{"schema": "kit/Bill@1", "value": bill} for bill in bills])
    return time.monotonic() - began


def _order(name: str, cents: int) -> dict[str, Any]:
    value = {"id": name, "cents": cents, "sink": SINK, "due_ns": None, "timeout_ns": None}
    return {"schema": "kit/Order@1", "value": value}


def _send(till: Till, events: list[dict[str, Any]]) -> None:
    """One batch; one that finds the lane full is sent again."""
    while True:
        status, said = till.ask("/v1/worlds/main/events", {"events": events})
        if status != 429:
            assert status == 202, said
            return
        time.sleep(0.1)


def _visit(place: Place, bench: Bench) -> tuple[float, list[str]]:
    """Look at random cells and send to them; the slow end of it, and the cells that are wrong."""
    taken: list[float] = []
    wrong: list[str] = []
    for _ in range(bench["visits"]):
        name = f"o{bench.random.randrange(bench['cells'])}"
        if cell(place, CHARGE, name)["state"]["phase"] != "even":
            wrong.append(name)
        began = time.monotonic()
        status, said = place.ask("POST", "/v1/worlds/main/events", _order(name, 4))
        assert status == 202, said
        taken.append((time.monotonic() - began) * 1000)
    taken.sort()
    return round(taken[len(taken) * 99 // 100], 2), wrong[:5]


def _open(place: Place) -> int:
    """How many intents are open, page by page."""
    count, after = 0, ""
    while True:
        page = place.get(f"/effects?status=open&limit=1000{after}")
        count += len(page["items"])
        if page["next"] is None:
            return count
        after = f"&after={page['next']}"


def faults(found: dict[str, Any]) -> list[str]:
    """A cell or an intent that is gone, doubled, or another."""
    wrong = [
        f"{found[name]} {name}, and {wanted} were made"
        for name, wanted in found["wanted"].items()
        if found[name] != wanted
    ]
    return [*wrong, f"other states: {found['wrong']}"] if found["wrong"] else wrong


def floors(found: dict[str, Any]) -> list[str]:
    """The floors of section 7: five seconds to serve, half a gigabyte at most."""
    wrong = []
    if found["start_s"] > span(found, 5):
        wrong.append(f"it served after {found['start_s']} s")
    if max(found["started_mb"], found["visited_mb"]) > 500:
        wrong.append(f"{found['visited_mb']} MB")
    return wrong


CASE = Case(
    number="at-31",
    name="million-cells",
    rows="I20 I42",
    run=run,
    faults=faults,
    floors=floors,
    planted="eviction_drops_a_dirty_cell",
    small={"cells": 600, "intents": 100, "visits": 20, "cache": 16},
    full={"cells": 1_000_000, "intents": 100_000, "visits": 500, "cache": 4096},
)
