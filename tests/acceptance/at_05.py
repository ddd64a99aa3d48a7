"""AT-05 replay-root-equal (RL-02, I2): one root by every path, in every environment."""

from __future__ import annotations

import json
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink

SETTINGS = """
[node]
snapshot_every = {every}
"""
PATIENCE_S = 900.0  # every tick runs again, on a machine that may be slow and busy
ENVIRONMENTS: list[dict[str, str]] = [
    {},
    {"PYTHONHASHSEED": "1", "TZ": "Pacific/Apia", "LANG": "tr_TR.UTF-8", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "4242", "TZ": "UTC", "LANG": "C"},
]


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Load with effects, timers and a kill; then every way to the root, in other environments."""
    sink = start_sink(bench.fresh("sink"))
    settings = SETTINGS.format(every=bench["snapshot_every"])
    with Place(bench.fresh("node"), settings, planted=bench.planted) as place:
        try:
            place.start()
            load = start_load(place, sink.url, connections=8, count=bench["orders"])
            try:
                load.wait_for(bench["orders"] // 2)
                place.kill()
                place.start()
                load.process.wait(600)
            finally:
                load.close()
            for n in range(5):
                place.send(f"t{n}", 2, sink.url, due_ns=1_000_000)
            settled = place.settled()
            live = place.root()
            place.stop()
            ways = [_replayed(place, each) for each in ENVIRONMENTS[: bench["environments"]]]
        finally:
            sink.close()
    return {
        "settled": settled,
        "live": live["root"],
        "live_seq": live["seq"],
        "ways": ways,
        "divergences": [way["divergence"] for way in ways if way["divergence"]],
    }


def _replayed(place: Place, environment: dict[str, str]) -> dict[str, Any]:
    place.environment = environment
    done = place.tally("--json", "replay", "--from", "genesis", "--verify", wait_s=PATIENCE_S)
    opened = place.tally("--json", "world", "root", wait_s=PATIENCE_S)
    found = json.loads(done.stdout) if done.stdout else {}
    root = json.loads(opened.stdout) if opened.stdout else {}
    return {
        "exit": done.returncode,
        "ticks": found.get("ticks"),
        "replayed": found.get("root"),
        "expected": found.get("expected_root"),
        "opened": root.get("state_root"),
        "divergence": found.get("first_divergence"),
        "said": done.stderr[-300:] + opened.stderr[-300:],
    }


def faults(found: dict[str, Any]) -> list[str]:
    """A replay that ended otherwise, roots that differ, or nothing that was replayed."""
    wrong = [f"a replay ended with {w['exit']}: {w['said']}" for w in found["ways"] if w["exit"]]
    if any(way["replayed"] != way["expected"] for way in found["ways"]):
        wrong.append("a replayed root is not the recorded one")
    if len({way["opened"] for way in found["ways"]}) != 1:
        wrong.append("the opened state roots differ")
    if not all(way["ticks"] for way in found["ways"]):
        wrong.append("nothing was replayed")
    return wrong


CASE = Case(
    number="at-05",
    name="replay-root-equal",
    rows="RL-02 I2 I14",
    run=run,
    faults=faults,
    suite="none",
    planted="fold_over_a_set",
    small={"orders": 60, "snapshot_every": 40, "environments": 2},
    full={"orders": 20_000, "snapshot_every": 2000, "environments": 3},
)
