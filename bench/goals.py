"""What a run is held against: the goals, met or not, and the floors below which nothing ships."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

MEGABYTE_SLACK = 32  # what caches of 4,096 cells and 8,192 nodes may hold


class Goal(NamedTuple):
    """One goal with the figure that a run gave."""

    name: str
    goal: str
    figure: str
    met: bool


def judged(run: Mapping[str, Any]) -> list[Goal]:
    """Every goal of this stage, with its figure and whether it is met."""
    return [*_speed(run), *_growth(run["scale"]), _snapshot(run["snapshot"])]


def _speed(run: Mapping[str, Any]) -> Iterator[Goal]:
    for path, made in run["paths"].items():
        order, need = made["k1_order"], 20_000 if path == "pure" else 35_000
        yield _rate(f"K1 order, {path}", order, need, "ticks/s")
        ratio, wall = order["to_l1"], order["to_l1_wall"]
        figure = f"{ratio:.2f} in processor time, {wall:.2f} with the wait for the disk"
        yield Goal(f"K1 order to L1, {path}", ">= 1/3", figure, ratio >= 1 / 3)
        yield _rate(f"K2 open, {path}", made["k2"], 100_000, "records/s")
        yield _rate(f"K3 verify, {path}", made["k3"], 15_000, "ticks/s")
        budget = {"pure": (20, 40), "compiled": (10, 8)}[path]
        for name, most in zip(("encode", "decode"), budget, strict=True):
            got = made["k5"][name]
            yield Goal(f"K5 {name}, {path}", f"<= {most} x sha256", f"{got} x", got <= most)


def _rate(name: str, made: Mapping[str, Any], need: int, unit: str) -> Goal:
    figure = f"{made['core']:,} {unit} (quiet windows, best round: {made['best']:,})"
    return Goal(name, f">= {need:,} {unit}", figure, made["core"] >= need)


def _growth(scale: Mapping[str, Any]) -> Iterator[Goal]:
    rows = scale["sizes"]
    first, last = rows[0], rows[-1]
    for kind in ("hot", "new", "cold"):
        costs = [row[f"tick_{kind}"]["us"] for row in rows]
        ratio = max((cost / costs[0] for cost in costs), key=lambda each: abs(each - 1))
        shown = " -> ".join(f"{cost:.0f}" for cost in costs)
        name = f"cost per tick flat, {kind} cells, {first['cells']:,} to {last['cells']:,}"
        figure = f"{shown} us, at most x {ratio:.2f}"
        yield Goal(name, "+-20 %", figure, abs(ratio - 1) <= 0.2)
    held = last["memory"]["mb_visited"] - last["memory"]["mb_before"]
    name = f"memory of {last['cells']:,} parked cells"
    yield Goal(
        name, f"the caches, <= {MEGABYTE_SLACK} MB", f"{held:.1f} MB", held <= MEGABYTE_SLACK
    )
    writes = [row["fork"]["frames_written"] + row["fork"]["blobs_written"] for row in rows]
    spans = " -> ".join(f"{row['fork']['ms']:.1f}" for row in rows)
    yield Goal("fork writes, any size", "one frame", f"{max(writes)}, {spans} ms", max(writes) == 1)
    yield _join(scale["joins"])


def _snapshot(taken: Mapping[str, Any]) -> Goal:
    name = f"snapshot of {taken['cells']:,} cells, {taken['dirty']:,} dirty"
    figure = f"{taken['share']:.2%} of the nodes, {taken['dirty_s'] * 1e3:.0f} ms"
    met = taken["share"] < taken["bound"]
    return Goal(name, f"< {taken['bound']:.0%} of a full one", figure, met)


def _join(joins: list[dict[str, Any]]) -> Goal:
    small, large = joins[0], joins[-1]
    ratio = large["us_cpu"] / small["us_cpu"]
    name = f"join, cost per child flat, {small['children']:,} to {large['children']:,}"
    figure = f"{small['us_cpu']:.0f} -> {large['us_cpu']:.0f} us, x {ratio:.2f}"
    return Goal(name, "+-20 %", figure, abs(ratio - 1) <= 0.2)


def below(run: Mapping[str, Any], floors: Mapping[str, Any]) -> list[str]:
    """A line for each floor that is not kept; the median of the rounds, on one core, counts."""
    found = []
    for path, made in run["paths"].items():
        for name, least in floors["rates"].items():
            if made[name]["core"] < least:
                found.append(f"{name} ({path}): {made[name]['core']:,}/s is below {least:,}/s")
    most = floors["memory_mb"]
    got = run["scale"]["sizes"][-1]["memory"]["mb_visited"]
    if got > most:
        found.append(f"memory with parked cells: {got} MB is over {most} MB")
    return found


# ---- showing --------------------------------------------------------------------------------

UNITS = {"k1_order": "ticks", "k1_counter": "ticks", "k2": "records", "k3": "ticks", "l1": "ticks"}


def _measures(run: Mapping[str, Any]) -> Iterator[list[str]]:
    for path, made in run["paths"].items():
        for name, unit in UNITS.items():
            each = made[name]
            yield [
                f"{name} {path}",
                f"{each['core']:,}",
                f"{each['median']:,}",
                f"{each['best']:,}",
                f"{each['total_best']:,}",
                f"{unit}/s",
                f"{each['us_cpu']:.1f}",
                f"{each['to_l1']:.2f}" if unit == "ticks" else "",
                f"{each['to_l1_wall']:.2f}" if unit == "ticks" else "",
            ]


HEADS = [
    "measure",
    "one core",
    "windows",
    "best",
    "whole run",
    "unit",
    "cpu us",
    "to L1",
    "to L1, wall",
]


def table(run: Mapping[str, Any]) -> str:
    """The run as plain text."""
    rows = [HEADS, *_measures(run)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADS))]
    lines = [
        "  ".join(cell.ljust(w) if not at else cell.rjust(w) for at, (cell, w) in enumerate(pairs))
        for pairs in ([*zip(row, widths, strict=True)] for row in rows)
    ]
    lines.append("")
    lines += [_line(goal) for goal in run["goals"]]
    lines.append(f"\nload {run['load'][0]} -> {run['load'][1]}, {run['seconds']} s")
    return "\n".join(lines)


def _line(goal: Mapping[str, Any]) -> str:
    word = "met   " if goal["met"] else "MISSED"
    return f"{word}  {goal['name']}: {goal['figure']} (goal {goal['goal']})"


def _markdown(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


READING = """\
`one core` is units per second of processor time, which neighbours stretch less than the wall clock
(they still share its caches); it decides.
`windows` is the wall clock in the lower quartile of short windows, median of the rounds; `best` is
its best round, `whole run` the wall clock of the best whole run.
L1 is the floor: the very frames of K1, encoded, hashed and committed to SQLite in groups of 256
with synchronous=FULL, and nothing else.
All ratios are taken inside one process; `to L1` compares processor time, which leaves the wait for
the disk out of L1 and so is the stricter.
"""


def page(run: Mapping[str, Any], profile: Mapping[str, list[tuple[str, float]]]) -> str:
    """The page of goals and figures, generated from one run."""
    goals = [
        [goal["name"], goal["goal"], goal["figure"], "met" if goal["met"] else "**missed**"]
        for goal in run["goals"]
    ]
    lines = [
        "# Performance",
        "",
        "Written by `scripts/bench --doc` from one run; do not edit.",
        "",
        *_run(run),
        READING,
        "## Goals",
        "",
        *_markdown(["goal", "wanted", "figure", ""], goals),
        "## Figures",
        "",
        *_markdown(HEADS, [*_measures(run)]),
        *_growth_table(run["scale"]),
        "## Where the time of the pure path goes",
        "",
        "Samples of each measure, by the function that was running.",
        "",
        *[line for name in profile for line in _profile(name, profile[name])],
    ]
    return "\n".join(lines).rstrip() + "\n"


def _run(run: Mapping[str, Any]) -> list[str]:
    where, load = run["host"], run["load"]
    built = "compiled" in run["paths"]
    paths = "pure and compiled by turns" if built else "pure only: the compiled path was not built"
    changed = " with changes" if run["changed"] else ""
    return [
        f"Run of {run['at']} at commit {run['commit'][:12]}{changed}.",
        f"{run['rounds']} rounds of {run['orders']:,} orders, {paths}.",
        (
            f"Host: {where['cpu']}, {where['cores']} cores, Python {where['python']}, "
            f"{where['system']}; load average {load[0]} before and {load[1]} after."
        ),
        "",
    ]


def _profile(name: str, parts: list[tuple[str, float]]) -> list[str]:
    return _markdown([f"{name.upper()}: function", "share"], [[n, f"{p:.1%}"] for n, p in parts])


def _growth_table(scale: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            f"{row['cells']:,}",
            *[f"{row[f'tick_{kind}']['us']:.0f}" for kind in ("hot", "new", "cold")],
            f"{row['memory']['mb_visited'] - row['memory']['mb_before']:.1f}",
            f"{row['snapshot']['ms']:.0f} ({row['snapshot']['dirty']:,})",
            f"{row['fork']['ms']:.1f}",
            f"{row['open_ms']:.1f}",
        ]
        for row in scale["sizes"]
    ]
    heads = ["cells", "hot us", "new us", "cold us", "MB", "snapshot ms (dirty)", "fork ms"]
    words = f"Growth, on the {scale['path']} path; ticks of the counter in quiet windows."
    return ["## Growth", "", words, "", *_markdown([*heads, "open ms"], rows)]
