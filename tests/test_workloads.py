"""W1 to W10 run end to end; whether their figures are good is not for tests."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import options
from bench.hosted import Ends, Noop, node_in, send
from bench.recovery import Gate
from bench.tally import MEASURES

ROOT = Path(__file__).resolve().parent.parent
TINY = {
    "w1": 8,
    "w2": 2,
    "w3": 5,
    "w4": 6,
    "w5": 4,
    "w6": 1,
    "w7": 70,
    "w8": 3,
    "w9": 40,
    "w10": 20,
}


def measured(workload: str, folder: Path) -> dict[str, Any]:
    given = options.Options(workload, TINY[workload], folder, settle_s=0.01)
    return asyncio.run(MEASURES[workload](given))


def test_every_workload_has_its_program() -> None:
    """PF-01: the workloads of the command line are those that are measured, each with a size."""
    assert tuple(MEASURES) == options.WORKLOADS
    assert options.SIZES.keys() == TINY.keys() == MEASURES.keys()


def test_a_run_is_one_line_of_json(tmp_path: Path) -> None:
    """PF-01: the program writes the same fields as those of the peers, to its file too."""
    out = tmp_path / "w1.json"
    words = ["--workload", "w1", "--n", "8", "--conc", "3", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "bench/tally.py", *words], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said == json.loads(out.read_text("utf-8"))
    assert {"peer", "version", "workload", "n", "conc", "load1", "when", "disk_mb"} <= said.keys()
    assert said["completed"] == 8
    assert said["wf_per_s"] > 0
    assert said["steps_per_s"] == pytest.approx(3 * said["wf_per_s"], rel=0.01)


@pytest.mark.parametrize("workload", ["w2", "w6"])
def test_one_at_a_time(workload: str, tmp_path: Path) -> None:
    """PF-01: latency of one step and of forty, each instance to its durable end."""
    figures = measured(workload, tmp_path)
    assert figures["samples"] == TINY[workload]
    assert figures["p99_ms"] >= figures["p50_ms"] > 0
    assert figures["steps"] == {"w2": 1, "w6": 40}[workload]


def test_parked_instances_wait(tmp_path: Path) -> None:
    """PF-01: as many wait as were made, but for the one that was woken."""
    figures = measured("w3", tmp_path)
    assert figures["waiting"] == 2 * TINY["w3"] - 1
    assert figures["rss_mb"] >= figures["base_rss_mb"] * 0.5 > 0


@pytest.mark.clause("K-26")
def test_a_killed_process_is_recovered(tmp_path: Path) -> None:
    """PF-01: after SIGKILL all instances end, and no completed step is performed again."""
    figures = measured("w4", tmp_path)
    assert figures["in_flight"] == figures["recovered"] == TINY["w4"]
    assert figures["complete"] is True
    assert figures["s1_reexec"] == 0


def test_children_are_joined(tmp_path: Path) -> None:
    """PF-01: the parent ends after all its children."""
    figures = measured("w5", tmp_path)
    assert figures["children_per_s"] > 0


def test_events_over_http(tmp_path: Path) -> None:
    """PF-01: 64 connections, one event or a batch a request, every answer 202."""
    figures = measured("w7", tmp_path)
    assert figures["conns"] == 64
    assert figures["samples"] == TINY["w7"]
    assert figures["events_per_s"] > 0
    assert figures["batched"]["batch"] == 100


@pytest.mark.clause("X-18")
def test_many_cells_and_a_restart(tmp_path: Path) -> None:
    """PF-01: cells and open intents are opened by another process, which answers events."""
    figures = measured("w10", tmp_path)
    assert figures["first_seq"] > 2 * TINY["w10"], "the cells were there"
    assert figures["samples"] == TINY["w10"]
    assert figures["intents"]["n"] == 2
    assert figures["intents"]["open_s"] > 0


def test_a_step_that_is_performed_again_is_seen(tmp_path: Path) -> None:
    """PF-01 control: the gate counts first steps, so one that ran twice would show in W4."""

    async def twice() -> dict[int, int]:
        (tmp_path / "gate_open").touch()
        gate = Gate(tmp_path)
        async with node_in(tmp_path, Noop(gate)) as (node, world):
            ends = Ends(node, world)
            for name in "ab":
                await send(node, world, "Start", name=name, steps=3)
            await ends.reach(2, 60)
            await ends.close()
        return gate.asked

    assert asyncio.run(twice()) == {1: 2, 2: 2, 3: 2}


@pytest.mark.clause("F-22")
def test_a_watched_tree(tmp_path: Path) -> None:
    """PF-01, RX-17: a storm loses nothing and is few batches; scans read what they must."""
    figures = measured("w9", tmp_path)
    assert figures["files"] == figures["storm_files"] == TINY["w9"]
    assert (figures["storm_lost"], figures["storm_equals_cold_scan"]) == (0, True)
    assert 1 <= figures["storm_batches"] <= 3
    assert figures["edit_to_decision_ms"] > figures["settle_ms"]
    assert figures["queue"][-1] == 9_900
    assert max(figures["queue_state_bytes"]) < 4 * figures["queue_state_bytes"][1]
