"""AT-03 crash-at-every-write (ND-04, RL-01): each prefix of the writes of a run is sound."""

from __future__ import annotations

from typing import Any

from tests.acceptance.case import Bench, Case
from tests.journal.crash import Run, crash_everywhere


def run(bench: Bench) -> dict[str, Any]:
    """Record the writes of a run, cut them in four ways, and open what is left of the disk."""
    weak = bench.planted == "synchronous_normal"
    return crash_everywhere(Run(bench["events"], weak=weak), bench["every"])


def faults(found: dict[str, Any]) -> list[str]:
    """An image that lost what was acknowledged, or does not open."""
    wrong = [f"{found['violations']} of {found['images']} images: {found['first']}"]
    if found["violations"]:
        return wrong
    return [] if set(found["modes"]) == _MODES else [f"only {sorted(found['modes'])}"]


def floors(found: dict[str, Any]) -> list[str]:
    """At least two thousand images."""
    return [] if found["images"] >= 2000 else [f"only {found['images']} images"]


_MODES = {"kill", "lose", "subset", "torn"}
CASE = Case(
    number="at-03",
    name="crash-at-every-write",
    rows="ND-04 RL-01 I1 I10",
    run=run,
    faults=faults,
    floors=floors,
    suite="none",  # tests/journal/test_faults.py runs both in small
    planted="synchronous_normal",
    small={"events": 20, "every": 15},
    full={"events": 200, "every": 1},
)
