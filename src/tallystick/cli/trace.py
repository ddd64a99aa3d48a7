"""`tally trace`, `tally graph`, `tally explain`: what led to what, and why something waits."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from tallystick.cli import show
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import AT, Done, Options, Run, Verb, W, arg, filled, opt
from tallystick.errors import Rejected

WHAT = arg("what", many=True, required=False)
FORMAT = opt("format", "how it is drawn", type=click.Choice(["picture", "mermaid", "dot", "json"]))


def subject(words: tuple[str, ...]) -> dict[str, str]:
    """What EVENT, INTENT or WORKFLOW KEY means: the query that names it."""
    match words:
        case ():
            return {}
        case (one,) if one.startswith("sha256:"):
            return {"event": one}
        case (one,) if one.isdigit():
            return {"seq": one}
        case (workflow, *rest) if "@" in workflow and len(rest) <= 1:
            return {"workflow": workflow, "key": rest[0] if rest else "-"}
        case _:
            pass
    raise Rejected(
        f"{' '.join(words)} is no event, intent or cell",
        code="request.usage",
        hint="give sha256:<hex>, a sequence number, or WORKFLOW KEY",
    )


def _asks(path: str) -> Run:
    def run(call: Any, options: Options) -> Done:
        query: dict[str, Any] = dict(subject(options["what"]))
        if options.get("at") is not None:
            query["at"] = options["at"]
        drawn = options.get("format")
        if drawn and drawn != "json":
            query["format"] = drawn
        return Done(call.ask(Request("GET", filled(W + path, call, {}), query)))

    return run


def drawing(console: Console, value: Any) -> None:
    """The picture of an answer when it has one, else its fields."""
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        show.words("text")(console, value)
    else:
        show.fields(console, value)


VERBS = (
    Verb("trace", "what an event led to", _asks("/trace"), (WHAT, FORMAT, AT), ANY, drawing),
    Verb("graph", "the graph of execution", _asks("/graph"), (WHAT, FORMAT, AT), ANY, drawing),
    Verb("explain", "why it waits, or was refused", _asks("/explain"), (WHAT, AT), ANY, drawing),
)
