"""The benchmarks: W1 to W9, K1 to K5, L1 and growth (11).

Pure and compiled run by turns, each round in fresh processes; a ratio to L1 is taken inside one
process, then best and median of the rounds are reported.
A run is one line of bench/history.jsonl; --doc writes docs/performance.md from it.
Exit 1 when a floor of bench/floors.json is not kept: goals may be missed, floors may not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import curves, goals, page, sampled, workloads
from bench.paced import paced
from bench.windows import host

ROOT = Path(__file__).resolve().parent.parent
HISTORY = ROOT / "bench" / "history.jsonl"
FLOORS = ROOT / "bench" / "floors.json"
PAGE = ROOT / "docs" / "performance.md"
PICTURES = PAGE.parent / "pictures"
MEASURES = ("k1_order", "k1_counter", "k2", "k3", "l1")


class Size(NamedTuple):
    """How much a run measures."""

    rounds: int
    times: int
    cells: str
    children: str
    snapshot: tuple[str, ...]
    workloads: dict[str, int]
    wasm: tuple[str, str]  # ticks in a round, traps


FULL = {
    "w1": 5000,
    "w2": 300,
    "w3": 30000,
    "w4": 2000,
    "w5": 1000,
    "w6": 10,
    "w7": 5000,
    "w8": 1000,
    "w9": 10000,
}
QUICK = {
    "w1": 1000,
    "w2": 100,
    "w3": 30000,
    "w4": 2000,
    "w5": 300,
    "w6": 3,
    "w7": 2000,
    "w8": 300,
    "w9": 10000,
}
TINY = {"w1": 8, "w5": 4}
SIZES = {
    "full": Size(
        5, 4000, "1e3,1e4,1e5,1e6", "1000,10000", ("1000000", "1000"), FULL, ("2000", "100000")
    ),
    "quick": Size(3, 1000, "1e3,1e4,3e4", "500,2000", ("100000", "100"), QUICK, ("1000", "5000")),
    # For the test of this program.
    "tiny": Size(1, 20, "60,120", "5,10", ("2000", "2"), TINY, ("10", "20")),
}


def program(name: str, path: str, *arguments: str) -> dict[str, Any]:
    """The JSON that a program of this folder prints, on one path, with the pace around it."""
    return paced(lambda: _program(name, path, *arguments))


def _program(name: str, path: str, *arguments: str) -> dict[str, Any]:
    environment = {**os.environ, "TALLY_PURE": "1" if path == "pure" else "0"}
    command = [sys.executable, str(ROOT / "bench" / name), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):  # a program that is over its own bound exits 1 too
        raise SystemExit(f"{name} on the {path} path:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def paths() -> list[str]:
    """The paths that there are: pure always, compiled when all rooms are built."""
    program = "from tallystick.kernel import tick; print(tick.__file__)"
    environment = {**os.environ, "TALLY_PURE": "0"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ["pure"] if done.stdout.strip().endswith(".py") else ["pure", "compiled"]


def commit() -> dict[str, Any]:
    """What was measured."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--short", "src"))}


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Best and median over the rounds of one path, and the ratios taken inside each."""
    made: dict[str, Any] = {}
    for name in MEASURES:
        rates = [each[name]["rate"] for each in rounds]
        made[name] = {
            "best": max(rates),
            "median": round(median(rates)),
            "total_best": max(each[name]["rate_total"] for each in rounds),
            "core": round(median(1e6 / each[name]["us_cpu"] for each in rounds)),
            "paced": round(median(1e6 / each[name]["us_cpu"] / each["pace"] for each in rounds)),
            "us_cpu": min(each[name]["us_cpu"] for each in rounds),
            "to_l1": round(
                median(each["l1"]["us_cpu"] / each[name]["us_cpu"] for each in rounds), 3
            ),
            "to_l1_wall": round(
                median(each[name]["rate_total"] / each["l1"]["rate_total"] for each in rounds), 3
            ),
        }
    fields = ("encode", "decode", "admit", "read")
    made["k5"] = {name: min(each["k5"][name] for each in rounds) for name in fields}
    made["k5"] |= {f"{n}_ns": min(each["k5"][f"{n}_ns"] for each in rounds) for n in fields}
    made["bytes_per_tick"] = rounds[0]["bytes_per_tick"]
    made["pace"] = median(each["pace"] for each in rounds)
    return made


def wasm(size: Size, path: str) -> dict[str, Any] | None:
    """K4, or None where the engine is not installed."""
    if find_spec("wasmtime") is None:
        return None
    ticks, traps = size.wasm
    return program("wasm.py", path, "--times", ticks, "--traps", traps)


def measure(size: Size) -> dict[str, Any]:
    """All figures of one run."""
    begin, load = perf_counter(), os.getloadavg()[0]
    there = paths()
    rounds: dict[str, list[dict[str, Any]]] = {path: [] for path in there}
    for _ in range(size.rounds):
        for path in there:
            rounds[path].append(program("kernel.py", path, "--times", str(size.times)))
    whole = workloads.measured(size.workloads, size.rounds, there[-1])
    options = ["--cells", size.cells, "--children", size.children]
    scale = program("scale.py", there[-1], *options)
    cells, dirty = size.snapshot
    taken = program("snapshot.py", there[-1], "--cells", cells, "--dirty", dirty)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **commit(),
        "host": host(),
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "rounds": size.rounds,
        "orders": size.times,
        "paths": {path: summary(each) for path, each in rounds.items()},
        "workloads": whole,
        "scale": scale,
        "snapshot": taken,
        "wasm": wasm(size, there[-1]),
        "seconds": round(perf_counter() - begin, 1),
    }


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line; that of this process unless given."""
    parser = argparse.ArgumentParser(description="measure, and compare with floors and goals")
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument("--quick", action="store_const", dest="size", const="quick")
    parser.add_argument("--json", action="store_true", help="print the run as JSON")
    parser.add_argument("--doc", action="store_true", help="write docs/performance.md")
    parser.add_argument("--history", type=Path, help="append here; a full run always appends")
    return parser.parse_args(words)


def main() -> int:
    """Measure, tell, keep."""
    given = arguments()
    run = {"size": given.size, **measure(SIZES[given.size])}
    floors = json.loads(FLOORS.read_text(encoding="utf-8"))
    run["goals"] = [
        goal._asdict() for goal in [*workloads.judged(run["workloads"]), *goals.judged(run)]
    ]
    run["below_floor"] = goals.below(run, floors)
    history = given.history or (HISTORY if given.size == "full" else None)
    if history is not None:
        with history.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run, sort_keys=True) + "\n")
    print(json.dumps(run) if given.json else page.table(run))
    if given.doc:
        profile = sampled.profile(ROOT / "bench" / "kernel.py")
        PAGE.write_text(page.page(run, profile), encoding="utf-8")
        PICTURES.mkdir(exist_ok=True)
        for name, picture in curves.pictures(run["scale"]).items():
            (PICTURES / name).write_text(curves.drawn(picture), encoding="utf-8")
    for line in run["below_floor"]:
        print(f"bench: {line}", file=sys.stderr)
    # The tiny run only shows that the program works; its figures mean nothing.
    return 1 if run["below_floor"] and given.size != "tiny" else 0


if __name__ == "__main__":
    raise SystemExit(main())
