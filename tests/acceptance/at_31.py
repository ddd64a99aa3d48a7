"""AT-31 million-cells: many cells and open intents, a kill, and it serves again (I20, I42)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from tests.acceptance.at_30 import memory_kb
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.cells import cell
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.scaled import span
from tests.acceptance.kit.stream import stream
from tests.acceptance.kit.till import ROUTES, Till

BATCH = 100
EVERY_S = 0.1
LAST_S = 10.0
FEW = 4
PATIENCE_S = 1800.0
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
        finally:
            till.close()
        began = time.monotonic()
        memory = _make(place, bench["cells"], bench["intents"])
        made_s = time.monotonic() - began
        place.kill()
        start_s = place.start(600)
        started_kb = memory_kb(place.node_pid())
        place.ran(PATIENCE_S)
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
        **memory,
        "started_mb": round(started_kb / 1024, 1),
        "event_p99_ms": took,
    }


def _make(place: Place, cells: int, intents: int) -> dict[str, float]:
    """Orders that are done at once, and bills that nobody pays; the memory on the way.

    A tenth of the cells comes first, as often as there are cells in all: what more cells cost in
    memory is the question, and not what more work does to a heap.
    What changed is held until a snapshot has it, some megabytes that come and go every second or
    two, so a moment says little: the median of the last seconds at work counts.
    """
    held = {}
    tenth = cells // 10
    for name, kind, first, count in (
        *[("tenth_mb", "order", 0, tenth)] * 10,
        ("cells_mb", "order", tenth, cells - tenth),
        ("grown_mb", "bill", 0, intents),
    ):
        wishes = {"count": count, "kind": kind, "first": first, "batch": BATCH}
        with _weighed(place.node_pid()) as weights:
            sent = stream(place, PATIENCE_S, lines=FEW, **wishes)
        assert sent["accepted"] == count, sent
        held[name] = round(median(weights) / 1024, 1)
    return held


@contextmanager
def _weighed(pid: int) -> Iterator[deque[int]]:
    """The memory of a process in the last seconds of what is done meanwhile, in kilobytes."""
    weights = deque([memory_kb(pid)], maxlen=round(LAST_S / EVERY_S))
    over = threading.Event()

    def weigh() -> None:
        while not over.wait(EVERY_S):
            try:
                weights.append(memory_kb(pid))
            except OSError:
                return  # it is gone, which whoever sends to it will tell

    thread = threading.Thread(target=weigh)
    thread.start()
    try:
        yield weights
    finally:
        over.set()
        thread.join()


def _order(name: str, cents: int) -> dict[str, Any]:
    value = {"id": name, "cents": cents, "sink": SINK, "due_ns": None, "timeout_ns": None}
    return {"schema": "kit/Order@1", "value": value}


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
    """The floors of section 7: five seconds to serve, memory bounded and flat."""
    wrong = []
    if found["start_s"] > span(found, 5):
        wrong.append(f"it served after {found['start_s']} s")
    if found["cells_mb"] > min(400, 1.1 * found["tenth_mb"]):
        wrong.append(f"{found['cells_mb']} MB with all cells, {found['tenth_mb']} MB with a tenth")
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
    small={"cells": 2000, "intents": 100, "visits": 20, "cache": 16},
    full={"cells": 1_000_000, "intents": 100_000, "visits": 500, "cache": 4096},
)
