"""`tally cell`: list cells, show one, follow its history, and operate on it."""

from __future__ import annotations

import json
from typing import Any

from tallystick.cli import shapes, show
from tallystick.cli.journal import show_page
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import (
    AFTER,
    AT,
    LIMIT,
    REASON,
    Call,
    Done,
    Options,
    Run,
    Verb,
    W,
    arg,
    filled,
    flag,
    opt,
    picked,
    reads,
)

CELL = W + "/cells/{workflow}/{key}"
NAMED = (arg("workflow"), arg("key", required=False, default="-"))
FORCE = flag("force", "run no code of the workflow")
_SEGMENT_MAX = 1024  # in a path; a longer key goes as what it is, too


def at_cell(call: Call, named: Options, tail: str = "") -> tuple[str, dict[str, str]]:
    """Path and query of a cell: a key that no path can hold stands in the query."""
    key = str(named["key"])
    if _fits_a_path(key):
        return filled(CELL + tail, call, named), {}
    return filled(CELL + tail, call, {**named, "key": "-"}), {"key": key}


def _fits_a_path(key: str) -> bool:
    """False for what clients drop from a path, and for what no node takes in one."""
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return True  # no key at all: the node says so
    return key not in ("", ".", "..") and key.isprintable() and len(key) <= _SEGMENT_MAX


def key_word(key: Any) -> str:
    """A key as listings hold it, as it is written to name its cell."""
    if key is None:
        return "-"
    return key if isinstance(key, str) else json.dumps(key, separators=(",", ":"))


def _read(tail: str, *query: str) -> Run:
    def run(call: Call, options: Options) -> Done:
        path, named = at_cell(call, options, tail)
        return Done(call.ask(Request("GET", path, {**named, **picked(query, options)})))

    return run


def _verb(word: str) -> Run:
    def run(call: Call, options: Options) -> Done:
        path, named = at_cell(call, options, f"/{word}")
        body = picked(("reason", "force"), options)
        return Done(call.ask(Request("POST", path, named, body)))

    return run


VERBS = (
    Verb(
        "cell ls",
        "the cells of the world",
        reads(W + "/cells", "workflow", "status", "limit", "after", "at"),
        (
            opt("workflow", "only of this workflow"),
            opt("status", "only with this status"),
            LIMIT,
            AFTER,
            AT,
        ),
        shapes.items(ANY),
        show.columns("workflow", "key", "status", "last_seq", "mailbox", "inflight"),
    ),
    Verb(
        "cell show",
        "one cell: state, mailbox, open effects",
        _read("", "at"),
        (*NAMED, AT),
        shapes.CELL,
    ),
    Verb(
        "cell trace",
        "the timeline of one cell",
        _read("/trace", "limit", "after", "at"),
        (*NAMED, LIMIT, AFTER, AT),
        shapes.part(shapes.ROW),
        show_page,
    ),
    *(
        Verb(f"cell {word}", says, _verb(word), (*NAMED, REASON, FORCE), ANY)
        for word, says in {
            "suspend": "stop delivering to a cell; its mail waits",
            "resume": "go on delivering",
            "skip": "drop the entry that the cell failed on",
            "cancel": "ask a cell to end; --force ends it",
        }.items()
    ),
)
