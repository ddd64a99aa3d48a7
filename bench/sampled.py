"""Where time goes: a sampling profile of a program on the pure path, by the function running."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

MOST = 25


def profile(program: Path, times: int = 3000) -> list[tuple[str, float]]:
    """(function, share of samples), greatest first; empty when py-spy is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    spy = str(beside) if beside.exists() else shutil.which("py-spy")
    if spy is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "stacks"
        command = [spy, "record", "-f", "raw", "-r", "500", "-o", str(out), "--"]
        command += [sys.executable, str(program), "--times", str(times)]
        environment = {**os.environ, "TALLY_PURE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        if done.returncode != 0 or not out.exists():
            return []
        return shares(out.read_text(encoding="utf-8"))


def shares(stacks: str) -> list[tuple[str, float]]:
    """Samples by innermost function; a stack is frames from outermost on, and a count."""
    counted: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        name, _, place = stack.split(";")[-1].partition(" (")
        file = place.rsplit(":", 1)[0].rsplit(")", 1)[0]
        if "best_ns" not in stack and "<module> (bench" not in stack.split(";")[-1]:
            short = file.split("tallystick/")[-1]
            counted[f"`{name}` in {short}"] += int(count)
    total = sum(counted.values()) or 1
    return [(name, count / total) for name, count in counted.most_common(MOST)]
