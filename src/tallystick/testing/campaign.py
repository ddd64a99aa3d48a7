"""Campaigns: many seeds, one report; and the control, which plants defects to be found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from tallystick.testing.draw import draw
from tallystick.testing.plan import Plan
from tallystick.testing.shrink import Shrinker
from tallystick.testing.simulate import Outcome, Simulation, simulate

CAUGHT_WITHIN: Final = 500
TWICE_EVERY: Final = 50  # two in a hundred seeds run twice and must leave one trace
SHRINK_RUNS: Final = 200

Defect = Callable[[], AbstractContextManager[None]]


def seed_of(base: str, index: int) -> str:
    """The seed of one run of a campaign."""
    return f"{base}-{index}"


def run_seed(base: str, index: int) -> Outcome:
    """Run one seed; some of them twice, to see that chance is all in the seed."""
    first = simulate(seed_of(base, index))
    if index % TWICE_EVERY == 0 and first.invariant is None:
        again = simulate(first.seed)
        if again.trace != first.trace:
            first.invariant, first.message = "I14", "the same seed left another trace"
    return first


def shrunk(plan: Plan, invariant: str, runs_max: int = SHRINK_RUNS) -> Plan:
    """The smallest plan found that breaks the same invariant."""
    return Shrinker(lambda p: Simulation(p).run().invariant == invariant, runs_max).shrink(plan)


@dataclass(slots=True)
class Report:
    """What a campaign has seen, as `sim.json` holds it."""

    commit: str
    base_seed: str
    seeds: int = 0
    jobs: int = 0
    sim_ns: int = 0
    crashes: int = 0
    detected: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    crash_points: dict[str, int] = field(default_factory=dict)
    sometimes: dict[str, int] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, out: Outcome) -> None:
        """Count one run."""
        self.seeds += 1
        self.jobs += out.jobs
        self.sim_ns += out.sim_ns
        self.crashes += out.crashes
        self.detected += out.detected is not None
        _sum(self.faults, out.faults)
        _sum(self.crash_points, out.points)
        _sum(self.sometimes, out.sometimes)
        _sum(self.looked, out.looked)
        if out.invariant is not None:
            self.failures.append(
                {"seed": out.seed, "invariant": out.invariant, "message": out.message}
            )

    def shrink_failures(self, most: int = 3) -> None:
        """Put the smallest plan beside the first failures."""
        for failure in self.failures[:most]:
            if failure["invariant"] != "I14":
                plan = shrunk(draw(failure["seed"]), failure["invariant"])
                failure["decisions"] = len(plan.decisions)
                failure["plan"] = plan.json()

    def json(self, seconds: float) -> dict[str, Any]:
        """The report as one JSON value."""
        return {
            "commit": self.commit,
            "base_seed": self.base_seed,
            "seeds": self.seeds,
            "jobs": self.jobs,
            "sim_hours": round(self.sim_ns / 3.6e12, 3),
            "crashes": self.crashes,
            "damage_detected": self.detected,
            "faults": dict(sorted(self.faults.items())),
            "crash_points": dict(sorted(self.crash_points.items())),
            "sometimes": dict(sorted(self.sometimes.items())),
            "looked_at": dict(sorted(self.looked.items())),
            "failures": self.failures,
            "seconds": round(seconds, 1),
        }


def _sum(into: dict[str, int], more: dict[str, int]) -> None:
    for name, n in more.items():
        into[name] = into.get(name, 0) + n


# ---- control --------------------------------------------------------------------------------


def catch(name: str, plant: Defect, base: str, *, within: int = CAUGHT_WITHIN) -> dict[str, Any]:
    """Look for a planted defect: after how many seeds, by which invariant, shrunk to what.

    A seed counts only if it finds nothing without the defect.
    """
    for index in range(within):
        seed = seed_of(base, index)
        with plant():
            out = simulate(seed)
        # A defect that no longer fits the product breaks it at once, which shows nothing.
        assert "TypeError" not in out.message, f"{name} does not fit: {out.message}"
        if out.invariant is None or simulate(seed).invariant is not None:
            continue
        with plant():
            small = shrunk(draw(seed), out.invariant)
        return {
            "defect": name,
            "caught": True,
            "seeds": index + 1,
            "seed": seed,
            "invariant": out.invariant,
            "message": out.message,
            "decisions": len(small.decisions),
        }
    return {"defect": name, "caught": False, "seeds": within}


def control_json(rows: Iterable[dict[str, Any]], base: str, seconds: float) -> dict[str, Any]:
    """The control as one JSON value (`control.json`)."""
    found = sorted(rows, key=lambda row: str(row["defect"]))
    sizes = [row["decisions"] for row in found if row["caught"]]
    return {
        "base_seed": base,
        "defects": len(found),
        "caught": len(sizes),
        "median_decisions": median(sizes) if sizes else None,
        "most_seeds": max((row["seeds"] for row in found), default=0),
        "rows": found,
        "seconds": round(seconds, 1),
    }
