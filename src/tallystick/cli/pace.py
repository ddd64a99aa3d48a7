"""The pace of a machine: what Python and the disk do here, against the machine of the goals.

Goals and floors were set on one machine; another one, or the same in a bad minute, runs the same
code at half that speed.
So a rate is held against its floor times the pace, and a figure is told together with it (10
section 7: "scaled by a probe of CPU and fsync stored with the figures").
A beat uses the standard library alone: nothing of ours is in it, so slow code of ours cannot make
the machine look slow.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

# What a beat takes there in microseconds, and a synced write of 4 KiB: ADR 0026 says how they
# were found.
BEAT_US: Final = 217.0
SYNC_US: Final = 100.0
SECONDS: Final = 5.0
SLOWEST: Final = 0.25  # a machine below this is too busy to be measured: floors fall no further
EVENTS: Final = 40
PAGE: Final = b"x" * 4096


class Pace(NamedTuple):
    """How fast this machine is; 1.0 is the machine on which the goals were set."""

    cpu: float
    sync: float

    @property
    def least(self) -> float:
        """What a floor is multiplied with: one at most, the slower of both decides."""
        return max(SLOWEST, min(1.0, self.cpu, self.sync))


def pace_of(folder: Path, seconds: float = SECONDS) -> Pace:
    """Beat for half of the time, write and sync in the folder for the other half."""
    return Pace(cpu_pace(seconds / 2), _sync_pace(folder, seconds / 2))


def cpu_pace(seconds: float) -> float:
    """The pace of Python alone."""
    ends, took = time.perf_counter() + seconds, [beat_us()]
    while time.perf_counter() < ends:
        took.append(beat_us())
    return cpu_of(took)


def cpu_of(took: list[float]) -> float:
    """The pace that beats of so many microseconds show; their median counts."""
    return round(BEAT_US / median(took), 3)


def beat_us() -> float:
    """One beat, in microseconds of the processor; one before it warms what others made cold."""
    _beat()
    begun = time.thread_time_ns()
    assert _beat() == EVENTS
    return (time.thread_time_ns() - begun) / 1e3


class _Row:
    __slots__ = ("links", "state")

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.links: list[tuple[int, int, bytes]] = []


def _beat() -> int:
    """Events told as text, read, folded into rows, hashed in a chain: work like a journal's."""
    rows: dict[str, _Row] = {}
    chain = b""
    out: list[tuple[int, bytes, bytes, bool]] = []
    for number in range(EVENTS):
        text = json.dumps({"name": f"cell-{number}", "by": number, "tags": ["a", "b"]})
        event = json.loads(text)
        row = rows.get(event["name"])
        if row is None:
            row = rows[event["name"]] = _Row()
        row.state, kind = _step(row, event)
        body = json.dumps(row.state).encode()
        chain = hashlib.sha256(chain + body).digest()
        row.links.append((number, kind, chain))
        out.append((number, chain, body, kind > 1))
    out.sort(key=lambda each: each[1])
    return len(out)


def _step(row: _Row, event: dict[str, Any]) -> tuple[dict[str, Any], int]:
    total = row.state.get("total", 0) + event["by"]
    return {**row.state, "total": total, "last": event["name"]}, total & 3


def _sync_pace(folder: Path, seconds: float) -> float:
    ends = time.perf_counter() + seconds
    took: list[float] = []
    path = folder / "pace"
    with path.open("wb", buffering=0) as file:
        while not took or time.perf_counter() < ends:
            file.write(PAGE)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - begun) * 1e6)
    path.unlink()
    return round(SYNC_US / median(took), 3)
