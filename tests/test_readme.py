"""The README says what the program prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def demo(*more: str) -> str:
    command = [sys.executable, "-m", "tallystick", "demo", *more]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return done.stdout


@pytest.mark.clause("K-25")
def test_the_session_is_what_the_program_prints() -> None:
    """ST-11: the block after `make demo` in the README is the output of `tally demo`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```\n\$ make demo\n(.*?)\n```", readme, flags=re.DOTALL)
    assert found is not None, "the README shows the demonstration"
    assert found.group(1) == demo().rstrip()


@pytest.mark.clause("K-25", "X-14", "X-22")
def test_the_demonstration_as_json() -> None:
    """ST-11: `--json` gives one object; roots are equal, and the trace shows each step in order."""
    told = json.loads(demo("--json"))
    assert told["equal"] is True
    assert told["root"] == told["replayed_root"]
    assert len(told["calls"]) == 3, "one refusal, two charges: a restart repeats no settled call"
    kinds = [line["kind"] for line in told["trace"]]
    first = [kinds.index(k) for k in ("event", "tick", "intent", "receipt")]
    assert first == sorted(first), "K-25: event, tick, intent, receipt, in that order"
