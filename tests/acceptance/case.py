"""Cases: an acceptance test with its sizes, its verdict and the defect that its control plants."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.acceptance.kit import report, scaled


@dataclass(slots=True)
class Bench:
    """What one run is given: a folder of its own, a seed, its sizes, and a planted defect."""

    folder: Path
    seed: int
    sizes: Mapping[str, Any]
    planted: str = ""
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def __getitem__(self, name: str) -> Any:
        return self.sizes[name]

    def fresh(self, name: str) -> Path:
        """An empty folder."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path


def _everywhere() -> bool:
    return True


def _no_floors(_found: dict[str, Any]) -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Case:
    """One acceptance test.

    `run` gives figures, `faults` says what is wrong with them: nothing, if the node is sound.
    `floors` says what else is wrong when the machine is quiet and the sizes are full; it is given
    the pace of the machine with the figures.
    `planted` names the defect with which the same run must be found wrong.
    `suite` says what the test suite runs of it in small: `both`, `sound` or `none`; the rest is for
    `scripts/accept`, and for the suite with TALLY_ACCEPT=all.
    """

    number: str
    name: str
    rows: str
    run: Callable[[Bench], dict[str, Any]]
    faults: Callable[[dict[str, Any]], list[str]]
    planted: str
    small: Mapping[str, Any]
    full: Mapping[str, Any]
    floors: Callable[[dict[str, Any]], list[str]] = _no_floors
    control: Mapping[str, Any] | None = None
    possible: Callable[[], bool] = _everywhere
    suite: str = "sound"


def wrong(case: Case, bench: Bench) -> tuple[list[str], dict[str, Any]]:
    """What a run shows to be wrong, and its figures; a node that does not come up is wrong."""
    try:
        found = case.run(bench)
    except (AssertionError, subprocess.TimeoutExpired, OSError, HTTPException) as why:
        return [f"the run broke off: {why}"[:2000]], {}
    return case.faults(found), found


def _below(case: Case, figures: dict[str, Any]) -> list[str]:
    """The floors that a full run has missed; a machine that is too busy has missed them all."""
    if case.floors is _no_floors:
        return []
    return case.floors(figures) + scaled.too_busy(figures)


def full_report(case: Case, folder: Path, seed: int, *, full: bool) -> dict[str, Any]:
    """Run a case and its control; the report as it is written."""
    sizes = case.full if full else case.small
    folder.mkdir(parents=True, exist_ok=True)
    pace = {"pace": scaled.probe(folder)} if full else {}
    faults, figures = wrong(case, Bench(folder / "run", seed, sizes))
    if full and figures:
        figures |= pace
        faults += _below(case, figures)
    planted = Bench(folder / "control", seed, case.control or case.small, case.planted)
    found, _ = wrong(case, planted)
    command = (
        f"scripts/accept {case.number.removeprefix('at-')}{' --full' if full else ''} --seed {seed}"
    )
    return {
        "at": case.number,
        "name": case.name,
        "rows": case.rows,
        "command": command,
        "seed": seed,
        "full": full,
        "sizes": dict(sizes),
        "ok": not faults and bool(found),
        "faults": faults,
        "figures": figures,
        "control": {"planted": case.planted, "found": found},
        "machine": report.machine(folder),
        "commit": report.commit(),
        "src": report.src(),
    }
