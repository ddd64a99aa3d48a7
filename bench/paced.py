"""The pace of the machine around a measurement (ADR 0026)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallystick.cli.pace import SLOWEST, cpu_pace

PROBE_S: Final = 0.3


def paced(measured: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The figures, with the pace taken right before and after them."""
    before = cpu_pace(PROBE_S)
    figures = measured()
    return {**figures, "pace": round((before + cpu_pace(PROBE_S)) / 2, 3)}


def floor_at(pace: float, least: float) -> float:
    """A floor at this pace: it does not rise, and does not fall below a quarter."""
    return least * max(SLOWEST, min(1.0, pace))
