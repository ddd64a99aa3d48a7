"""AT-17 tamper-detect (ND-23, RL-18, I10): whatever is changed in the files is found."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink
from tests.acceptance.kit.wreck import DAMAGES, Wreck, copied

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
        found: Counter[str] = Counter()
        missed = []
        for number in range(bench["damages"]):
            damage = DAMAGES[number % len(DAMAGES)]
            copy = replace(place, folder=bench.fresh("copy"), process=None)
            damage(Wreck(copied(place.data, copy.data), bench.random))
            done = copy.tally("--json", "verify", "--full")
            found[f"{damage.__name__} exit {done.returncode}"] += 1
            if done.returncode in (0, 2):
                missed.append(f"{damage.__name__} #{number}: {_first(done.stdout)}")
    return {
        "clean_exit": clean,
        "damages": bench["damages"],
        "missed": missed,
        "exits": dict(sorted(found.items())),
    }


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
    full={"orders": 400, "damages": 300},
)
