"""What is told of a run: ratios to peers, goals of workloads, pictures, synced commits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from bench import curves, synced, workloads

ROOT = Path(__file__).resolve().parent.parent
GOOD: dict[str, Any] = {
    "w1": {"wf_per_s": 7000, "to_l1": 0.21, "to_l1_cpu": 0.3, "us_cpu": 140},
    "w2": {"p50_ms": 1.2, "p99_ms": 9, "to_commits": 1.4, "commit_ms": 0.4},
    "w3": {"kb_per_instance": 0.4},
    "w4": {"recover_s": 1.0, "s1_reexec": 0, "in_flight": 2000, "complete": True},
    "w5": {"children_per_s": 11_000},
    "w6": {"p50_ms": 60, "to_commits": 2, "commit_ms": 0.4},
    "w7": {"events_per_s": 6000, "batched": {"batch": 100}, "batched_per_s": 31_000},
}
POOR: dict[str, Any] = {
    "w1": {"wf_per_s": 400, "to_l1": 0.1},
    "w2": {"p99_ms": 11, "to_commits": 1.6},
    "w3": {"kb_per_instance": 4},
    "w4": {"recover_s": 20, "s1_reexec": 1},
    "w5": {"children_per_s": 900},
    "w6": {"to_commits": 4},
    "w7": {"events_per_s": 4999, "batched_per_s": 100},
}


def run_of(figures: dict[str, Any]) -> dict[str, Any]:
    made = {name: {"n": 2000, "pace": 1.0, **each} for name, each in figures.items()}
    return {name: {**m, "values": [m[workloads.SHOWN[name].field]]} for name, m in made.items()}


def test_goals_of_workloads_are_met_or_missed() -> None:
    """PF-03: good figures meet every goal; each poor one is said to miss its own."""
    good = workloads.judged(run_of(GOOD))
    assert [goal.name for goal in good if not goal.met] == []
    poor = workloads.judged(run_of({name: {**GOOD[name], **POOR[name]} for name in GOOD}))
    assert [goal.name for goal in poor if goal.met] == []
    assert len(good) == len(poor) >= 12


def test_ratios_go_by_what_is_better() -> None:
    """PF-01: more instances and fewer milliseconds are better; recovery goes by the instance."""
    run = run_of(GOOD)
    assert workloads.best_peer("w1", run["w1"]) == ("Restate 1.7 + Python SDK", 7000 / 458)
    name, ratio = workloads.best_peer("w2", run["w2"]) or ("", 0.0)
    assert (name, round(ratio, 2)) == ("LangGraph 1.2 + SQLite saver", 3.17)
    _, ratio = workloads.best_peer("w4", {**run["w4"], "n": 1000}) or ("", 0.0)
    assert round(ratio, 2) == 1.85
    assert workloads.best_peer("w7", run["w7"]) is None


def test_the_table_names_every_workload() -> None:
    """PF-01: a line each, with the ratio to L1 and to the best stored peer."""
    shown = workloads.rows(run_of(GOOD))
    assert [row[0][:2] for row in shown] == ["W1", "W2", "W3", "W4", "W5", "W6", "W7"]
    assert all(len(row) == len(workloads.HEADS) for row in shown)
    assert shown[0][-2:] == ["0.21", "15.3 x Restate 1.7 + Python SDK"]


def test_the_middle_run_is_kept() -> None:
    """11: of three runs the median is told, with all three figures."""
    runs = [{"wf_per_s": each, "us_cpu": each * 2} for each in (5, 9, 7)]
    assert workloads.middle("w1", runs) == {"wf_per_s": 7, "us_cpu": 14, "values": [5, 9, 7]}


@pytest.mark.clause("K-42", "X-18")
def test_growth_is_drawn() -> None:
    """PF-05: each picture is well-formed, and a cost that doubles is drawn twice as high."""
    lines = {"flat": [(1e3, 10.0), (1e6, 10.0)], "steep": [(1e3, 10.0), (1e6, 20.0)]}
    text = curves.drawn(curves.Picture("us of a tick", "cells", lines))
    tree = ET.fromstring(text)
    drawn = [each.attrib["points"].split() for each in tree if each.tag.endswith("polyline")]
    heights = [[float(point.split(",")[1]) for point in line] for line in drawn]
    floor = curves.HEIGHT - curves.BOTTOM
    assert heights[0][0] == heights[0][1] == heights[1][0]
    assert floor - heights[1][1] == pytest.approx(2 * (floor - heights[1][0]), abs=0.2)


def test_the_page_of_the_docs_has_its_pictures() -> None:
    """PF-03, PF-05: the generated page holds the goals of the workloads; its pictures exist."""
    text = (ROOT / "docs" / "performance.md").read_text("utf-8")
    for goal in workloads.judged(run_of(GOOD)):
        assert f"| {goal.name} |" in text
    for name in ("growth-cells.svg", "growth-records.svg", "growth-intents.svg"):
        assert f"(pictures/{name})" in text
        ET.parse(ROOT / "docs" / "pictures" / name)


PEER = """
import json, pathlib, sys
said = dict(zip(sys.argv[1::2], sys.argv[2::2]))
pathlib.Path(said["--out"]).write_text(json.dumps({"p50_ms": 1e9}))
with open(__file__ + ".log", "a") as log: log.write("ran\\n")
"""


def test_ours_and_an_installed_peer_by_turns(tmp_path: Path) -> None:
    """PF-02: an installed peer runs as often as we do, and the ratio says who is better."""
    python = tmp_path / "venvs" / "slow" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    program = tmp_path / "slow_bench.py"
    program.write_text(PEER)
    (tmp_path / "absent_bench.py").write_text("raise SystemExit(1)")
    words = ["--workloads", "w2", "--rounds", "1", "--n", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "bench/side_by_side", *words],
        cwd=ROOT,
        env={**os.environ, "BENCH_ROOT": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    rows = {row["side"]: row for row in json.loads(done.stdout)}
    assert rows.keys() == {"tallystick", "slow"}, "who is not installed is left out"
    assert {row["runs"] for row in rows.values()} == {1}
    assert (tmp_path / "slow_bench.py.log").read_text() == "ran\n"
    assert rows["slow"]["ours_is_better_by"] > 1
    assert rows["tallystick"]["ours_is_better_by"] is None


@pytest.mark.clause("K-26", "X-07")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_every_commit_is_synced() -> None:
    """PF-04: the kernel of the system sees at least one sync of the log per commit."""
    found = synced.measure(8)
    assert found["commits"] > 3
    assert found["fsync"] + found["fdatasync"] >= found["commits"]


def test_syncs_are_counted_from_the_table() -> None:
    """PF-04 control: a table with too few calls is below one per commit."""
    table = "100.00    0.001          10         3           fdatasync\n"
    assert synced.counted(table) == {"fsync": 0, "fdatasync": 3}
    assert synced.counted("") == {"fsync": 0, "fdatasync": 0}
