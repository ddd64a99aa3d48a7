"""`tally trace`, `tally graph`, `tally explain`: what led to what, and why something waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from string import hexdigits
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape

from tallystick.cli import shapes, show
from tallystick.cli.documents import json_of
from tallystick.cli.journal import floor_line
from tallystick.cli.request import Request
from tallystick.cli.verb import AT, Done, Options, Run, Verb, W, arg, filled, opt, picked
from tallystick.cli.workspace import place
from tallystick.errors import Rejected, TallyError

HEX_MIN: Final = 8
UPPER, LOWER = "▔▔▔", "▁▁▁"
_RESTS: Final = {
    True: "nothing is open",
    False: "not quiescent:",
    None: "nothing open was found; there are more cells than are looked at",
}
WHAT = arg("what", many=True, required=False)
FORMAT = opt("format", "how it is drawn", type=click.Choice(["picture", "mermaid", "dot", "json"]))


def subject(words: tuple[str, ...]) -> dict[str, str]:
    """What EVENT, INTENT or WORKFLOW KEY means: the query that names it."""
    match words:
        case ():
            return {}
        case (one,) if one.startswith("sha256:"):
            return {"event": one}
        case (one,) if one.isdigit() and len(one) < HEX_MIN:
            return {"seq": one}
        case (one,) if HEX_MIN <= len(one) <= 64 and not set(one) - set(hexdigits.lower()):
            # As listings show it; a sequence of so many digits would be a very long journal.
            return {"intent": one}
        case (workflow, *rest) if "@" in workflow and len(rest) <= 1:
            return {"workflow": workflow, "key": rest[0] if rest else "-"}
        case _:
            pass
    raise Rejected(
        f"{' '.join(words)} is no event, intent or cell",
        code="request.usage",
        hint="give a hash or 8 and more digits of it, a sequence number, or WORKFLOW KEY",
    )


def _asks(path: str, drawn: str | None = None) -> Run:
    """One question about the subject; `drawn` is the form that people get when they name none."""

    def run(call: Any, options: Options) -> Done:
        query: dict[str, Any] = {**subject(options["what"]), **picked(("at",), options)}
        form = options.get("format") or (None if call.options.json else drawn)
        if form is not None:
            query["format"] = form
        return Done(call.ask(Request("GET", filled(W + path, call, {}), query)))

    return run


def _triggered(call: Any, name: str) -> Done:
    path = filled(W + "/triggers/{trigger}/explain", call, {"trigger": name})
    return Done(call.ask(Request("GET", path)))


def _named(call: Any, options: Options) -> Done:
    """An event, an effect or a cell; a hash that is none of them may be one of a trigger."""
    words = options["what"]
    try:
        return _asks("/explain")(call, options)
    except TallyError as why:
        if why.code != "event.unknown" or len(words) != 1:
            raise
        try:
            return _triggered(call, words[0])
        except TallyError as other:
            raise why if other.code == "trigger.unknown" else other from None


def _explain(call: Any, options: Options) -> Done:
    words = options["what"]
    if words[:1] in (("trigger",), ("run",)) and len(words) == 2:
        return _triggered(call, words[1])
    if len(words) == 1 and "#" in words[0]:  # the label of a run ends in its attempt
        return _triggered(call, words[0])
    if len(words) == 1 and ("/" in words[0] or Path(words[0]).exists()):
        query = place(call, {"path": words[0]})
        return Done(call.ask(Request("GET", filled(W + "/triggers/of", call, {}), query)))
    if words != ("policy",):
        return _named(call, options)
    if not options["effect"] or not options["workflow"]:
        raise Rejected("say --effect and --workflow", code="request.usage")
    params = json_of(options["params"] or "null")
    body = {**picked(("effect", "workflow", "key"), options), "params": params}
    if options["slot"]:
        body["cap_slot"] = options["slot"]
    query = picked(("at",), options)
    return Done(call.ask(Request("POST", filled(W + "/explain", call, {}), query, body)))


def drawing(console: Console, value: Any) -> None:
    """The picture that came with the answer, or the timeline of a cell."""
    if isinstance(value.get("text"), str):
        show.words("text")(console, value)
    elif "ticks" in value:
        floor_line(console, value)
        for line in timeline(value):
            console.print(escape(line), soft_wrap=True)
    else:
        show.fields(console, value)


def timeline(value: Any) -> list[str]:
    """A cell from its first tick to its last: ticks, and effects with both their halves."""
    lines: list[tuple[int, str]] = []
    for tick in value["ticks"]:
        came = tick["input"].get("schema") or "receipt"
        word = tick["fault"]["code"] if tick["fault"] else tick["status"]
        change = f"{_short(tick['before'])} -> {_short(tick['after'])}"
        lines.append((tick["seq"], f"tick  {came:<24} {change}  {word}"))
    for each in value["effects"]:
        asked = f"  {UPPER} {each['effect']}"
        lines.append((each["opened_seq"], asked))
        if each["settled_seq"] is not None:
            lines.append((each["settled_seq"], f"  {LOWER} {each['effect']}  {each['status']}"))
    return [f"{seq:>7}  {text}" for seq, text in sorted(lines)]


def _short(text: str | None) -> str:
    return "none" if text is None else text.removeprefix("sha256:")[:8]


def reasons(console: Console, value: Any) -> None:
    """Why: one line for each reason, or for each thing that keeps a world from resting."""
    if "decision" in value:
        _stages(console, value["judged"])
        console.print(f"{value['decision']}  {value['code'] or ''}")
        return
    if "quiescent" in value:
        console.print(_RESTS[value["quiescent"]], soft_wrap=True)
        for each in value["blockers"]:
            console.print(escape(f"  {show.text_of(each)}"), soft_wrap=True)
        return
    subject = value["subject"]
    named = " ".join(
        map(show.one_line, subject.values() if isinstance(subject, Mapping) else [subject])
    )
    console.print(escape(f"{named}: {value['status']}"), soft_wrap=True)
    for each in value["reasons"]:
        console.print(escape(f"  {each['code']}: {each['text']}"), soft_wrap=True)
        for text in (each["detail"].get("conflict") or {"diff": ()})["diff"]:
            console.print(escape(f"    {text}"), soft_wrap=True)
    _stages(console, value.get("judged") or ())  # an effect was judged when it was asked for


def _stages(console: Console, judged: Iterable[Any]) -> None:
    for stage in judged:
        line = f"{stage['stage']:<11} {stage['verdict']:<11} {show.text_of(stage['detail'])}"
        console.print(escape(line), soft_wrap=True)


VERBS = (
    Verb(
        "trace",
        "what an event led to, or what happened to a cell",
        _asks("/trace", "picture"),
        (WHAT, FORMAT, AT),
        (shapes.TRACE, shapes.TIMELINE),
        drawing,
    ),
    Verb(
        "graph",
        "what led to what, as nodes and edges",
        _asks("/graph", "mermaid"),
        (WHAT, FORMAT, AT),
        shapes.GRAPH,
        drawing,
    ),
    Verb(
        "explain",
        "why it waits, fired or was refused; also a TRIGGER, a run, a PATH, or `policy`",
        _explain,
        (
            WHAT,
            opt("effect", "policy: the effect that would be asked for"),
            opt("workflow", "policy: who would ask"),
            opt("params", "policy: JSON, or @FILE"),
            opt("key", "policy: the cell that would ask"),
            opt("slot", "policy: the slot it would name"),
            AT,
        ),
        (shapes.EXPLAIN, shapes.EXPLAIN_WORLD, shapes.JUDGED),
        reasons,
    ),
)
