"""`tally bench`: what this machine and this disk give, measured by the shipped parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from tallystick.cli import show
from tallystick.cli.verb import NO, OK, Done, Options, Verb, arg, flag, opt
from tallystick.errors import Rejected

NAMES: Final = ("disk", "lone", "batch", "ticks", "admit")
LONG: Final = ("prove", "fork")  # minutes: only by name


def _bench(call: Any, options: Options) -> Done:
    from tallystick.cli.measure import measure  # noqa: PLC0415  # a node is a heavy import

    floors = floors_of(options["floors"]) if options["floors"] else {}
    wanted = (options["name"],) if options["name"] else NAMES
    rows = measure(call.base, wanted, quick=options["quick"], say=call.say)
    under = below(rows, floors)
    for line in under:
        call.say(line)
    told = {"items": rows, "next": None, "quick": options["quick"], "below": under}
    return Done(told, NO if under else OK)


def floors_of(path: str) -> Mapping[str, float]:
    """The least rates of a file, by the name of the figure, under `bench`."""
    try:
        found = json.loads(Path(path).read_text("utf-8"))["bench"]
    except (OSError, ValueError, KeyError, TypeError) as why:
        raise Rejected(
            f"{path} names no floors: {why}",
            code="bench.no_floors",
            where={"file": path},
            hint='write {"bench": {"batch": 8000}}',
        ) from why
    return {str(name): float(least) for name, least in found.items()}


def below(rows: list[dict[str, Any]], floors: Mapping[str, float]) -> list[str]:
    """A line for each rate that is lower than its floor."""
    return [
        f"{row['name']}: {row['value']:,} {row['unit']} is below {floors[row['name']]:,}"
        for row in rows
        if row["value"] < floors.get(row["name"], 0)
    ]


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
            "items": [{"name": str, "unit": str, "value": float, "n": int, "says": str}],
            "next": None,
            "quick": bool,
            "below": [str],
        },
        show.columns("name", "value", "unit", "n", "says"),
    ),
)
