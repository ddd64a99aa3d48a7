"""The benchmarks run and say what they promise; whether the figures are good is not for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import curves, goals, page, sampled, workloads
from bench.run import SIZES, arguments
from bench.windows import Stopwatch, Timed, host, watched

ROOT = Path(__file__).resolve().parent.parent
RATE = {"paced", "best", "median", "total_best", "core", "us_cpu", "to_l1", "to_l1_wall"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of the least size, with its line of history."""
    history = tmp_path_factory.mktemp("bench") / "history.jsonl"
    command = [sys.executable, "bench/run.py", "--size", "tiny", "--json"]
    command += ["--history", str(history)]
    environment = {**os.environ, "TALLY_PURE": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = history.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(done.stdout)]
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def test_a_run_has_its_fields(run: dict[str, Any]) -> None:
    """PF-01: host, load, commit and every measure stand in the JSON, each with its ratio to L1."""
    assert {"at", "commit", "changed", "host", "load", "seconds", "rounds"} <= run.keys()
    known = {"cpu", "cores", "python", "interpreter", "system"}
    assert run["host"].keys() == host().keys() == known
    assert "pure" in run["paths"]
    for path in run["paths"].values():
        for name in page.UNITS:
            assert path[name].keys() == RATE
            assert path[name]["best"] >= path[name]["median"] > 0
        assert path["l1"]["to_l1"] == 1
        assert {"encode", "decode", "admit", "read"} <= path["k5"].keys()


def test_the_kernel_is_measured(run: dict[str, Any]) -> None:
    """KN-24: ticks/s, records/s on open, verified ticks/s and bytes per tick are in every run."""
    for path in run["paths"].values():
        for name in ("k1_order", "k1_counter", "k2", "k3"):
            assert path[name]["core"] > 0
        assert 500 < path["bytes_per_tick"] < 5000
    assert {"ticks", "records"} == {page.UNITS[name] for name in ("k1_order", "k2")}
    named = " ".join(goal["name"] for goal in run["goals"])
    assert all(goal in named for goal in ("K1 order", "K2 open", "K3 verify", "K4 wasm, fresh"))
    assert run["wasm"]["fresh"] > 0


@pytest.mark.clause("K-42", "X-18")
def test_growth_has_its_fields(run: dict[str, Any]) -> None:
    """PF-01: growth gives ticks, memory, fork and opening at each size; a fork writes one frame."""
    rows = run["scale"]["sizes"]
    assert [row["cells"] for row in rows] == [60, 120]
    for row in rows:
        assert row["dirty_entries"] == 0
        # What so few cells take is less than what the system takes back meanwhile.
        assert min(row["memory"]["mb_visited"], row["memory"]["mb_before"]) > 0
        assert row["fork"].keys() == {"ms", "blobs_written", "nodes_written", "frames_written"}
        assert (row["fork"]["blobs_written"], row["fork"]["nodes_written"]) == (0, 0)
        assert row["fork"]["frames_written"] == 1
        assert all(row[f"tick_{kind}"]["us_cpu"] > 0 for kind in ("hot", "new", "cold"))
    assert [join["units"] for join in run["scale"]["joins"]] == [5, 10]


@pytest.mark.parametrize(("words", "size"), [([], "full"), (["--quick"], "quick")])
def test_sizes_of_a_run(words: list[str], size: str) -> None:
    """PF-01: `make bench` is the full run, --quick the short one."""
    assert arguments(words).size == size
    assert SIZES[size].rounds >= 3


def test_goals_are_told_met_or_missed(run: dict[str, Any]) -> None:
    """PF-03: every goal has its figure in the table and on the page, and a miss is said."""
    shown = page.table(run)
    text = page.page(run, {"k1": [("`f` in kernel/tick.py", 0.5)]})
    assert len(run["goals"]) >= 10
    for goal in run["goals"]:
        assert goal["name"] in shown
        assert goal["name"] in text
        assert goal["figure"] in text
    assert ("MISSED" in shown) == any(not goal["met"] for goal in run["goals"])
    assert "| `f` in kernel/tick.py | 50.0% |" in text


@pytest.mark.clause("K-42", "X-18")
def test_the_page_shows_growth_as_pictures(run: dict[str, Any]) -> None:
    """PF-05: cells, records and open intents, each a picture that the page names."""
    made = curves.pictures(run["scale"])
    assert {each.across for each in made.values()} == {"cells", "records", "open intents"}
    text = page.page(run, {})
    for name, picture in made.items():
        assert f"(pictures/{name})" in text
        assert curves.drawn(picture).startswith("<svg ")


def test_workloads_stand_in_the_table_and_on_the_page(run: dict[str, Any]) -> None:
    """PF-01, PF-03: what was run has a line with its ratios in both."""
    assert run["workloads"].keys() == {"w1", "w5"}
    for text in (page.table(run), page.page(run, {})):
        assert workloads.SHOWN["w1"].title in text
        assert "to best stored peer" in text
    assert run["workloads"]["w1"]["to_l1"] > 0


def test_floors_bite(run: dict[str, Any]) -> None:
    """RL-20, PF-01 control: a floor above the figure is reported, one below it is not."""
    high = {"rates": {"k1_order": 10**9}, "memory_mb": 1}
    assert len(goals.below(run, high)) == 1 + len(run["paths"])
    whole = {**run, "workloads": {"w7": {"events_per_s": 1499, "batched_per_s": 8000}}}
    kept = json.loads((Path(goals.__file__).parent / "floors.json").read_text("utf-8"))
    slow = {"rates": {}, "memory_mb": 10**6, "workloads": kept["workloads"]}
    assert goals.below(whole, slow) == ["w7 events_per_s: 1,499 is below 1,500"]
    whole["workloads"]["w7"]["pace"] = 0.5
    assert goals.below(whole, slow) == []
    whole["workloads"]["w7"] |= {"events_per_s": 749}
    assert goals.below(whole, slow) == ["w7 events_per_s: 749 is below 750"]
    assert goals.below(run, {"rates": {"k1_order": 1}, "memory_mb": 10**6}) == []


def test_windows_report_the_quiet_quarter() -> None:
    """11: the lower quartile is the rate; a slow window shows in the total only."""
    report = Timed(40, 40_000, 20_000, [100.0, 100.0, 100.0, 9_700.0]).report()
    assert (report["us"], report["us_total"], report["us_cpu"]) == (0.1, 1.0, 0.5)
    assert report["rate"] == 10_000_000
    watch = Stopwatch(3)
    assert list(watched("abcd", watch, [1, 2, 1, 1])) == list("abcd")
    timed = watch.stop()
    assert (timed.units, len(timed.windows)) == (5, 1)
    resting = Stopwatch(2)
    for units in (2, 1, 3):
        resting.add(units)
        resting.rest()  # what others do from here on is not of this run
        before = resting.stop()
        resting.go_on()
    assert (before.units, len(before.windows)) == (6, 2)
    assert resting.stop() == before


def test_shares_of_a_profile() -> None:
    """PF-03: samples count for the measure and the innermost function, under its file."""
    stacks = "main (k.py:1);k1 (k.py:2);put (/x/src/tallystick/model/hot.py:7) 3\n"
    stacks += "main (k.py:1);k1 (k.py:2);tick (/x/src/tallystick/kernel/tick.py:9) 1\n"
    stacks += "main (k.py:1);k2 (k.py:3);fold (/x/src/tallystick/kernel/fold.py:9) 5\n"
    stacks += "main (k.py:1);k3 (k.py:3);ticked (k.py:4);decode (/x/canon.py:9) 5\n"
    assert sampled.shares(stacks) == {
        "k1": [("`put` in model/hot.py", 0.75), ("`tick` in kernel/tick.py", 0.25)],
        "k2": [("`fold` in kernel/fold.py", 1.0)],
    }
