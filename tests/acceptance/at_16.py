"""AT-16 planted-bugs (RL-16): the simulation finds each planted defect, and shrinks it."""

from __future__ import annotations

import json
from typing import Any

from tests.acceptance.at_15 import simulate
from tests.acceptance.case import Bench, Case

CLAIMED = "tests.acceptance.kit.simulated"


def run(bench: Bench) -> dict[str, Any]:
    """Plant defects one by one; with the claim that there is one where there is none."""
    path = bench.fresh("control") / "control.json"
    module = CLAIMED if bench.planted else bench["module"]
    base = f"accept-{bench.seed}"
    words = ["--control", "--planted", module, "--base-seed", base, "--report", str(path)]
    code = simulate("none", *words)
    found = json.loads(path.read_text("utf-8"))
    named = sorted(row["defect"] for row in found["rows"])
    missed = sorted(row["defect"] for row in found["rows"] if not row["caught"])
    figures = {name: found[name] for name in _FIGURES}
    return {"exit": code, "named": named, "missed": missed, **figures}


_FIGURES = ("caught", "defects", "most_seeds", "median_decisions", "seconds")


def faults(found: dict[str, Any]) -> list[str]:
    """A defect that was not caught within 500 seeds, or not shrunk to a few decisions."""
    wrong = []
    if found["exit"] or found["caught"] != found["defects"]:
        missed = ", ".join(found["missed"]) or "none"
        wrong.append(
            f"{found['caught']} of {found['defects']} defects were caught; missed: {missed}"
        )
    elif found["most_seeds"] > 500 or found["median_decisions"] > 15:
        wrong.append(f"{found['most_seeds']} seeds, {found['median_decisions']} decisions")
    return wrong


CASE = Case(
    number="at-16",
    name="planted-bugs",
    rows="RL-16",
    run=run,
    faults=faults,
    suite="none",
    planted="nothing",
    small={"module": "tests.acceptance.kit.few"},
    full={"module": "tests.simulation.planted"},
)
