"""Long lists of a cell, kept beside its state.

Theory of operation.
A state is written down at every tick, so a list in it costs as much as it is long, each time.
Here rows come in at the back; full pages of them go to the store, and so do books of pages, so
that the state names a few dozen hashes whatever the length.
`upto` is what the last row of a page or book says of itself, for readers that want only the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tallystick.reactions.cell import Body, Turn

TYPE: Final = "rows@1"
PAGE: Final = 32
BOOK: Final = 32

Rows = Body


def new() -> Rows:
    """No rows."""
    return {"n": 0, "front": [], "first": [], "books": [], "pages": [], "back": []}


def push(turn: Turn, rows: Rows, row: Any, upto: int | None = None) -> None:
    """One more row at the back."""
    rows["back"].append(row)
    rows["n"] += 1
    if len(rows["back"]) == PAGE:
        rows["pages"].append(_kept(turn, rows["back"], upto))
        rows["back"] = []
    if len(rows["pages"]) == BOOK:
        rows["books"].append(_kept(turn, rows["pages"], upto))
        rows["pages"] = []


def pop(turn: Turn, rows: Rows) -> Any:
    """The oldest row, taken out; there is one."""
    assert rows["n"] > 0, "rows are taken out of a list that has some"
    while not rows["front"]:
        _turn_over(turn, rows)
    rows["n"] -= 1
    return rows["front"].pop(0)


def _turn_over(turn: Turn, rows: Rows) -> None:
    """Bring the next page to the front."""
    if not rows["first"]:
        if rows["books"]:
            rows["first"] = _read(turn, rows["books"].pop(0))
        else:
            rows["first"], rows["pages"] = rows["pages"], []
    if rows["first"]:
        rows["front"] = _read(turn, rows["first"].pop(0))
    else:
        rows["front"], rows["back"] = rows["back"], []


def every(turn: Turn, rows: Rows) -> Iterator[Any]:
    """Every row, oldest first."""
    yield from rows["front"]
    for page in rows["first"]:
        yield from _read(turn, page)
    for book in rows["books"]:
        for page in _read(turn, book):
            yield from _read(turn, page)
    for page in rows["pages"]:
        yield from _read(turn, page)
    yield from rows["back"]


def since(turn: Turn, rows: Rows, least: int) -> list[Any]:
    """Rows of a list that only grows, oldest first, without pages that end before `least`."""
    found: list[Any] = []
    for book in rows["books"]:
        if book["upto"] >= least:
            for page in _read(turn, book):
                found += _read(turn, page) if page["upto"] >= least else []
    for page in rows["pages"]:
        found += _read(turn, page) if page["upto"] >= least else []
    found += rows["back"]
    return found


def drop_oldest(rows: Rows, most: int) -> None:
    """Forget whole books of a list that only grows, while it is longer than `most`."""
    while rows["n"] > most and rows["books"]:
        del rows["books"][0]
        rows["n"] -= PAGE * BOOK


def without(turn: Turn, rows: Rows, gone: Any) -> Rows:
    """The same rows but one."""
    made = new()
    for row in every(turn, rows):
        if row != gone:
            push(turn, made, row)
    return made


def _kept(turn: Turn, items: list[Any], upto: int | None) -> dict[str, Any]:
    held = turn.keep({"$type": TYPE, "rows": items})
    return held if upto is None else {**held, "upto": upto}


def _read(turn: Turn, held: dict[str, Any]) -> list[Any]:
    rows: list[Any] = turn.read(held)["rows"]
    return rows
