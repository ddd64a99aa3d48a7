"""Answers for people: rich tables on a terminal, the same words without colour in a pipe."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unicodedata import category

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def line(console: Console, text: str) -> None:
    """One line as it is: in a pipe, too, it is not broken at some width."""
    console.print(text, markup=False, soft_wrap=True)


def text_of(value: Any) -> str:
    """One value on one line; an absent one is a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def one_line(value: Any) -> str:
    """A value as a part of a line: what would break it, or steer a terminal, is spelled out.

    Keys are the words of whoever sends events.
    """
    return "".join(
        char.encode("unicode_escape").decode("ascii") if category(char) == "Cc" else char
        for char in text_of(value)
    )


def fields(console: Console, value: Any) -> None:
    """An object as its fields, one a line."""
    if not isinstance(value, Mapping):
        console.print(escape(text_of(value)), soft_wrap=True)
        return
    width = max((len(str(key)) for key in value), default=0)
    for key, held in value.items():
        console.print(f"[bold]{key!s:<{width}}[/]  {escape(one_line(held))}", soft_wrap=True)


def columns(*names: str) -> Callable[[Console, Any], None]:
    """A list answer as a table of these fields; says how to go on when there is more."""

    def show(console: Console, value: Any) -> None:
        rows: Sequence[Any] = value["items"]
        if not rows:
            console.print("nothing")
            return
        _table(console, names, rows)
        more(console, value)

    return show


def more(console: Console, value: Any) -> None:
    """How a list goes on, if it does: a page is not to be taken for the whole."""
    if value.get("next") is not None:
        line(console, f"more: --after {text_of(value['next'])}")


def _table(console: Console, names: Sequence[str], rows: Sequence[Any]) -> None:
    if not console.is_terminal:
        # A pipe gets every character of every cell, one row a line.
        for row in rows:
            line = "  ".join(one_line(row.get(name)) for name in names)
            console.print(escape(line), soft_wrap=True, highlight=False)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(escape(one_line(row.get(name))) for name in names))
    console.print(table)


def words(name: str) -> Callable[[Console, Any], None]:
    """One field of the answer as plain text."""

    def show(console: Console, value: Any) -> None:
        console.print(text_of(value[name]), soft_wrap=True, markup=False, highlight=False)

    return show


def nothing(_console: Console, _value: Any) -> None:
    """For commands that spoke while they worked."""
