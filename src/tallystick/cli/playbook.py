"""`tally playbook`: check a playbook, play it, look at executions and act on them (07)."""

# tidy: the verbs of playbooks stand in one table.
from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

from tallystick.cli import playbook_show, show
from tallystick.cli.documents import json_of, text_at
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import (
    AFTER,
    AT,
    BAD,
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
    posts,
    reads,
)
from tallystick.errors import Rejected, TallyError
from tallystick.playbooks.bundle import play_bundle
from tallystick.playbooks.document import judge
from tallystick.playbooks.draw import FORMS, drawn
from tallystick.playbooks.kinds import NEEDS_GRANT
from tallystick.values import canon

_ALL: Final = W + "/executions"
_ONE: Final = _ALL + "/{execution}"
_LOOK_S: Final = 0.1
# Why an effect is open that nothing under way will end.
_STANDS: Final[Mapping[str, str]] = {
    "person": "a person has to answer (`tally ask ls`)",
    "held": "a person has to decide (`tally gov ls`)",
    "no_executor": "no executor of this node performs it (`enabled` under [executors])",
}
_ON: Final = "it goes on under `tally serve`, where others can answer"
# What people are told while they wait.
_LIVE: Final = frozenset(
    [
        *("step.scheduled", "step.done", "step.failed", "step.taken_over", "loop.started"),
        *("loop.done", "loop.iteration.failed", "join.fired", "playbook.waiting", "ctx.patched"),
    ]
)
# A person who allows http on the command line means the services of this machine too, and one who
# allows shell means commands as they are typed.
_MEANT: Final[Mapping[str, Mapping[str, Any]]] = {
    "http": {"cidrs": ["127.0.0.0/8", "::1/128"]},
    "shell": {"text": True},
}


def _check(_call: Call, options: Options) -> Done:
    """Judge files without running anything."""
    found: list[dict[str, Any]] = []
    forms: dict[str, Any] = {}
    for name in options["file"]:
        document, findings = judge(text_at(name))
        found += [finding.shown(name) for finding in findings]
        if document is not None and options.get("canonical"):
            forms[name] = {"hash": canon.hash_of(canon.encode(document)), "document": document}
    errors = [row for row in found if row["severity"] == "error"]
    warned = any(row["severity"] == "warning" for row in found)
    code = BAD if errors else NO if warned and options.get("strict") else OK
    value: dict[str, Any] = {"ok": code == OK, "findings": found}
    return Done({**value, "canonical": forms} if forms else value, code)


def _graph(call: Call, options: Options) -> Done:
    """Draw a file, or an execution with its tokens."""
    form, name = options["format"], options["file"]
    if not Path(name).exists():
        query = {"format": form, **picked(("at",), options)}
        path = filled(_ONE + "/graph", call, {"execution": name})
        return Done(call.ask(Request("GET", path, query)))
    document, findings = judge(text_at(name))
    # What is left of a file with errors is another playbook: a picture of it would mislead.
    if document is None or any(finding.severity == "error" for finding in findings):
        return Done({"ok": False, "findings": [f.shown(name) for f in findings]}, BAD)
    return Done({"format": form, "text": drawn(document, form)})


def _run(call: Any, options: Options) -> Done:
    """Play a file or a published path: until it is over or waits, or only begin it."""
    with _place(call, options):
        return _played(call, options)


@contextmanager
def _place(call: Any, options: Options) -> Iterator[None]:
    """The data that a run works on: this folder's, or a temporary one with --scratch."""
    if not options.get("scratch"):
        yield
        return
    with TemporaryDirectory(prefix="tally-") as folder:
        call.options = replace(call.options, data=str(Path(folder) / ".tally"), url=None)
        try:
            yield
        finally:
            call.close()


def _played(call: Any, options: Options) -> Done:
    allow = _allowed(options.get("allow"))
    call.need_effects(sorted(allow))
    name = options["file"]
    is_file = Path(name).exists()
    if not is_file and name.endswith((".yaml", ".yml")):
        raise Rejected(f"there is no file {name}", code="cli.no_file", where={"file": name})
    body = {
        "playbook": text_at(name) if is_file else name,
        "file": name,
        "workload": _workload(options),
        "allow": allow,
        "unchecked": bool(options.get("unchecked")),
    }
    _world(call)
    began = time.monotonic()
    told = call.ask(Request("POST", filled(_ALL, call, options), body=body))
    if options.get("detach"):
        return Done(told)
    path = filled(_ONE, call, {**options, "execution": told["execution"]})
    seen = _watched(call, path)
    seen["seconds"] = round(time.monotonic() - began, 3)
    return Done(seen, OK if seen["status"] == "success" else NO)


def _watched(call: Any, path: str) -> dict[str, Any]:
    """Look at an execution until it is over or waits, and tell people what happens meanwhile."""
    after, stood, as_of = "", False, -1
    while True:
        seen: dict[str, Any] = call.ask(Request("GET", path))
        if not call.console.quiet:
            after = _told(call, path, after)
        if seen["status"] not in ("running", "final"):
            return seen
        if not stood and seen["as_of"] == as_of and (lacks := _missing(call, seen)):
            if call.alone:  # nobody can bring it while this command has the files
                return {**seen, "lacks": lacks, "hint": _ON}
            stood = True
            for text in lacks:
                call.say(text)
        as_of = seen["as_of"]
        call.pause(_LOOK_S)


def _missing(call: Any, seen: Mapping[str, Any]) -> list[str]:
    """What an execution waits for that comes from somebody; nothing while anything is under way."""
    page = call.ask(Request("GET", filled(W + "/effects", call, {}), {"limit": 1000}))
    rows = [row for row in page["items"] if row["key"] == seen["execution"]]
    if any(row["why"] not in _STANDS for row in rows):
        return []
    asked = [f"{row['effect']} waits: {_STANDS[row['why']]}" for row in rows]
    signals = [row for row in seen["waiting"] if row["for"] == "signal"]
    return asked + [f"{row['step']} waits for the signal {row['name']}" for row in signals]


def _told(call: Any, path: str, after: str) -> str:
    query = {"limit": 1000, **({"after": after} if after else {})}
    page = call.ask(Request("GET", path + "/events", query))
    for row in page["items"]:
        if row["event_type"] in _LIVE:
            unit = "" if row["iteration"] is None else f"[{row['iteration']}]"
            show.line(call.console, f"{row['event_type']:24} {row['step'] or ''}{unit}")
    last = page["items"][-1]["seq"] if page["items"] else after
    return str(last)


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
    return {word: dict(_MEANT.get(word, {})) for word in words}


def _workload(options: Options) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if options.get("workload"):
        made = json_of("@" + options["workload"])
        if not isinstance(made, dict):
            raise Rejected("a workload is one JSON object", code="request.bad_file")
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
        value = json_of(options["value"]) if options.get("value") else None
        return Done(call.ask(Request("POST", path, body={"value": value})))
    body = {"set": _pairs(options.get("set") or ()), "reason": options["reason"]}
    return Done(call.ask(Request("PATCH", filled(_ONE + "/ctx", call, options), body=body)))


def _publish(call: Any, options: Options) -> Done:
    """Put a file into the catalogue of the world."""
    _world(call)
    name = options["file"]
    body = {"playbook": text_at(name), "file": name}
    return Done(call.ask(Request("POST", filled(W + "/playbooks", call, {}), body=body)))


def _show(call: Call, options: Options) -> Done:
    """One execution, or what happened in it."""
    tail = "/events" if options.get("events") else ""
    query = picked(("at", "after", "limit") if tail else ("at",), options)
    return Done(call.ask(Request("GET", filled(_ONE + tail, call, options), query)))


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
        playbook_show.findings,
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
            flag("unchecked", "play it in spite of errors about its net"),
            flag("scratch", "on a temporary folder, which is removed"),
        ),
        ANY,
        playbook_show.execution,
    ),
    Verb(
        "playbook publish",
        "put a playbook into the catalogue, for runs and other playbooks to name",
        _publish,
        (arg("file"),),
        ANY,
    ),
    Verb(
        "playbook ls",
        "the executions of the world",
        reads(_ALL, "limit", "after", "at"),
        (LIMIT, AFTER, AT),
        ANY,
        show.columns("execution", "status", "step_runs", "failures"),
    ),
    Verb(
        "playbook show",
        "one execution: marking, values, what it waits for",
        _show,
        (
            arg("execution"),
            AT,
            flag("events", "what happened, in the words of the net"),
            AFTER,
            LIMIT,
        ),
        ANY,
        playbook_show.events,
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
        "draw the net of a playbook, or an execution with its tokens",
        _graph,
        (
            arg("file"),
            opt("format", "mermaid, dot, pnml or json", type=click.Choice(FORMS), default=FORMS[0]),
            AT,
        ),
        ANY,
        playbook_show.text,
    ),
)
