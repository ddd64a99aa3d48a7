"""Windows: a long run timed in short pieces, because the machine is never ours alone.

The lower quartile of many windows is what the code costs when it is left in peace; the total is
what the run took, neighbours and collector included.
Both are reported: the first compares commits, the second keeps the first honest.
Processor time is the third: neighbours stretch it less, and waiting for a disk is not in it.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter_ns, process_time_ns
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Timed(NamedTuple):
    """One run: how many units, how long in all, and nanoseconds per unit in each window."""

    units: int
    total_ns: int
    cpu_ns: int
    windows: list[float]

    def report(self) -> dict[str, Any]:
        """Microseconds per unit and units per second; `rate` is that of the lower quartile."""
        ordered = sorted(self.windows) or [self.total_ns / max(1, self.units)]
        quartile = ordered[len(ordered) // 4]
        return {
            "units": self.units,
            "rate": round(1e9 / quartile),
            "rate_total": round(self.units * 1e9 / max(1, self.total_ns)),
            "us": round(quartile / 1e3, 2),
            "us_best": round(ordered[0] / 1e3, 2),
            "us_median": round(median(ordered) / 1e3, 2),
            "us_total": round(self.total_ns / self.units / 1e3, 2),
            "us_cpu": round(self.cpu_ns / self.units / 1e3, 2),
        }


class Stopwatch:
    """Cuts a run into windows of about `size` units."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pending = 0
        self.units = 0
        self.windows: list[float] = []
        self._total = self._spent = 0  # of what came before the last rest
        self.go_on()

    def go_on(self) -> None:
        """Count time from here on, when others had the machine meanwhile."""
        self._cpu = process_time_ns()
        self._begin = self._cut = perf_counter_ns()

    def rest(self) -> None:
        """Others have their turn; an unfinished window counts for the total alone."""
        self._total += perf_counter_ns() - self._begin
        self._spent += process_time_ns() - self._cpu
        self.units += self._pending
        self._pending = 0
        self.go_on()

    def add(self, units: int) -> None:
        """So many units are done; ends the window when it is full."""
        self._pending += units
        if self._pending >= self._size:
            now = perf_counter_ns()
            self.windows.append((now - self._cut) / self._pending)
            self.units += self._pending
            self._pending = 0
            self._cut = now

    def stop(self) -> Timed:
        """The run; its last window counts for the total alone."""
        if self._pending or not self._total:
            self.rest()
        return Timed(self.units, self._total, self._spent, self.windows)


def watched(items: Iterable[T], watch: Stopwatch, units: Iterable[int]) -> Iterator[T]:
    """The items as they come; each counts its units when the next one is asked for."""
    for item, count in zip(items, units, strict=True):
        yield item
        watch.add(count)


def rss_bytes() -> int:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def host() -> dict[str, Any]:
    """What figures depend on besides the code."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        # An interpreter that was built without profiles takes an eighth longer (ADR 0026).
        "interpreter": "the system's" if sys.base_prefix == "/usr" else "another build",
        "system": f"{platform.system()} {platform.release()}",
    }
