"""`tally reaction` (alias `reflection`): check, run, look at and steer reactions (08)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from rich.console import Console

from tallystick.cli import show
from tallystick.cli.documents import json_of
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import (
    AFTER,
    BAD,
    BROKEN,
    LIMIT,
    NO,
    OK,
    REASON,
    Call,
    Done,
    Options,
    Verb,
    W,
    arg,
    filled,
    flag,
    opt,
    picked,
    reads,
)
from tallystick.cli.workspace import IN, place
from tallystick.errors import Rejected
from tallystick.node.definitions_found import found_in
from tallystick.node.watch_disk import Disk, SystemTime
from tallystick.reactions import scopes
from tallystick.reactions.document import Definition
from tallystick.reactions.ignore import load as load_rules
from tallystick.reactions.scan import Scanner
from tallystick.reactions.tree import DIRECTORY, Tree, shown

_ONE: Final = W + "/reactions/{reaction}"
_RUN: Final = W + "/runs/{run}"
_SHOWN_MAX: Final = 20
_NAME: Final = arg("reaction")


def _check(_call: Call, options: Options) -> Done:
    """Judge the reactions of a directory, and show which files their globs mean."""
    folder = Path(options["dir"]).absolute()
    if not folder.is_dir():
        raise Rejected(f"{folder} is no directory", code="workspace.no_directory")
    disk = Disk(str(folder))
    rules = load_rules(disk.text(b".gitignore") or b"", disk.text(b".tallyignore") or b"")
    tree = Scanner(disk, rules).scan(SystemTime().wall_ns()).tree
    found = found_in(disk, sorted(tree), {}, None, tree)
    rows = [finding.shown(file) for file, finding in found.findings]
    errors = any(row["severity"] == "error" for row in rows)
    code = BAD if errors else NO if rows and options.get("strict") else OK
    value = {
        "ok": code == OK,
        "findings": rows,
        "reactions": [_matched(each, tree) for each in found.definitions],
    }
    return Done(value, code)


def _matched(definition: Definition, tree: Tree) -> dict[str, Any]:
    """What each glob of a definition means on this disk."""
    wanted = [glob for entry in definition["on"] for glob in entry.get("files", ())]
    globs: dict[str, list[str]] = {}
    for glob in [*wanted, *definition["reads"]["files"], *definition["writes"]["files"]]:
        anchored = (scopes.anchored(definition, glob),)
        paths = [
            shown(path)
            for path, node in sorted(tree.items())
            if path and node.kind != DIRECTORY and scopes.means(anchored, path) is not None
        ]
        globs[glob] = paths[:_SHOWN_MAX]
    return {"reaction": definition.name, "definition_hash": definition.hash, "matches": globs}


def _show_list(console: Console, value: Any) -> None:
    """What is loaded, and what could not be."""
    columns = ("reaction", "workspace", "trusted", "enabled", "queued", "active", "summary")
    show.columns(*columns)(console, value)
    _show_findings(console, value)


def _show_findings(console: Console, value: Any) -> None:
    for row in value.get("findings", ()):
        where = f"{row['file']}:{row['line']}:{row['col']}"
        show.line(console, f"{where} {row['severity']} {row['code']} {row['message']}")
        show.line(console, f"    {row['hint']}")


def _show_check(console: Console, value: Any) -> None:
    _show_findings(console, value)
    for row in value["reactions"]:
        show.line(console, f"{row['reaction']}  {row['definition_hash']}")
        for glob, paths in row["matches"].items():
            show.line(console, f"    {glob}: {', '.join(paths) or 'no file yet'}")
    console.print("ok" if value["ok"] else "refused")


def _run(call: Any, options: Options) -> Done:
    call.need_effects()
    body: dict[str, Any] = {"path": ""}
    if options.get("path") is not None:
        body["path"] = place(call, options)["path"]
    if options.get("args"):
        body["args"] = json_of(options["args"])
    if options.get("key"):
        body["key"] = options["key"]
    return Done(call.ask(Request("POST", filled(_ONE + "/run", call, options), body=body)))


def _simulate(call: Any, options: Options) -> Done:
    body = {"path": place(call, options)["path"]}
    return Done(call.ask(Request("POST", filled(_ONE + "/simulate", call, options), body=body)))


def _show_stages(console: Console, value: Any) -> None:
    for row in value["stages"]:
        show.line(console, f"{row['stage']}  {row['name']}: {row['result']}")


def _posts(path: str) -> Any:
    def run(call: Any, options: Options) -> Done:
        call.need_effects()
        body = picked(("reason",), options)
        return Done(call.ask(Request("POST", filled(path, call, options), body=body)))

    return run


def _decisions(call: Call, options: Options) -> Done:
    """The list, or one decided again: exit 4 when another decision comes out."""
    again = options.get("replay")
    if again is not None:
        path = filled(W + "/decisions/{replay}", call, options)
        told = call.ask(Request("GET", path))
        return Done(told, OK if told["same"] else BROKEN)
    query = picked(("reaction", "limit", "after"), options)
    return Done(call.ask(Request("GET", filled(W + "/decisions", call, {}), query)))


def _show_decisions(console: Console, value: Any) -> None:
    if "items" in value:
        show.columns("seq", "reaction", "outcome", "decision_id", "reasons")(console, value)
    else:
        show.fields(console, {key: value[key] for key in ("decision_id", "recomputed", "same")})


def _replay(call: Call, options: Options) -> Done:
    """One, or all of them: exit 4 when something else comes out."""
    if options.get("all"):
        call.be_patient()
        told = call.ask(Request("POST", filled(W + "/triggers/replay", call, {})))
        return Done(told, OK if told["same"] else BROKEN)
    if options.get("trigger") is None:
        raise Rejected("name a trigger, or say --all", code="cli.usage")
    told = call.ask(Request("GET", filled(W + "/triggers/{trigger}", call, options)))
    return Done(told, OK if told["same"] else BROKEN)


def _show_replay(console: Console, value: Any) -> None:
    if "trigger_id" not in value:
        show.fields(console, value)
        return
    show.fields(console, {key: value[key] for key in ("trigger_id", "recomputed", "same")})
    for row in value["outcomes"]:
        code = "" if row["code"] is None else f"({row['code']})"
        show.line(console, f"{row['outcome']}{code}")


ROWS: Final = (
    Verb(
        "ls",
        "the reactions of the world",
        reads(W + "/reactions", "at"),
        (opt("at", "as of this sequence", type=int),),
        ANY,
        _show_list,
    ),
    Verb(
        "show",
        "one reaction: its form and its lanes",
        reads(_ONE, "at"),
        (_NAME, opt("at", "as of this sequence", type=int)),
        ANY,
    ),
    Verb(
        "check",
        "judge the reactions of a directory; shows which files each glob means",
        _check,
        (arg("dir", required=False, default="."), flag("strict", "warnings end with 1")),
        ANY,
        _show_check,
    ),
    Verb(
        "run",
        "ask for a run, by a command",
        _run,
        (
            _NAME,
            opt("path", "the target"),
            opt("args", "params as JSON"),
            opt("key", "asking twice with one key is one request"),
            IN,
        ),
        ANY,
    ),
    Verb("enable", "let a reaction run again", _posts(_ONE + "/enable"), (_NAME, REASON), ANY),
    Verb("disable", "stop a reaction now", _posts(_ONE + "/disable"), (_NAME, REASON), ANY),
    Verb(
        "simulate",
        "every stage that a change of a path would pass; writes nothing",
        _simulate,
        (_NAME, opt("path", "the path that changes", required=True), IN),
        ANY,
        _show_stages,
    ),
    Verb(
        "decisions",
        "what policy said; --replay decides one again",
        _decisions,
        (
            arg("reaction", required=False),
            opt("replay", "a decision to decide again from its facts", metavar="ID"),
            LIMIT,
            AFTER,
        ),
        ANY,
        _show_decisions,
    ),
    Verb(
        "triggers",
        "how triggers ended: silence is a record",
        reads(W + "/triggers", "reaction", "limit", "after"),
        (arg("reaction", required=False), LIMIT, AFTER),
        ANY,
        show.columns("seq", "reaction", "target", "outcome", "code", "paths"),
    ),
    Verb(
        "runs",
        "attempts, newest first",
        reads(W + "/runs", "reaction", "limit", "after", "at"),
        (
            arg("reaction", required=False),
            LIMIT,
            AFTER,
            opt("at", "as of this sequence", type=int),
        ),
        ANY,
        show.columns("label", "state", "kind", "code", "actions", "run_id"),
    ),
    Verb("retry", "one more attempt", _posts(_RUN + "/retry"), (arg("run"), REASON), ANY),
    Verb("abort", "stop a run", _posts(_RUN + "/abort"), (arg("run"), REASON), ANY),
    Verb(
        "replay",
        "derive a trigger again from recorded hashes; --all takes every record of reactions",
        _replay,
        (
            arg("trigger", required=False),
            flag("all", "every trigger, decision, run and stamp"),
        ),
        ANY,
        _show_replay,
    ),
    Verb(
        "reset", "close the breakers of a reaction", _posts(_ONE + "/reset"), (_NAME, REASON), ANY
    ),
)
VERBS = tuple(
    Verb(f"{noun} {row.words}", row.says, row.run, row.params, row.shape, row.show)
    for noun in ("reaction", "reflection")
    for row in ROWS
)
