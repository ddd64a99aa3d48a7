"""What a run is held against: the goals, met or not, and the floors below which nothing ships."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bench.paced import floor_at

AT_ONE = "at the pace of one"
READS = 3  # of a cell among a million: the levels of a trie less those that stay in memory
MEGABYTE_SLACK = 32  # what caches of 4,096 cells and 8,192 nodes may hold


class Goal(NamedTuple):
    """One goal with the figure that a run gave."""

    name: str
    goal: str
    figure: str
    met: bool


def judged(run: Mapping[str, Any]) -> list[Goal]:
    """Every goal of this stage, with its figure and whether it is met."""
    made = [*_speed(run), *_growth(run["scale"]), _snapshot(run["snapshot"])]
    return [*made, *_wasm(run.get("wasm"))]


def _speed(run: Mapping[str, Any]) -> Iterator[Goal]:
    for path, made in run["paths"].items():
        order, need = made["k1_order"], 20_000 if path == "pure" else 35_000
        yield _rate(f"K1 order, {path}", order, need, "ticks/s")
        ratio, wall = order["to_l1"], order["to_l1_wall"]
        figure = f"{wall:.2f} by the wall clock, {ratio:.2f} in processor time"
        # As W1 is judged: L1 is a rate of commits, and to wait for the disk is part of it.
        yield Goal(f"K1 order to L1, {path}", ">= 1/3", figure, wall >= 1 / 3)
        yield _rate(f"K2 open, {path}", made["k2"], 100_000, "records/s")
        yield _rate(f"K3 verify, {path}", made["k3"], 15_000, "ticks/s")
        budget = {"pure": (20, 40), "compiled": (10, 8)}[path]
        for name, most in zip(("encode", "decode"), budget, strict=True):
            got = made["k5"][name]
            yield Goal(f"K5 {name}, {path}", f"<= {most} x sha256", f"{got} x", got <= most)


def _wasm(made: Mapping[str, Any] | None) -> Iterator[Goal]:
    """K4; nothing where no engine was."""
    if made is None:
        return
    for name, need in (("fresh", 10_000), ("pooled", 25_000)):
        at_one = made[name] / made["pace"]
        figure = f"{made[name]:,} ticks/s of one core ({made['language']}), {at_one:,.0f} {AT_ONE}"
        goal = f">= {need:,} ticks/s"
        yield Goal(f"K4 wasm, {name} instances", goal, figure, at_one >= need)
    grown = made["trap_mb"]
    name = f"K4 memory gained over {made['traps']:,} traps"
    yield Goal(name, "<= 5 MB", f"{grown} MB", grown <= 5)
    slowest = made["stop_ms"]
    figure = f"{slowest} ms of the processor, {made['stop_wall_ms']} ms by the clock"
    yield Goal(
        f"K4 slowest stop of {made['stops']} bad modules",
        "<= 200 ms",
        figure,
        slowest * made["pace"] <= 200,
    )


def _rate(name: str, made: Mapping[str, Any], need: int, unit: str) -> Goal:
    figure = f"{made['core']:,} {unit}, {made['paced']:,} {AT_ONE}"
    return Goal(name, f">= {need:,} {unit}", figure, made["paced"] >= need)


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
    reads = [row["cold_reads"] for row in rows]
    figure = " -> ".join(map(str, reads))
    name = f"nodes read for a cold cell, {first['cells']:,} to {last['cells']:,}"
    yield Goal(name, f"<= {READS}", figure, max(reads) <= READS)
    held = last["memory"]["mb_visited"] - last["memory"]["mb_before"]
    name = f"memory of {last['cells']:,} parked cells"
    yield Goal(
        name, f"the caches, <= {MEGABYTE_SLACK} MB", f"{held:.1f} MB", held <= MEGABYTE_SLACK
    )
    writes = [row["fork"]["frames_written"] + row["fork"]["blobs_written"] for row in rows]
    spans = " -> ".join(f"{row['fork']['ms']:.1f}" for row in rows)
    yield Goal("fork writes, any size", "one frame", f"{max(writes)}, {spans} ms", max(writes) == 1)
    yield _join(scale["joins"])
    yield _intents(scale["intents"])


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


def _intents(rows: list[dict[str, Any]]) -> Goal:
    costs = [row["us"] for row in rows]
    ratio = max((cost / costs[0] for cost in costs), key=lambda each: abs(each - 1))
    name = f"cost per order flat, {rows[0]['open']:,} to {rows[-1]['open']:,} open intents"
    shown = " -> ".join(f"{cost:.0f}" for cost in costs)
    return Goal(name, "+-20 %", f"{shown} us, at most x {ratio:.2f}", abs(ratio - 1) <= 0.2)


def below(run: Mapping[str, Any], floors: Mapping[str, Any]) -> list[str]:
    """A line for each floor that is not kept at the pace of the run; the median counts."""
    found = []
    for path, made in run["paths"].items():
        for name, floor in floors["rates"].items():
            least = floor_at(made["pace"], floor)
            if made[name]["core"] < least:
                found.append(f"{name} ({path}): {made[name]['core']:,}/s is below {least:,.0f}/s")
    for name, rates in floors.get("workloads", {}).items():
        made = run["workloads"].get(name, {})
        for field, floor in rates.items():
            least = floor_at(made.get("pace", 1), floor)
            if made.get(field, least) < least:
                found.append(f"{name} {field}: {made[field]:,} is below {least:,.0f}")
    most = floors["memory_mb"]
    got = run["scale"]["sizes"][-1]["memory"]["mb_visited"]
    if got > most:
        found.append(f"memory with parked cells: {got} MB is over {most} MB")
    return found
