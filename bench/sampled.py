"""Where time goes: a sampling profile of the kernel on the pure path, by the function running."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

MOST = 12
MEASURES = ("k1", "k2", "k3")

Shares = dict[str, list[tuple[str, float]]]


def profile(program: Path, times: int = 3000) -> Shares:
    """For each measure (function, share of its samples), greatest first.

    Empty when py-spy is not installed.
    """
    beside = Path(sys.executable).with_name("py-spy")
    spy = str(beside) if beside.exists() else shutil.which("py-spy")
    if spy is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "stacks"
        command = [spy, "record", "-f", "raw", "-F", "-r", "500", "-o", str(out), "--"]
        command += [sys.executable, str(program), "--times", str(times)]
        environment = {**os.environ, "TALLY_PURE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        if done.returncode != 0 or not out.exists():
            return {}
        return shares(out.read_text(encoding="utf-8"))


def shares(stacks: str) -> Shares:
    """Samples by innermost function; a stack is frames from outermost on, and a count."""
    counted: dict[str, Counter[str]] = {name: Counter() for name in MEASURES}
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        name, _, place = frames[-1].partition(" (")
        short = place.rstrip(")").rsplit(":", 1)[0].split("tallystick/")[-1]
        for measure in MEASURES:
            # What prepares a measurement has the same callers but for the measure itself.
            if (
                any(frame.startswith(f"{measure} (") for frame in frames)
                and "ticked (" not in stack
            ):
                counted[measure][f"`{name}` in {short}"] += int(count)
    return {
        measure: [(name, n / each.total()) for name, n in each.most_common(MOST)]
        for measure, each in counted.items()
        if each
    }
