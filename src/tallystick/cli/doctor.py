"""`tally doctor`: is this folder, this machine and this node as they should be?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from tallystick.cli import shapes, show
from tallystick.cli.request import Request
from tallystick.cli.verb import NO, OK, Done, Options, Verb, flag, opt
from tallystick.errors import Rejected, TallyError

_COLOURS = {"ok": "green", "warn": "yellow", "red": "red"}


def _doctor(call: Any, options: Options) -> Done:
    from tallystick.node.doctor import Check, examine, narrow  # noqa: PLC0415  # needs the journal
    from tallystick.node.mending import mend_journal  # noqa: PLC0415  # as above

    config = call.config
    if options["from"] is not None and not options["fix"]:
        raise Rejected("--from goes with --fix", code="request.usage", hint="add --fix")
    fixed = narrow(config) if options["fix"] else []
    mended = mend_journal(config, _folder(options["from"])) if options["fix"] else []
    checks = [*examine(config), *mended]
    if fixed:
        checks.append(Check("fixed", "ok", fixed, "0600"))
    if (config.data / "tally.db").exists():
        checks += _effects(call)
    red = any(check.level == "red" for check in checks)
    return Done({"ok": not red, "checks": [check.shown() for check in checks]}, NO if red else OK)


def _folder(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _effects(call: Any) -> list[Any]:
    """What only a node knows: effects that nobody serves, that are held, that are old."""
    from tallystick.node.doctor import Check  # noqa: PLC0415  # as above

    try:
        worlds = call.ask(Request("GET", "/v1/worlds"))["items"]
        rows = [row for world in worlds for row in _open(call, world["world"])]
    except TallyError as why:
        return [Check("effects", "warn", why.message, "a node that answers", why.hint)]
    alone = sorted({row["effect"] for row in rows if _code(row) == "no_executor"})
    held = sum(row["hold"] is not None for row in rows)
    fix = "enable an executor, or start a worker for it" if alone else None
    return [
        Check("executors", "warn" if alone else "ok", alone or "all served", "all served", fix),
        Check(
            "held", "warn" if held else "ok", held, 0, "tally effect ls --held" if held else None
        ),
        Check("open", "ok", {"open": len(rows), "oldest_seq": _oldest(rows)}),
    ]


def _open(call: Any, world: str) -> list[dict[str, Any]]:
    """The open effects of a world, of all pages."""
    found: list[dict[str, Any]] = []
    query: dict[str, Any] = {"status": "open", "limit": 1000}
    while True:
        page = call.ask(Request("GET", f"/v1/worlds/{world}/effects", query))
        found += page["items"]
        if page["next"] is None:
            return found
        query["after"] = page["next"]


def _code(row: dict[str, Any]) -> Any:
    why = row["why"]
    return why.get("code") if isinstance(why, dict) else why


def _oldest(rows: list[dict[str, Any]]) -> int | None:
    return min((row["opened_seq"] for row in rows), default=None)


def _table(console: Console, value: Any) -> None:
    for check in value["checks"]:
        colour = _COLOURS[check["level"]]
        found = escape(show.text_of(check["found"]))
        console.print(f"[{colour}]{check['level']:<4}[/] {check['id']:<12} {found}", soft_wrap=True)
        if check["level"] != "ok" and check["fix"]:
            console.print(f"     want {escape(show.text_of(check['want']))}", soft_wrap=True)
            console.print(f"     fix  {escape(check['fix'])}", soft_wrap=True)


VERBS = (
    Verb(
        "doctor",
        "look at the machine, the folder and the node; any red ends with 1",
        _doctor,
        (
            flag("fix", "narrow file modes, and mend what may be made again, while no node runs"),
            opt("from", "a backup that has the blobs which are lost", metavar="BACKUP"),
        ),
        shapes.DOCTOR,
        _table,
    ),
)
