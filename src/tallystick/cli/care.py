"""`tally backup`, `tally restore`, `tally gc`: keep a copy, come back from it, throw away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import Done, Options, Verb, arg, flag, opt
from tallystick.errors import Rejected


def _backup(call: Any, options: Options) -> Done:
    call.say("copying the journal at one sequence ...")
    call.be_patient()
    body = {"dest": str(Path(options["dest"]).absolute())}
    return Done(call.ask(Request("POST", "/v1/backup", body=body)))


def _gc(call: Any, options: Options) -> Done:
    """On a node that runs, or on the files of one that does not."""
    before, archive = options["trim_before"], options["archive"]
    if before is None:
        body: dict[str, Any] = {"dry_run": options["dry_run"]}
    elif not archive or options["dry_run"]:
        raise Rejected(
            "--trim-before needs --archive FILE, and does not go with --dry-run",
            code="request.usage",
            hint="what leaves the journal goes into the archive first",
        )
    else:
        path = str(Path(archive).absolute())
        body = {"world": call.world, "trim_before": before, "archive": path}
    call.be_patient()
    return Done(call.ask(Request("POST", "/v1/gc", body=body)))


BACKUP = {"backup": str, "dest": str, "worlds": [ANY], "files": int}

SWEPT = {"world": str, "orphans": int, "bytes": int, "removed": int, "snapshots": int}
TRIMMED = {"world": str, "base_seq": int, "frames": int, "archive": str, "removed": int}

VERBS = (
    Verb("backup", "a copy of everything, while the node runs", _backup, (arg("dest"),), BACKUP),
    Verb(
        "gc",
        "remove what nothing names any more",
        _gc,
        (
            flag("dry-run", "say what would go"),
            opt("trim-before", "move the floor up to a snapshot below this sequence", type=int),
            opt("archive", "file that gets the whole world first"),
        ),
        ({"dry_run": bool, "worlds": [SWEPT]}, TRIMMED),
    ),
)
