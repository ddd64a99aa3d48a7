"""Floors of time and rate, scaled by the pace of the machine that a report was made on.

10 section 7: a floor is scaled by a probe of processor and disk that is stored with the figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.cli.pace import SLOWEST, pace_of


def probe(folder: Path) -> dict[str, float]:
    """The pace here, as it is kept with the figures."""
    found = pace_of(folder)
    return {"cpu": found.cpu, "sync": found.sync, "least": found.least}


def rate(found: dict[str, Any], floor: float) -> float:
    """What is enough in a second on such a machine."""
    return floor * float(found["pace"]["least"])


def span(found: dict[str, Any], most: float) -> float:
    """How long something may take on such a machine."""
    return most / float(found["pace"]["least"])


def too_busy(found: dict[str, Any]) -> list[str]:
    """A machine below the least pace shows nothing about floors (ADR 0026)."""
    pace = found["pace"]
    slower = min(pace["cpu"], pace["sync"])
    return [f"a pace of {slower} is too slow to be measured"] if slower < SLOWEST else []
