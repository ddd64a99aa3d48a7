"""`tally playbook`: check a playbook, play it, look at executions and act on them (07)."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from tallystick.cli import show
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import (
    BAD,
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
    posts,
    reads,
)
from tallystick.errors import Rejected, TallyError
from tallystick.playbooks.bundle import play_bundle
from tallystick.playbooks.document import judge
from tallystick.playbooks.draw import drawn
from tallystick.playbooks.kinds import NEEDS_GRANT
from tallystick.values import canon

_ALL: Final = W + "/executions"
_ONE: Final = _ALL + "/{execution}"
_LOOK_S: Final = 0.1
# A person who allows http on the command line means the services of this machine too.
_LOCAL: Final = {"cidrs": ["127.0.0.0/8", "::1/128"]}


def _check(_call: Call, options: Options) -> Done:
    """Judge files without running anything."""
    found: list[dict[str, Any]] = []
    forms: dict[str, Any] = {}
    for name in options["file"]:
        document, findings = judge(Path(name).read_text("utf-8"))
        found += [finding.shown(name) for finding in findings]
        if document is not None and options.get("canonical"):
            forms[name] = {"hash": canon.hash_of(canon.encode(document)), "document": document}
    errors = [row for row in found if row["severity"] == "error"]
    warned = any(row["severity"] == "warning" for row in found)
    code = BAD if errors else NO if warned and options.get("strict") else OK
    value: dict[str, Any] = {"ok": code == OK, "findings": found}
    return Done({**value, "canonical": forms} if forms else value, code)


def _graph(_call: Call, options: Options) -> Done:
    document, findings = judge(Path(options["file"]).read_text("utf-8"))
    if document is None:
        return Done({"ok": False, "findings": [f.shown(options["file"]) for f in findings]}, BAD)
    form = options["format"]
    return Done({"format": form, "text": drawn(document, form)})


def _run(call: Any, options: Options) -> Done:
    """Play a file: until it is over or waits, or only begin it with --detach."""
    allow = _allowed(options.get("allow"))
    call.need_effects(sorted(allow))
    text = Path(options["file"]).read_text("utf-8")
    body = {
        "playbook": text,
        "file": options["file"],
        "workload": _workload(options),
        "allow": allow,
    }
    _world(call)
    began = time.monotonic()
    told = call.ask(Request("POST", filled(_ALL, call, options), body=body))
    if options.get("detach"):
        return Done(told)
    path = filled(_ONE, call, {**options, "execution": told["execution"]})
    while True:
        seen = call.ask(Request("GET", path))
        if seen["status"] not in ("running", "final"):
            break
        time.sleep(_LOOK_S)
    seen["seconds"] = round(time.monotonic() - began, 3)
    return Done(seen, OK if seen["status"] == "success" else NO)


def _world(call: Any) -> None:
    """A folder without the world gets one that plays: the command works on its own data."""
    try:
        call.ask(Request("GET", filled(W, call, {})))
    except TallyError as why:
        if why.code != "world.unknown":
            raise
        body = {
            "name": call.world,
            "bundle": base64.b64encode(play_bundle().to_zip()).decode(),
        }
        call.ask(Request("POST", "/v1/worlds", body=body))


def _allowed(text: str | None) -> dict[str, dict[str, Any]]:
    """`python,http` as grants by kind; `all` is every kind that needs one."""
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if "all" in words:
        words = sorted(NEEDS_GRANT)
    for word in words:
        if word not in NEEDS_GRANT:
            raise Rejected(
                f"no kind of tool is called {word}",
                code="playbook.bad_allow",
                hint=f"one or more of {', '.join(sorted(NEEDS_GRANT))}, or all",
            )
    return {word: dict(_LOCAL) if word == "http" else {} for word in words}


def _workload(options: Options) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if options.get("workload"):
        made = json.loads(Path(options["workload"]).read_text("utf-8"))
    return {**made, **_pairs(options.get("set") or ())}


def _pairs(given: tuple[str, ...]) -> dict[str, Any]:
    """`k=v` pairs; a value that is JSON is that value, else text."""
    made: dict[str, Any] = {}
    for pair in given:
        key, found, text = pair.partition("=")
        if not found or not key:
            raise Rejected(f"{pair!r} is not KEY=VALUE", code="cli.usage")
        try:
            made[key] = json.loads(text)
        except ValueError:
            made[key] = text
    return made


def _patch(call: Call, options: Options) -> Done:
    """Write variables, or send a signal."""
    if options.get("signal"):
        path = filled(_ONE + "/signals/{signal}", call, options)
        value = json.loads(options["value"]) if options.get("value") else None
        return Done(call.ask(Request("POST", path, body={"value": value})))
    body = {"set": _pairs(options.get("set") or ()), "reason": options["reason"]}
    return Done(call.ask(Request("POST", filled(_ONE + "/ctx", call, options), body=body)))


def _show_findings(console: Console, value: Any) -> None:
    for row in value["findings"]:
        place = f"{row['file']}:{row['line']}:{row['col']}"
        console.print(f"{place} {row['severity']} {row['code']} {row['message']}", markup=False)
        console.print(f"    {row['hint']}", markup=False)
    console.print("ok" if value["ok"] else "refused")


def _show_text(console: Console, value: Any) -> None:
    if "text" in value:
        console.print(value["text"], markup=False, end="")
    else:
        _show_findings(console, value)


SET: Final = opt("set", "KEY=VALUE; may stand several times", multiple=True)

VERBS = (
    Verb(
        "playbook check",
        "judge playbooks; every finding has its line and a hint",
        _check,
        (
            arg("file", many=True),
            flag("strict", "warnings end with 1"),
            flag("canonical", "show the normal form and its hash"),
        ),
        ANY,
        _show_findings,
    ),
    Verb(
        "playbook run",
        "play a playbook until it is over or waits",
        _run,
        (
            arg("file"),
            SET,
            opt("workload", "a JSON file with values over the playbook's workload"),
            opt("allow", "kinds of tools that this execution may use: python,http or all"),
            flag("detach", "do not wait for the end"),
        ),
        ANY,
    ),
    Verb(
        "playbook ls",
        "the executions of the world",
        reads(_ALL),
        (),
        ANY,
        show.columns("execution", "status", "step_runs", "failures"),
    ),
    Verb(
        "playbook show",
        "one execution: marking, values, what it waits for",
        reads(_ONE, "at"),
        (arg("execution"), opt("at", "as of this sequence", type=int)),
        ANY,
    ),
    Verb(
        "playbook patch",
        "write variables of an execution, or send it a signal",
        _patch,
        (
            arg("execution"),
            SET,
            REASON,
            opt("signal", "the name of a signal"),
            opt("value", "the value of the signal as JSON"),
        ),
        ANY,
    ),
    Verb(
        "playbook cancel",
        "end an execution now",
        posts(_ONE + "/cancel", "reason"),
        (arg("execution"), REASON),
        ANY,
    ),
    Verb(
        "playbook graph",
        "draw the net of a playbook",
        _graph,
        (
            arg("file"),
            opt(
                "format",
                "mermaid or dot",
                type=click.Choice(["mermaid", "dot"]),
                default="mermaid",
            ),
        ),
        ANY,
        _show_text,
    ),
)
