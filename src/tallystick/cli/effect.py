"""`tally effect`: what cells asked of the outside, why it waits, and what to do about it."""

from __future__ import annotations

from typing import Any

from tallystick.cli import shapes, show
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import (
    AFTER,
    AT,
    LIMIT,
    NO,
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
    posts,
    reads,
)
from tallystick.errors import Rejected

EFFECT = W + "/effects/{intent}"


def _each(verb: str) -> Run:
    """A verb for one intent, or with `--all` for every one that is held."""

    def run(call: Call, options: Options) -> Done:
        path = EFFECT + "/" + verb
        body = picked(("reason",), options)
        if not options["all"]:
            if not options["intent"]:
                raise Rejected("name an INTENT, or say --all", code="request.usage")
            return Done(call.ask(Request("POST", filled(path, call, options), body=body)))
        done: list[Any] = []
        refused: list[Any] = []
        for ident in [row["intent"] for row in open_rows(call, held=verb == "release")]:
            try:
                call.ask(Request("POST", filled(path, call, {"intent": ident}), body=body))
                done.append(ident)
            except Rejected as why:
                refused.append({"intent": ident, "code": why.code})
        return Done({"done": done, "refused": refused}, NO if refused else 0)

    return run


def open_rows(call: Call, *, held: bool) -> list[dict[str, Any]]:
    """Every effect that is open, or held, of all pages."""
    found: list[dict[str, Any]] = []
    after = None
    while True:
        query: dict[str, Any] = {"limit": 1000, "held": True} if held else {"limit": 1000}
        query |= {"status": "open"} if not held else {}
        query |= {} if after is None else {"after": after}
        page = call.ask(Request("GET", filled(W + "/effects", call, {}), query))
        found += page["items"]
        after = page["next"]
        if after is None:
            return found


ONE = arg("intent", required=False)
ALL = flag("all", "every one that is open")

VERBS = (
    Verb(
        "effect ls",
        "effects that were asked for",
        reads(W + "/effects", "status", "effect", "held", "limit", "after", "at"),
        (
            opt("status", "only with this status"),
            opt("effect", "only of this effect"),
            flag("held", "only held ones"),
            LIMIT,
            AFTER,
            AT,
        ),
        shapes.part(shapes.EFFECT),
        show.columns("intent", "effect", "workflow", "key", "status", "attempts", "why"),
    ),
    Verb(
        "effect show",
        "both halves of one effect",
        reads(EFFECT, "at"),
        (arg("intent"), AT),
        shapes.EFFECT_SHOW,
    ),
    Verb(
        "effect why",
        "why an effect waits, or was refused",
        reads(EFFECT + "/why", "at"),
        (arg("intent"), AT),
        shapes.EFFECT_WHY,
    ),
    Verb("effect cancel", "give up on an effect", _each("cancel"), (ONE, ALL, REASON), ANY),
    Verb("effect release", "let held effects go", _each("release"), (ONE, ALL, REASON), ANY),
    *(
        Verb(
            f"effect {word}",
            f"{word} an effect that is held for approval",
            posts(f"{EFFECT}/{word}", "comment"),
            (arg("intent"), opt("comment", "why; it is kept in the journal")),
            shapes.SEQ,
        )
        for word in ("approve", "reject")
    ),
)
