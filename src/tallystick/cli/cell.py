"""`tally cell`: list cells, show one, follow its history, and operate on it."""

from __future__ import annotations

from tallystick.cli import shapes, show
from tallystick.cli.journal import show_rows
from tallystick.cli.shape import ANY
from tallystick.cli.verb import (
    AFTER,
    AT,
    LIMIT,
    REASON,
    Run,
    Verb,
    W,
    arg,
    flag,
    opt,
    posts,
    reads,
)

CELL = W + "/cells/{workflow}/{key}"
NAMED = (arg("workflow"), arg("key", required=False, default="-"))
FORCE = flag("force", "run no code of the workflow")


def _verb(word: str) -> Run:
    return posts(f"{CELL}/{word}", "reason", "force")


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
        reads(CELL, "at"),
        (*NAMED, AT),
        shapes.CELL,
    ),
    Verb(
        "cell trace",
        "the timeline of one cell",
        reads(CELL + "/trace", "limit", "after", "at"),
        (*NAMED, LIMIT, AFTER, AT),
        shapes.items(shapes.ROW),
        show_rows,
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
