"""AT-15 sim-seeds (RL-15): whole nodes under drawn faults, seed by seed, keep every invariant."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tallystick.cli.pace import SLOWEST
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.env import plain_environment


def run(bench: Bench) -> dict[str, Any]:
    """Run seeds by the command, and read its report."""
    path = bench.fresh("sim") / "sim.json"
    words = ["--seeds", str(bench["seeds"]), "--base-seed", f"accept-{bench.seed}"]
    code = simulate(bench.planted or "none", *words, "--report", str(path))
    found = json.loads(path.read_text("utf-8"))
    return {
        "exit": code,
        "seeds": found["seeds"],
        "crashes": found["crashes"],
        "faults": sum(found["faults"].values()),
        "failures": len(found["failures"]),
        "seconds": found["seconds"],
        "processor_seconds": found["processor_seconds"],
    }


def simulate(planted: str, *words: str) -> int:
    """The exit code of the simulator with a defect."""
    command = [sys.executable, "-m", "tests.acceptance.kit.simulated", planted, *words]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        command, env=plain_environment(), cwd=root, capture_output=True, timeout=1800, check=False
    )
    return done.returncode


def faults(found: dict[str, Any]) -> list[str]:
    """A seed that broke an invariant, or a run without faults to bear."""
    wrong = [f"{found['failures']} seeds failed"] if found["failures"] or found["exit"] else []
    if not found["crashes"] or not found["faults"]:
        wrong.append("nothing was drawn that could break")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """Two thousand seeds in three minutes of one core, at the pace of this machine's Python.

    Time of the processor, which others on the machine do not take away.
    """
    most = 180 / min(1.0, max(SLOWEST, found["pace"]["cpu"]))
    took = found["processor_seconds"]
    return [f"it took {took} s of a core, {most:.0f} would do"] if took >= most else []


CASE = Case(
    number="at-15",
    name="sim-seeds",
    rows="RL-15",
    run=run,
    faults=faults,
    floors=floors,
    suite="none",
    planted="ack_before_flush",
    small={"seeds": 40},
    full={"seeds": 2000},
)
