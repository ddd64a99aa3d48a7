"""L1, the floor of every durable figure: canonical bytes, hashes and synced commits, nothing else.

It is taken over the very frames that a workload wrote, in the same run and on the same disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import apsw
from bench.windows import Stopwatch, Timed

from tallystick.model.frames import Sealed, open_frame, seal_frame

GROUP: Final = 256
WINDOW: Final = 20  # a millisecond or two: a busy machine leaves enough of these whole


def limit(frames: Sequence[Sealed], folder: Path, units: Sequence[int]) -> Timed:
    """Encode, hash and commit frames in groups; `units` says what each frame counts."""
    opened = [(f.world, f.seq, f.prev, open_frame(f.body)[3]) for f in frames]
    base = _base(folder)
    watch = Stopwatch(WINDOW)
    for at in range(0, len(opened), GROUP):
        group = [seal_frame(*each) for each in opened[at : at + GROUP]]
        with base:
            base.executemany(
                "insert into frames values (?, ?, ?)", [(s.seq, s.hash, s.body) for s in group]
            )
        watch.add(sum(units[at : at + GROUP]))
    timed = watch.stop()
    base.close()
    return timed


def to_limit(frames: Sequence[Sealed], folder: Path, count: int) -> dict[str, Any]:
    """L1 of a workload's own frames: per second and in processor time, by instance."""
    timed = limit(frames, folder, [0] * len(frames))
    return {
        "l1_per_s": round(count * 1e9 / timed.total_ns, 1),
        "l1_us_cpu": round(timed.cpu_ns / count / 1e3, 1),
    }


def one_commit_ms(folder: Path, times: int = 200, size: int = 700) -> float:
    """The median of a commit of one small frame: what a lone event must wait for."""
    base = _base(folder)
    base.execute("delete from frames")
    took = []
    for number in range(times):
        begun = perf_counter()
        base.execute("insert into frames values (?, ?, ?)", (number, bytes(32), bytes(size)))
        took.append(perf_counter() - begun)
    base.close()
    return round(median(took) * 1e3, 3)


def _base(folder: Path) -> apsw.Connection:
    base = apsw.Connection(str(folder / "limit.db"))
    base.pragma("journal_mode", "wal")
    base.pragma("synchronous", "full")
    base.execute(
        "create table if not exists frames (seq integer primary key, hash blob, body blob)"
    )
    return base
