"""AT-17 tamper-detect (ND-23, RL-18, I10): whatever is changed in the files is found."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from subprocess import CompletedProcess
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink
from tests.acceptance.kit.wreck import DAMAGES, Wreck, copied

AT_ONCE = 2
SETTINGS = """
[node]
snapshot_every = 40
"""


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Make a history, stop, and verify copies of it, each with one thing changed."""
    sink = start_sink(bench.fresh("sink"))
    with Place(bench.fresh("node"), SETTINGS, planted=bench.planted) as place:
        try:
            place.start()
            load = start_load(place, sink.url, connections=4, count=bench["orders"])
            try:
                load.process.wait(300)
            finally:
                load.close()
            place.settled()
            place.stop()
        finally:
            sink.close()
        clean = place.tally("verify", "--full").returncode
        began = time.monotonic()
        found, missed = _wrecked(bench, place)
        took_s = time.monotonic() - began
    return {
        "seconds": round(took_s, 1),
        "clean_exit": clean,
        "damages": bench["damages"],
        "missed": missed,
        "exits": dict(sorted(found.items())),
    }


def _wrecked(bench: Bench, place: Place) -> tuple[Counter[str], list[str]]:
    """Every damage in a folder of its own, verified by a command of its own, two at a time."""
    found: Counter[str] = Counter()
    missed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, bench["damages"], AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, bench["damages"]))
            wrecks = [_wreck(bench, place, number) for number in numbers]
            for number, done in zip(numbers, pool.map(_verified, wrecks), strict=True):
                name = DAMAGES[number % len(DAMAGES)].__name__
                found[f"{name} exit {done.returncode}"] += 1
                if done.returncode in (0, 2):
                    missed.append(f"{name} #{number}: {_first(done.stdout)}")
    return found, missed


def _wreck(bench: Bench, place: Place, number: int) -> Place:
    copy = replace(place, folder=bench.fresh(f"copy{number % AT_ONCE}"), process=None)
    DAMAGES[number % len(DAMAGES)](Wreck(copied(place.data, copy.data), bench.random))
    return copy


def _verified(copy: Place) -> CompletedProcess[str]:
    return copy.tally("--json", "verify", "--full")


def _first(said: str) -> Any:
    return json.loads(said).get("first") if said else None


def faults(found: dict[str, Any]) -> list[str]:
    """A damage that was not found, or a sound journal that was called damaged."""
    wrong = [f"not found: {found['missed'][:3]}"] if found["missed"] else []
    if found["clean_exit"]:
        wrong.append(f"the sound journal verified with {found['clean_exit']}")
    return wrong


CASE = Case(
    number="at-17",
    name="tamper-detect",
    rows="ND-23 RL-18 I10",
    run=run,
    faults=faults,
    suite="none",
    planted="verify_only_the_end",
    small={"orders": 60, "damages": 10},
    full={"orders": 120, "damages": 300},
)
