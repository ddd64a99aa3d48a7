"""A run as people read it: a table in the terminal, and the page docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench import curves, workloads

KINDS = ("hot", "new", "cold")
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
    lines = _columns([HEADS, *_measures(run)])
    lines += ["", *_columns([workloads.HEADS, *workloads.rows(run["workloads"])]), ""]
    lines += [_line(goal) for goal in run["goals"]]
    lines.append(f"\nload {run['load'][0]} -> {run['load'][1]}, {run['seconds']} s")
    return "\n".join(lines)


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(w) if not at else cell.rjust(w) for at, (cell, w) in enumerate(pairs))
        for pairs in ([*zip(row, widths, strict=True)] for row in rows)
    ]


def _line(goal: Mapping[str, Any]) -> str:
    word = "met   " if goal["met"] else "MISSED"
    return f"{word}  {goal['name']}: {goal['figure']} (goal {goal['goal']})"


def _markdown(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


READING = """\
The pace is what this machine does of the one on which the goals were set, by a fixed piece of work
of the standard library around each measurement (ADR 0026): an absolute goal is judged at the pace
of one, a ratio of one run as it is.
`one core` is units per second of processor time, which neighbours stretch less than the wall clock
(they still share its caches); it decides.
`windows` is the wall clock in the lower quartile of short windows, median of the rounds; `best` is
its best round, `whole run` the wall clock of the best whole run.
L1 is the floor: the very frames of K1, encoded, hashed and committed to SQLite in groups of 256
with synchronous=FULL, and nothing else.
All ratios are taken inside one process.
Goals against L1 are judged by the wall clock, since a commit is a wait; `to L1` beside it compares
processor time, which leaves that wait out.
"""


WORKLOADS = """\
Each workload ran in processes of its own, on the path that is named last above, with workflows
from a bundle in the metered lane, sealed receipts and a sync for every commit.
The medians of the peers were taken before, on a machine of the same kind; the ratio to them moves
with the load of the machine, and `bench/side_by_side` takes both sides in one run.
W9 makes ten thousand files, reads them, edits one under a reaction over all of them, and makes as
many again at once; what the scans cost beyond the bare read is the scanner's own.
W10 takes longer than a run may: `python bench/tally.py --workload w10`.
That commits are synced is shown by `python bench/synced.py`, which counts with `strace`.
"""


# tidy: the page from top to bottom.
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
        "## Workloads",
        "",
        *WORKLOADS.splitlines(),
        "",
        *_markdown(workloads.HEADS, workloads.rows(run["workloads"])),
        "## The kernel alone",
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
    paces = [each["pace"] for each in (*run["paths"].values(), *run["workloads"].values())]
    paths = "pure and compiled by turns" if built else "pure only: the compiled path was not built"
    changed = " with changes" if run["changed"] else ""
    return [
        f"Run of {run['at']} at commit {run['commit'][:12]}{changed}.",
        f"Size: {run['size']}. {run['rounds']} rounds of {run['orders']:,} orders, {paths}.",
        *_busy(load, where["cores"]),
        (
            f"Host: {where['cpu']}, {where['cores']} cores, Python {where['python']} "
            f"({where['interpreter']}), "
            f"{where['system']}; load average {load[0]} before and {load[1]} after."
        ),
        f"Pace: {min(paces):.2f} to {max(paces):.2f}.",
        "",
    ]


def _busy(load: list[float], cores: int) -> list[str]:
    """What a reader must know of a machine that was not ours alone."""
    if max(load) <= cores:
        return []
    return [
        "The machine was busy with other work: more waited for a processor than it has.",
        "Ratios within the run still say something, figures by the second are far too low.",
    ]


def _profile(name: str, parts: list[tuple[str, float]]) -> list[str]:
    return _markdown([f"{name.upper()}: function", "share"], [[n, f"{p:.1%}"] for n, p in parts])


def _growth_table(scale: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            f"{row['cells']:,}",
            *[f"{row[f'tick_{kind}']['us']:.0f}" for kind in KINDS],
            f"{row['cold_reads']:.1f}",
            f"{row['memory']['mb_visited'] - row['memory']['mb_before']:.1f}",
            f"{row['snapshot']['ms']:.0f} ({row['snapshot']['dirty']:,})",
            f"{row['fork']['ms']:.1f}",
            f"{row['open_ms']:.1f}",
        ]
        for row in scale["sizes"]
    ]
    heads = [
        "cells",
        "hot us",
        "new us",
        "cold us",
        "reads",
        "MB",
        "snapshot ms (dirty)",
        "fork ms",
    ]
    words = f"Growth, on the {scale['path']} path; ticks of the counter in quiet windows."
    shown = [f"![{each.title} over {each.across}]({name})" for name, each in _pictures(scale)]
    table = _markdown([*heads, "open ms"], rows)
    return ["## Growth", "", words, "", *table, *[f"{line}\n" for line in shown]]


def _pictures(scale: Mapping[str, Any]) -> list[tuple[str, curves.Picture]]:
    return [(f"pictures/{name}", each) for name, each in curves.pictures(scale).items()]
