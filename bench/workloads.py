"""The workloads of a run: each measured some times, its median, and what it is held against.

Peers are held against by the medians of `bench/peers.json`, which were taken on another day, so a
goal against them is judged at the pace of one (ADR 0026); what is taken side by side is
`bench/side_by_side`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median_low
from typing import Any, Final, NamedTuple

from bench.goals import Goal
from bench.paced import paced

ROOT: Final = Path(__file__).resolve().parent.parent
PEERS: Final = ROOT / "bench" / "peers.json"

Figures = Mapping[str, Any]


class Shown(NamedTuple):
    """What of a workload is told: its field, its unit, and whether more is better."""

    title: str
    field: str
    unit: str
    more: bool = True


SHOWN: Final[Mapping[str, Shown]] = {
    "w1": Shown("W1 throughput", "wf_per_s", "instances/s"),
    "w2": Shown("W2 latency, p50", "p50_ms", "ms", more=False),
    "w3": Shown("W3 parked instance", "kb_per_instance", "KB", more=False),
    "w4": Shown("W4 recovery", "recover_s", "s", more=False),
    "w5": Shown("W5 fan-out and join", "children_per_s", "children/s"),
    "w6": Shown("W6 chain of 40, p50", "p50_ms", "ms", more=False),
    "w7": Shown("W7 events over HTTP", "events_per_s", "events/s"),
    "w8": Shown("W8 iterations of a playbook", "iterations_per_s", "iterations/s"),
    "w9": Shown("W9 edit to decision", "edit_to_decision_ms", "ms", more=False),
}


def one(workload: str, count: int, path: str) -> dict[str, Any]:
    """One run of one workload in a process of its own, with the pace around it."""
    return paced(lambda: _one(workload, count, path))


def _one(workload: str, count: int, path: str) -> dict[str, Any]:
    environment = {**os.environ, "TALLY_PURE": "1" if path == "pure" else "0"}
    words = ["--workload", workload, "--n", str(count)]
    command = [sys.executable, str(ROOT / "bench" / "tally.py"), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{workload}:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measured(sizes: Mapping[str, int], rounds: int, path: str) -> dict[str, Any]:
    """The median run of each workload, with the values of all; rounds are the outer loop."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in sizes}
    for _ in range(rounds):
        for name, count in sizes.items():
            runs[name].append(one(name, count, path))
    return {name: middle(name, each) for name, each in runs.items()}


def middle(workload: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run whose figure is the median, and the figures of all."""
    field = SHOWN[workload].field
    values = [each[field] for each in runs]
    chosen = runs[values.index(median_low(values))]
    return {**chosen, "values": values}


# ---- what they are held against -------------------------------------------------------------


def best_peer(workload: str, figures: Figures) -> tuple[str, float] | None:
    """The best stored peer, and how many times better we are at the pace of one."""
    shown = SHOWN[workload]
    stored = json.loads(PEERS.read_text(encoding="utf-8"))
    ratios = [
        (_ratio(peer[workload], figures, shown), peer["name"])
        for peer in stored.values()
        if workload in peer
    ]
    if not ratios:
        return None
    ratio, name = min(ratios)
    return name, ratio if shown.unit == "KB" else ratio / figures["pace"]


def _ratio(theirs: Any, figures: Figures, shown: Shown) -> float:
    ours = max(figures[shown.field], 1e-3)
    if isinstance(theirs, list):  # seconds for so many: compared by the instance
        seconds, count = theirs
        theirs, ours = seconds / count, ours / figures["n"]
    return float(ours / theirs if shown.more else theirs / ours)


def judged(workloads: Mapping[str, Figures]) -> list[Goal]:
    """The goals of the workloads that were run."""
    return [goal for name, held in _GOALS.items() if name in workloads for goal in held(workloads)]


def _w1(all_: Mapping[str, Figures]) -> Iterator[Goal]:
    w1 = all_["w1"]
    yield _times("W1 against the best engine", "w1", w1, 15)
    figure = f"{w1['to_l1']:.2f} by the wall clock, {w1['to_l1_cpu']:.2f} in processor time"
    met = w1["to_l1"] >= 1 / 5
    yield Goal("W1 to L1 of the same frames", ">= 1/5", figure, met)


def _w2(all_: Mapping[str, Figures]) -> Iterator[Goal]:
    w2 = all_["w2"]
    figure = f"{w2['to_commits']:.2f} x two commits of {w2['commit_ms']} ms, p50 {w2['p50_ms']} ms"
    yield Goal("W2 p50 to two commits", "<= 1.5 x", figure, w2["to_commits"] <= 1.5)
    yield Goal("W2 p99", "<= 10 ms", f"{w2['p99_ms']} ms", w2["p99_ms"] * w2["pace"] <= 10)


def _w3(all_: Mapping[str, Figures]) -> Iterator[Goal]:
    held = all_["w3"]["kb_per_instance"]
    yield Goal("W3 memory of a parked instance", "<= 1 KB", f"{held:.2f} KB", held <= 1)
    ratio = 63 / max(held, 1e-3)
    yield Goal("W3 against Restate", ">= 20 x less", f"{ratio:.0f} x less", ratio >= 20)


def _w4(all_: Mapping[str, Figures]) -> Iterator[Goal]:
    w4 = all_["w4"]
    again = w4["s1_reexec"]
    figure = f"{again} of {w4['in_flight']:,}"
    met = again == 0 and w4["complete"]
    yield Goal("W4 completed steps performed again", "0", figure, met)
    yield _times("W4 against the best engine", "w4", w4, 1)


def _w5(all_: Mapping[str, Figures]) -> Iterator[Goal]:
    yield _times("W5 against the best engine", "w5", all_["w5"], 10)


def _w6(all_: Mapping[str, Figures]) -> Iterator[Goal]:
    w6 = all_["w6"]
    figure = f"{w6['to_commits']:.2f} x 80 commits of {w6['commit_ms']} ms"
    yield Goal("W6 to eighty commits", "<= 3 x", figure, w6["to_commits"] <= 3)


def _w7(all_: Mapping[str, Figures]) -> Iterator[Goal]:
    w7 = all_["w7"]
    for name, got, least in (
        ("W7 single", w7["events_per_s"], 5_000),
        (f"W7 in batches of {w7['batched']['batch']}", w7["batched_per_s"], 30_000),
    ):
        at_one = got / w7["pace"]
        figure = f"{got:,.0f} events/s, {at_one:,.0f} at the pace of one"
        yield Goal(name, f">= {least:,} events/s", figure, at_one >= least)


def _w8(all_: Mapping[str, Figures]) -> Iterator[Goal]:
    w8 = all_["w8"]
    rate = w8["iterations_per_s"] / w8["pace"]
    figure = f"{w8['iterations_per_s']:,.0f} iterations/s, {rate:,.0f} at the pace of one"
    yield Goal("W8 parallel loop", ">= 2,000 iterations/s", figure, rate >= 2_000)
    for name, field, most in (
        ("W8 records of an iteration", "records_per_iteration", 4.1),
        ("W8 commits of an iteration", "commits_per_iteration", 2),
        ("W8 state in the fan-out, bytes", "state_bytes", 16_384),
        ("W8 journal of an iteration, bytes", "journal_bytes_per_iteration", 2_048),
        ("W8 chain of 100, to 200 commits", "chain_to_commits", 3),
        ("W8 100 noop steps, ms", "noops_ms", 50),
    ):
        yield Goal(name, f"<= {most:,}", f"{w8[field]:,}", w8[field] <= most)
    if w8.get("python_s") is not None:  # no sandbox on a machine without bubblewrap
        at_one = w8["python_s"] * w8["pace"]
        figure = f"{w8['python_s']:.2f} s, {at_one:.2f} s at the pace of one"
        yield Goal("W8 100 python steps, each in a sandbox", "<= 3 s", figure, at_one <= 3)
    costs = [w8["us_cpu_small"], w8["us_cpu"], w8["us_cpu_large"]]
    # The one in the middle is a single loop, which may meet a snapshot or none.
    ratio = max(costs[0], costs[2]) / max(min(costs[0], costs[2]), 1)
    figure = f"{' -> '.join(f'{cost:.0f}' for cost in costs)} us, x {ratio:.2f} from end to end"
    name = "W8 cost per iteration, a tenth of the loop to ten times"
    yield Goal(name, "+-20 %", figure, ratio <= 1.2)


def _w9(all_: Mapping[str, Figures]) -> Iterator[Goal]:
    w9 = all_["w9"]
    files = f"{w9['files']:,} files"
    beyond = w9["cold_scan_s"] - w9["raw_read_s"]
    most = 0.5 * w9["files"] / 10_000
    figure = f"{beyond:.2f} s beyond the {w9['raw_read_s']} s of a bare read"
    yield Goal(f"W9 cold scan of {files}", f"<= {most:g} s beyond", figure, beyond <= most)
    most, warm = 0.15 * w9["files"] / 10_000, w9["warm_scan_s"]
    yield Goal(f"W9 warm scan of {files}", f"<= {most:g} s", f"{warm} s", warm <= most)
    edit, settle = w9["edit_to_decision_ms"], w9["settle_ms"]
    figure = f"{edit:.0f} ms, {settle} of them to settle"
    yield Goal("W9 one edit to its decision", "<= 400 ms", figure, edit <= 400)
    derive = w9["derive_us_cpu"]
    yield Goal("W9 guards, for each path", "<= 100 us", f"{derive} us", derive <= 100)
    batches, lost = w9["storm_batches"], w9["storm_lost"]
    figure = f"{batches} batches, {lost} lost, {w9['rss_grown_mb']} MB more"
    met = batches <= 3 and lost == 0 and w9["storm_equals_cold_scan"]
    yield Goal(f"W9 storm of {w9['storm_files']:,} creates", "<= 3 batches, 0 lost", figure, met)
    costs = w9["queue_tick_us"]
    ratio = max(costs) / costs[0]
    figure = f"{' -> '.join(f'{cost:.0f}' for cost in costs)} us, at most x {ratio:.2f}"
    name = f"W9 tick of a workspace, {w9['queue'][0]:,} to {w9['queue'][-1]:,} runs queued"
    yield Goal(name, "<= 2 x", figure, ratio <= 2)


def _times(name: str, workload: str, figures: Figures, least: float) -> Goal:
    found = best_peer(workload, figures)
    assert found is not None, "a goal against engines has stored engines"
    peer, ratio = found
    figure = f"{ratio:.1f} x {peer} (stored, at the pace of one)"
    if figures.get("us_cpu"):  # a very short run may show no processor time at all
        figure += f"; {1e6 / figures['us_cpu']:,.0f} a second of processor time"
    return Goal(name, f">= {least:g} x", figure, ratio >= least)


_GOALS: Final[Mapping[str, Callable[[Mapping[str, Figures]], Iterator[Goal]]]] = {
    "w1": _w1,
    "w2": _w2,
    "w3": _w3,
    "w4": _w4,
    "w5": _w5,
    "w6": _w6,
    "w7": _w7,
    "w8": _w8,
    "w9": _w9,
}

# ---- showing --------------------------------------------------------------------------------

HEADS: Final = [
    "workload",
    "n",
    "median",
    "of all",
    "unit",
    "cpu us",
    "to L1",
    "to best stored peer",
]


def rows(workloads: Mapping[str, Figures]) -> list[list[str]]:
    """A line for each workload."""
    return [_row(name, figures) for name, figures in workloads.items()]


def _row(name: str, figures: Figures) -> list[str]:
    shown = SHOWN[name]
    peer = best_peer(name, figures)
    values = sorted(figures["values"])
    floor = figures.get("to_l1")
    return [
        shown.title,
        f"{figures['n']:,}",
        f"{figures[shown.field]:,}",
        f"{values[0]:,} to {values[-1]:,}",
        shown.unit,
        f"{figures['us_cpu']:,.0f}" if "us_cpu" in figures else "",
        "" if floor is None else f"{floor:.2f}",
        "" if peer is None else f"{peer[1]:.1f} x {peer[0]}",
    ]
