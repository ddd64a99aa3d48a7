"""What every workload program is told and what it says: the same options, one line of JSON."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

WORKLOADS: Final = ("w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9", "w10")
SIZES: Final[Mapping[str, int]] = {
    "w1": 5_000,
    "w2": 300,
    "w3": 5_000,
    "w4": 2_000,
    "w5": 1_000,
    "w6": 20,
    "w7": 20_000,
    "w8": 1_000,
    "w9": 10_000,
    "w10": 1_000_000,
}
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_BEAT: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Options:
    """What one run measures."""

    workload: str
    n: int
    folder: Path
    conc: int = 100
    out: Path | None = None
    role: str = "driver"
    limit_s: float = 120.0
    settle_s: float = 1.0


def parser() -> argparse.ArgumentParser:
    """The command line of every workload program."""
    made = argparse.ArgumentParser(description="one workload, one line of JSON")
    made.add_argument("--workload", choices=WORKLOADS, required=True)
    made.add_argument("--n", type=int)
    made.add_argument("--out", type=Path)
    made.add_argument("--conc", type=int, default=100, help="instances in flight (w1)")
    made.add_argument("--role", default="driver", help="driver, or a part that a driver starts")
    made.add_argument("--dir", type=Path, help="folder of the run; a temporary one unless given")
    made.add_argument("--limit", type=float, default=120, help="give up after so many seconds")
    made.add_argument("--settle", type=float, default=1, help="w3: seconds before memory is read")
    return made


@contextmanager
def options(words: Sequence[str] | None = None) -> Iterator[Options]:
    """The options of this run; a temporary folder is removed at the end."""
    given = parser().parse_args(words)
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        yield Options(
            given.workload,
            given.n or SIZES[given.workload],
            given.dir or Path(folder),
            given.conc,
            given.out,
            given.role,
            given.limit,
            given.settle,
        )


def tell(given: Options, figures: Mapping[str, Any]) -> None:
    """Print the run as one line, and write it to the file that was asked for."""
    said = {
        "peer": "tallystick",
        "version": "0.1.0",
        "workload": given.workload,
        "n": given.n,
        "conc": given.conc,
        **figures,
        "disk_mb": round(disk_bytes(given.folder) / 2**20, 1),
        "load1": round(os.getloadavg()[0], 2),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    line = json.dumps(said)
    print(line, flush=True)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(line + "\n", encoding="utf-8")


def disk_bytes(folder: Path) -> int:
    """What lies below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def rss_mb(pid: int | str = "self") -> float:
    """What a process holds in memory now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE / 2**20


def cpu_s(pid: int | str = "self") -> float:
    """Processor time that a process has had, all of its threads.

    What the system tells of others comes in beats of ten milliseconds.
    """
    if pid == "self":
        return time.process_time()
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _BEAT


def share(values: Sequence[float], part: float) -> float:
    """The value below which that part of all values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def latency(seconds: Sequence[float]) -> dict[str, Any]:
    """p50, p99 and mean in milliseconds."""
    return {
        "p50_ms": round(share(seconds, 0.5) * 1e3, 2),
        "p99_ms": round(share(seconds, 0.99) * 1e3, 2),
        "mean_ms": round(sum(seconds) / len(seconds) * 1e3, 2),
        "samples": len(seconds),
    }
