"""Metrics: what the node counts, in the text form that Prometheus reads (04 section 12).

No key and no payload is ever a label.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Final

Labels = tuple[tuple[str, str], ...]

_SECONDS: Final[tuple[float, ...]] = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)
_COUNTS: Final[tuple[float, ...]] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)


class Histogram:
    """Observations in buckets."""

    __slots__ = ("bounds", "buckets", "count", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.count += 1
        self.total += value

    def rows(self) -> Iterator[tuple[str, int]]:
        """Bound and cumulated count, the unbounded last."""
        seen = 0
        for bound, here in zip((*map(str, self.bounds), "+Inf"), self.buckets, strict=True):
            seen += here
            yield bound, seen


class Metrics:
    """Counters and histograms; gauges are asked for when somebody reads."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, int]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        self._gauges: dict[str, Callable[[], Mapping[Labels, float]]] = {}
        self.on_tick: Callable[[str, float], None] | None = None
        self.on_commit: Callable[[float, int], None] | None = None
        self._tick_seconds = Histogram(_SECONDS)
        self._histograms["tally_tick_seconds"] = {(): self._tick_seconds}
        # Every commit and every tick is observed, so these are not looked up by their names.
        self._commit_seconds = Histogram(_SECONDS)
        self._commit_frames = Histogram(_COUNTS)
        self._effect_seconds: dict[Labels, Histogram] = {}
        self._histograms["tally_effect_seconds"] = self._effect_seconds

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Add to a counter."""
        rows = self._counters.setdefault(name, {})
        key = _key(labels)
        rows[key] = rows.get(key, 0) + by

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add to a histogram; names that end in `_frames` count, others are seconds."""
        rows = self._histograms.setdefault(name, {})
        key = _key(labels)
        found = rows.get(key)
        if found is None:
            found = rows[key] = Histogram(_COUNTS if name.endswith("_frames") else _SECONDS)
        found.observe(value)

    def gauge(self, name: str, ask: Callable[[], Mapping[Labels, float]]) -> None:
        """Let a gauge be asked for at reading time."""
        self._gauges[name] = ask

    def ticked(self, workflow: str, outcome: str, seconds: float) -> None:
        """A tick of a workflow took so long."""
        key = (("outcome", outcome), ("workflow", workflow))
        rows = self._counters.setdefault("tally_ticks_total", {})
        rows[key] = rows.get(key, 0) + 1
        self._tick_seconds.observe(seconds)
        if self.on_tick is not None:
            self.on_tick(workflow, seconds)

    def performed(self, effect: str, status: str, seconds: float) -> None:
        """An attempt at an effect ended so, after so long; the labels stand in their order."""
        key = (("effect", effect), ("status", status))
        found = self._effect_seconds.get(key)
        if found is None:
            found = self._effect_seconds[key] = Histogram(_SECONDS)
        found.observe(seconds)
        rows = self._counters.setdefault("tally_effect_attempts_total", {})
        rows[key[:1]] = rows.get(key[:1], 0) + 1

    def late(self, seconds: float) -> None:
        """A timer or timeout was noticed so long after it was due."""
        self.observe("tally_timer_late_seconds", seconds)

    def committed(self, seconds: float, frames: int) -> None:
        """A commit took so long and held so many frames."""
        if self._commit_seconds.count == 0:  # shown from the first one on
            self._histograms["tally_commit_seconds"] = {(): self._commit_seconds}
            self._histograms["tally_commit_frames"] = {(): self._commit_frames}
        self._commit_seconds.observe(seconds)
        self._commit_frames.observe(frames)
        if self.on_commit is not None:
            self.on_commit(seconds, frames)

    def counters(self) -> list[tuple[str, dict[Labels, int]]]:
        """Every counter by name."""
        return [(name, dict(rows)) for name, rows in sorted(self._counters.items())]

    def gauges(self) -> list[tuple[str, Mapping[Labels, float]]]:
        """Every gauge by name, asked for now."""
        return [(name, ask()) for name, ask in sorted(self._gauges.items())]

    def histograms(self) -> list[tuple[str, dict[Labels, Histogram]]]:
        """Every histogram by name."""
        return [(name, dict(rows)) for name, rows in sorted(self._histograms.items())]

    def text(self) -> str:
        """Everything, as text."""
        lines: list[str] = []
        for name, rows in sorted(self._counters.items()):
            lines.append(f"# TYPE {name} counter")
            lines += [f"{name}{_labels(key)} {value}" for key, value in sorted(rows.items())]
        for name, ask in sorted(self._gauges.items()):
            lines.append(f"# TYPE {name} gauge")
            lines += [f"{name}{_labels(key)} {value:g}" for key, value in sorted(ask().items())]
        for name, found in sorted(self._histograms.items()):
            lines.append(f"# TYPE {name} histogram")
            for key, histogram in sorted(found.items(), key=lambda row: row[0]):
                lines += [
                    f"{name}_bucket{_labels((*key, ('le', bound)))} {seen}"
                    for bound, seen in histogram.rows()
                ]
                lines.append(f"{name}_sum{_labels(key)} {histogram.total:g}")
                lines.append(f"{name}_count{_labels(key)} {histogram.count}")
        return "\n".join(lines) + "\n"


def _key(labels: Mapping[str, str]) -> Labels:
    """The labels in order; most metrics have one or none."""
    return tuple(labels.items()) if len(labels) < 2 else tuple(sorted(labels.items()))


def _labels(key: Labels) -> str:
    if not key:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in key) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
