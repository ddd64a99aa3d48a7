"""`tally bench`: what this machine and this disk give, measured by the shipped parts."""

from __future__ import annotations

from typing import Any, Final

import click

from tallystick.cli import show
from tallystick.cli.verb import Done, Options, Verb, arg, flag

NAMES: Final = ("disk", "lone", "batch", "ticks", "admit")
LONG: Final = ("prove", "fork")  # minutes: only by name


def _bench(call: Any, options: Options) -> Done:
    from tallystick.cli.measure import measure  # noqa: PLC0415  # a node is a heavy import

    wanted = (options["name"],) if options["name"] else NAMES
    rows = measure(call.base, wanted, quick=options["quick"], say=call.say)
    return Done({"items": rows, "next": None, "quick": options["quick"]})


VERBS = (
    Verb(
        "bench",
        "commits, events and ticks a second, on the disk of this folder",
        _bench,
        (
            arg("name", required=False, type=click.Choice([*NAMES, *LONG])),
            flag("quick", "a few seconds, coarse figures"),
        ),
        {
            "items": [{"name": str, "unit": str, "value": float, "n": int, "says": str}],
            "next": None,
            "quick": bool,
        },
        show.columns("name", "value", "unit", "n", "says"),
    ),
)
