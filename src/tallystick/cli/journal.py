"""`tally journal` and `tally ask`: read what was written, and answer what is asked of people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from tallystick.cli import shapes, show
from tallystick.cli.documents import json_of
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY, HASH
from tallystick.cli.verb import (
    AFTER,
    AT,
    LIMIT,
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
from tallystick.errors import Rejected


def line(row: dict[str, Any]) -> str:
    """One record on one line: number, kind, what it is about."""
    about = " ".join(
        show.one_line(part) for part in (row.get("workflow"), row.get("key")) if part is not None
    )
    intent = str(row["intent"] or "").removeprefix("sha256:")[:12]
    name = row["record"].get("record", "")
    return f"{row['seq']:>7}  {row['kind']:<10} {name:<18} {about} {intent}".rstrip()


def floor_line(console: Console, value: Any) -> None:
    """Say that a part is missing, where a journal was trimmed."""
    if value.get("floor"):
        console.print(f"what stands up to seq {value['floor']} is in the archive of a trim")


def show_rows(console: Console, value: Any) -> None:
    """Rows of the journal, one a line."""
    floor_line(console, value)
    for row in value["items"]:
        console.print(escape(line(row)), soft_wrap=True)


def show_page(console: Console, value: Any) -> None:
    """A page of rows, and how it goes on."""
    show_rows(console, value)
    show.more(console, value)


def _show_tail(console: Console, value: Any) -> None:
    if value is None:
        return  # it was followed, and printed as it came
    show_rows(console, value)
    if value["next"] is not None:
        show.line(console, f"more: --from {int(value['next']) + 1}")


def _tail(call: Any, options: Options) -> Done:
    """The newest rows, or those from a sequence on; with `--follow` what comes after, too."""
    limit = options["limit"] or 20
    first = options["from"]
    if first is None:
        page, behind = _newest(call, limit, options["kind"])
    else:
        page, behind = _page(call, first - 1, limit, options["kind"]), first - 1
    if not options["follow"]:
        return Done(page)
    for row in page["items"]:
        _print(call, row)
    last = page["items"][-1]["seq"] if page["items"] else behind
    for row in follow(call, last, options["kind"]):
        _print(call, row)
    return Done(None)


def _newest(call: Any, limit: int, kind: str | None) -> tuple[Any, int]:
    """The newest rows, and the sequence behind which to go on when there are none.

    Those of one kind may stand far apart, and a journal is read forwards: a longer part is looked
    at until it holds enough of them. A page of large ones ends early: the newest are behind it.
    """
    head = call.ask(Request("GET", filled(W + "/journal/head", call, {})))["seq"]
    span, floor = limit, 0
    while True:
        behind = max(floor, head - span)
        try:
            page = _page(call, behind, limit, kind)
        except Rejected as why:
            if why.code != "journal.trimmed" or floor:
                raise
            floor = why.where["base_seq"]  # what was cut off below is not among the newest
            continue
        rows = page["items"]
        while page["next"] is not None:
            page = _page(call, page["next"], 1000, kind)
            rows += page["items"]
        if kind is None or len(rows) >= limit or behind == floor:
            return {**page, "items": rows[-limit:]}, head
        span *= 16


def _page(call: Any, after: Any, limit: int, kind: str | None) -> Any:
    query = {"after": after, "limit": limit, **({"kind": kind} if kind else {})}
    return call.ask(Request("GET", filled(W + "/journal", call, {}), query))


def _print(call: Any, row: dict[str, Any]) -> None:
    if call.options.json:
        call.print_json(row)
    else:
        call.console.print(escape(line(row)), soft_wrap=True)


def follow(call: Any, after: int, kind: str | None = None) -> Iterator[dict[str, Any]]:
    """Durable rows behind a sequence as they come, without a gap and without a repeat.

    The feed says that something is there; the rows are read from the journal, page by page.
    """
    for _ in _wakes(call, after):
        while True:
            page = _page(call, after, 1000, kind)
            yield from page["items"]
            after = max([after, *(row["seq"] for row in page["items"])])
            if page["next"] is None:
                break
            after = max(after, int(page["next"]))


def _wakes(call: Any, after: int) -> Iterator[None]:
    # The stream has its own connection: requests in between would wait behind it.
    feed = call.beside()
    try:
        yield
        for part in feed.pour(Request("GET", filled(W + "/feed", call, {}), {"after": after})):
            if part == b"event: frame":
                yield
    finally:
        feed.close()


def _answer(call: Any, options: Options) -> Done:
    body = picked(("choice", "comment"), options)
    if options["answer"] is not None:
        body["answer"] = json_of(options["answer"])
    return Done(call.ask(Request("POST", filled(W + "/asks/{intent}", call, options), body=body)))


VERBS = (
    Verb(
        "journal head",
        "the newest sequence and its hash",
        reads(W + "/journal/head"),
        (),
        {"world": str, "seq": int, "head": HASH, "epoch": int},
    ),
    Verb(
        "journal tail",
        "the newest records",
        _tail,
        (
            opt("from", "begin at this sequence", type=click.IntRange(min=1)),
            opt("kind", "only this kind of record"),
            LIMIT,
            flag("follow", "go on with what comes"),
        ),
        shapes.part(shapes.ROW),
        _show_tail,
    ),
    Verb(
        "journal show",
        "one record whole",
        reads(W + "/journal/{seq}"),
        (arg("seq", type=int),),
        {**shapes.ROW, "cause": (int, None), "in_frame": ANY},
    ),
    Verb(
        "ask ls",
        "questions that wait for a person",
        reads(W + "/asks", "limit", "after", "at"),
        (LIMIT, AFTER, AT),
        shapes.items(ANY),
        show.columns("intent", "title", "choices", "to"),
    ),
    Verb(
        "ask answer",
        "answer a question",
        _answer,
        (
            arg("intent"),
            opt("choice", "one of the choices"),
            opt("answer", "JSON that fits the form"),
            opt("comment", "a word with it"),
        ),
        shapes.SEQ,
    ),
)
