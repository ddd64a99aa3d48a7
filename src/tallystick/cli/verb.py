"""A command: one row of the table from which the command line, its help and its tests are made.

A row says which words call it, what it takes, what it does, what its JSON holds and with which
codes it may end.
Most commands are one HTTP request; `reads` and `posts` make those from a path with holes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote

import click
from rich.console import Console

from tallystick.cli import show
from tallystick.cli.request import Request

Options: TypeAlias = Mapping[str, Any]
W: Final = "/v1/worlds/{world}"
OK, NO, BAD, AWAY, BROKEN = 0, 1, 2, 3, 4
"""Exit codes: ok, the answer is no, bad usage or input, unavailable, divergence or corruption."""
USUAL: Final = frozenset({OK, NO, BAD, AWAY, BROKEN})


class Call(Protocol):
    """One run of the command line: its global options, and the node that answers."""

    @property
    def world(self) -> str:
        """The world that the command is about."""
        ...

    @property
    def console(self) -> Console:
        """Where words for people go; silent with `--quiet` and `--json`."""
        ...

    def ask(self, request: Request) -> Any:
        """The JSON answer of the node; a refusal is raised as the error it was."""
        ...

    def be_patient(self) -> None:
        """Wait for an answer for as long as a whole journal takes."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """What a command answers: the object that `--json` prints, and the exit code."""

    value: Any
    code: int = OK


Run: TypeAlias = Callable[[Any, Options], Done]
Show: TypeAlias = Callable[[Console, Any], None]


@dataclass(frozen=True, slots=True)
class Verb:
    """One row; `shape` is what the JSON holds (see `cli/shape.py`)."""

    words: str
    says: str
    run: Run
    params: tuple[click.Parameter, ...] = ()
    shape: Any = None
    show: Show = show.fields
    exits: frozenset[int] = field(default=USUAL)


def arg(name: str, *, required: bool = True, many: bool = False, **more: Any) -> click.Argument:
    """A positional word; it is spelled in capitals in the help."""
    return click.Argument(
        [name], required=required, nargs=-1 if many else 1, metavar=name.upper(), **more
    )


class _Seconds(click.FloatRange):
    """A span of time; click itself takes `nan` for a number within every range.

    It is judged before anything is sent: who is refused may send the event again.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found: float = super().convert(value, param, ctx)
        if not isfinite(found):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return found


SECONDS: Final = _Seconds(min=0)
SOME_SECONDS: Final = _Seconds(min=0.001)


def opt(name: str, says: str = "", **more: Any) -> click.Option:
    """An option with a value; its key in the options is the name with underscores."""
    return click.Option([f"--{name}", name.replace("-", "_")], help=says, **more)


def flag(name: str, says: str) -> click.Option:
    """An option without a value."""
    return click.Option([f"--{name}", name.replace("-", "_")], is_flag=True, help=says)


AT: Final = opt("at", "answer from the past: the world as of this sequence", type=int)
LIMIT: Final = opt("limit", "at most this many items", type=click.IntRange(min=1))
AFTER: Final = opt("after", "go on after this cursor")
AUTHORITY: Final = opt(
    "authority",
    "structural: grant what is asked for",
    type=click.Choice(["structural"]),
    default="structural",
)
REASON: Final = opt("reason", "why; it is kept in the journal", default="by hand")


def filled(path: str, call: Call, options: Options) -> str:
    """A path with its holes filled by the world and the options, each quoted whole."""
    held = {"world": call.world, **options}
    # A word that is no UTF-8 goes as the bytes it is, and the node says that it knows none such.
    quoted = {key: quote(str(it), "", errors="surrogateescape") for key, it in held.items()}
    return path.format_map(quoted)


def picked(names: tuple[str, ...], options: Options) -> dict[str, Any]:
    """Those options that were given; flags count when set, and a number also when it is 0."""
    held = {name: options.get(name) for name in names}
    return {name: it for name, it in held.items() if it not in (None, ()) and it is not False}


def reads(path: str, *query: str) -> Run:
    """A command that is one GET."""

    def run(call: Call, options: Options) -> Done:
        chosen = picked(query, options)
        return Done(call.ask(Request("GET", filled(path, call, options), chosen)))

    return run


def posts(path: str, *body: str, method: str = "POST") -> Run:
    """A command that is one POST (or another method) of the options that `body` names."""

    def run(call: Call, options: Options) -> Done:
        sent = picked(body, options) if body else None
        return Done(call.ask(Request(method, filled(path, call, options), body=sent)))

    return run
