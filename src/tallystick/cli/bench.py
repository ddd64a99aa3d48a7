"""`tally bench`: what this machine and this disk give, measured by the shipped parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
from rich.console import Console

from tallystick.cli import show
from tallystick.cli.pace import SECONDS, Pace, pace_of
from tallystick.cli.verb import NO, OK, Done, Options, Verb, arg, flag, opt
from tallystick.errors import Rejected
from tallystick.node.path import path_in_use, way_to_compiled

NAMES: Final = ("disk", "lone", "batch", "ticks", "admit")
QUICK_S: Final = 0.5
LONG: Final = ("prove", "fork")  # minutes: only by name


def _bench(call: Any, options: Options) -> Done:
    from tallystick.cli.measure import measure  # noqa: PLC0415  # a node is a heavy import

    call.say("measuring the pace of this machine ...")
    with TemporaryDirectory(prefix=".tally-bench-", dir=call.base) as folder:
        pace = pace_of(Path(folder), QUICK_S if options["quick"] else SECONDS)
    floors = floors_of(options["floors"]) if options["floors"] else {}
    wanted = (options["name"],) if options["name"] else NAMES
    rows = measure(call.base, wanted, quick=options["quick"], say=call.say)
    under = below(rows, floors, pace)
    for line in under:
        call.say(line)
    told = {
        "items": rows,
        "next": None,
        "quick": options["quick"],
        "pace": {**pace._asdict(), "least": pace.least},
        "below": under,
        "path": path_in_use(),
        "compiled_by": way_to_compiled(),
    }
    return Done(told, NO if under else OK)


def floors_of(path: str) -> Mapping[str, float]:
    """The least rates of a file, by the name of the figure, under `bench`."""
    try:
        found = json.loads(Path(path).read_text("utf-8"))["bench"]
        return {str(name): float(least) for name, least in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as why:
        raise Rejected(
            f"{path} names no floors: {why}",
            code="bench.no_floors",
            where={"file": path},
            hint='write {"bench": {"batch": 8000}}',
        ) from why


def below(rows: list[dict[str, Any]], floors: Mapping[str, float], pace: Pace) -> list[str]:
    """A line for each rate that is lower than its floor at the pace of this machine."""
    least = {name: floor * pace.least for name, floor in floors.items()}
    return [
        f"{row['name']}: {row['value']:,} {row['unit']} is below {least[row['name']]:,.0f}"
        f" ({floors[row['name']]:,.0f} at a pace of {pace.least})"
        for row in rows
        if row["value"] < least.get(row["name"], 0)
    ]


def _table(console: Console, value: Any) -> None:
    show.columns("name", "value", "paced", "unit", "n", "says")(console, value)
    way = value["compiled_by"]
    console.print(f"path {value['path']}" + ("" if way is None else f"; for compiled: {way}"))


VERBS = (
    Verb(
        "bench",
        "commits, events and ticks a second, on the disk of this folder",
        _bench,
        (
            arg("name", required=False, type=click.Choice([*NAMES, *LONG])),
            flag("quick", "a few seconds, coarse figures"),
            opt("floors", "file of least rates; below one of them the answer is no"),
        ),
        {
            "items": [
                {
                    "name": str,
                    "unit": str,
                    "value": float,
                    "paced": (float, None),
                    "n": int,
                    "says": str,
                }
            ],
            "next": None,
            "quick": bool,
            "pace": {"cpu": float, "sync": float, "least": float},
            "below": [str],
            "path": str,
            "compiled_by": (str, None),
        },
        _table,
    ),
)
