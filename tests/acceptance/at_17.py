"""AT-17 tamper-detect (ND-23, RL-18, I10): whatever is changed in the files is found."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink
from tests.acceptance.kit.verifying import WORDS, Verdict, verdicts
from tests.acceptance.kit.wreck import DAMAGES, Wreck, copied

AT_ONCE = 2
LOTS = 30  # a multiple of the kinds: each lot is of one, and begins with a command of its own
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
        "by_own_command": min(LOTS, bench["damages"]),
        "missed": missed,
        "exits": dict(sorted(found.items())),
    }


def _wrecked(bench: Bench, place: Place) -> tuple[Counter[str], list[str]]:
    """Every damage in a folder of its own; lots of them are verified beside each other."""
    found: Counter[str] = Counter()
    missed = []
    chances = [bench.random.getrandbits(64) for _ in range(bench["damages"])]
    lots = [range(first, bench["damages"], LOTS) for first in range(min(LOTS, bench["damages"]))]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        judged = pool.map(lambda lot: _judged(bench, place, lot, chances), lots)
        told = {number: verdict for lot in judged for number, verdict in lot.items()}
    for number, verdict in sorted(told.items()):
        name = DAMAGES[number % len(DAMAGES)].__name__
        found[f"{name} exit {verdict.code}"] += 1
        if verdict.code in (0, 2) or verdict.broke:
            missed.append(f"{name} #{number}: {_first(verdict)}")
    return found, missed


def _judged(
    bench: Bench, place: Place, numbers: Sequence[int], chances: Sequence[int]
) -> dict[int, Verdict]:
    """Verify a lot: the first by a command of its own, the others by one process."""
    lot = bench.fresh(f"lot{numbers[0]}")
    first, *others = [_wreck(place, lot / str(number), chances[number]) for number in numbers]
    done = first.tally(*WORDS)
    found = [Verdict(done.returncode, done.stdout, done.stderr)]
    if others:
        found += verdicts([each.data for each in others], place.planted)
    shutil.rmtree(lot)
    return dict(zip(numbers, found, strict=True))


def _wreck(place: Place, folder: Path, chance: int) -> Place:
    """A copy with the damage that its number names."""
    copy = replace(place, folder=folder, process=None)
    damage = DAMAGES[int(folder.name) % len(DAMAGES)]
    damage(Wreck(copied(place.data, copy.data), random.Random(chance)))
    return copy


def _first(verdict: Verdict) -> Any:
    return json.loads(verdict.said).get("first_bad") if verdict.said else verdict.complained[-500:]


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
