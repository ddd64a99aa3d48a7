"""`tally backup`, `tally restore`, `tally gc`: keep a copy, come back from it, throw away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import Done, Options, Verb, arg, flag


def _backup(call: Any, options: Options) -> Done:
    call.say("copying the journal at one sequence ...")
    body = {"dest": str(Path(options["dest"]).absolute())}
    return Done(call.ask(Request("POST", "/v1/backup", body=body)))


def _gc(call: Any, options: Options) -> Done:
    from tallystick.cli.collect import collect  # noqa: PLC0415  # a node is a heavy import

    return Done(collect(call.config, dry_run=options["dry_run"]))


BACKUP = {"backup": str, "dest": str, "worlds": [ANY], "files": int}

VERBS = (
    Verb("backup", "a copy of everything, while the node runs", _backup, (arg("dest"),), BACKUP),
    Verb(
        "gc",
        "remove what nothing names any more",
        _gc,
        (flag("dry-run", "say what would go"),),
        {
            "dry_run": bool,
            "worlds": [{"world": str, "orphans": int, "bytes": int, "removed": int}],
        },
    ),
)
