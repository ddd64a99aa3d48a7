"""What goes into a statement and what comes out, alike for every database.

Into it: null, numbers, text, and bytes as `{bytes_b64}`; bound, never part of the text.
Out of it: JSON. What JSON has no form for is text, as the standard of SQL writes it, so that the
same row gives the same bytes on every machine.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from tallystick.executors.base import ErrorKind
from tallystick.values import canon
from tallystick.values.schema.freeform import json_float

_WORDS: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


class SqlError(Exception):
    """A statement that was not run to its end; `code` says why, `kind` by whose fault."""

    def __init__(self, code: str, message: str, kind: ErrorKind = "client_error") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.kind: ErrorKind = kind
        self.retryable = False
        self.details: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Query:
    """One statement with its bound values, and what it may touch; `tables` None: all."""

    sql: str
    args: Any
    write: bool
    tables: frozenset[str] | None
    rows_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gave: rows for a question, a count for a change."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    row_count: int
    truncated: bool


@dataclass(slots=True)
class Taken:
    """Rows as they are taken from a database, up to the limits of their query."""

    query: Query
    rows: list[list[Any]] = field(default_factory=list)
    size: int = 0

    def take(self, row: Any) -> bool:
        """Keep a row; False for one row too many, SqlError when the rows grow too large."""
        if len(self.rows) == self.query.rows_max:
            return False
        self.size += sum(len(v) if isinstance(v, str | bytes) else 8 for v in row)
        if self.size > self.query.bytes_max:
            raise SqlError("sql.too_large", "the rows are over the limit", "limit")
        self.rows.append([told(value) for value in row])
        return True


def bound(args: Any) -> Any:
    """A tuple for places, a map for names; scalars only, since a text of parts is no value."""
    if args is None:
        return ()
    if isinstance(args, Mapping):
        return {name: _value(value) for name, value in args.items()}
    if isinstance(args, list):
        return tuple(_value(value) for value in args)
    raise SqlError("sql.args", "args is a list, a map or null")


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping) and list(value) == ["bytes_b64"]:
        try:
            return b64decode(value["bytes_b64"], validate=True)
        except (ValueError, TypeError):
            pass
    raise SqlError("sql.args", "a bound value is null, a number, a text or {bytes_b64}")


def told(value: Any) -> Any:
    """A column as JSON: bytes as tagged base64, what has no form of its own as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if canon.INT_MIN <= value <= canon.INT_MAX else str(value)
    if isinstance(value, float):
        return json_float(value) if isfinite(value) else _WORDS[str(value)]
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes_b64": b64encode(value).decode("ascii")}
    if isinstance(value, list | tuple):
        return [told(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): told(item) for name, item in value.items()}
    return _span(value) if isinstance(value, timedelta) else str(value)


def _span(value: timedelta) -> str:
    """A span of time as ISO 8601 writes it."""
    return (
        f"P{value.days}DT{value.seconds}S"
        if not value.microseconds
        else (f"P{value.days}DT{value.seconds}.{value.microseconds:06}S")
    )


def _number(value: Decimal) -> Any:
    """A decimal as a number where that says the same, else as its digits."""
    if value.is_finite():
        if value == value.to_integral_value():
            return told(int(value))
        near = float(value)
        if Decimal(repr(near)) == value:
            return near
    text = str(value)
    return _WORDS.get(text.lower().replace("infinity", "inf"), text)


def numbered(
    query: Query, typed: Callable[[Any], str] = lambda _: ""
) -> tuple[str, tuple[Any, ...]]:
    """The text with `$1`, `$2`... for `?` or `:name`, and the values in that order.

    What stands in quotes stays as it is, and so does `::` of a cast.
    What `typed` says of a value stands behind its number.
    """
    given = bound(query.args)
    if not given:
        return query.sql, ()
    parts: list[str] = []
    values: list[Any] = []
    at = 0
    for start, end, name in _places(query.sql):
        if name is None and not isinstance(given, dict):
            if len(values) == len(given):
                raise SqlError("sql.invalid", "the statement has more places than values")
            values.append(given[len(values)])
        elif name is not None and isinstance(given, dict):
            if name not in given:
                raise SqlError("sql.invalid", f"no value is named {name}")
            values.append(given[name])
        else:
            continue
        parts += [query.sql[at:start], f"${len(values)}{typed(values[-1])}"]
        at = end
    if not isinstance(given, dict) and len(values) < len(given):
        raise SqlError("sql.invalid", "the statement has fewer places than values")
    return "".join((*parts, query.sql[at:])), tuple(values)


def _places(sql: str) -> Iterator[tuple[int, int, str | None]]:
    """Where a value stands: from, to, and its name, None for `?`."""
    at = 0
    while at < len(sql):
        sign = sql[at]
        if sign in "'\"":
            at = sql.find(sign, at + 1)
            if at < 0:  # the quote is open, which the engine says better
                return
        elif sign == "?":
            yield at, at + 1, None
        elif sign == ":" and sql[at + 1 : at + 2] == ":":
            at += 1
        elif sign == ":":
            end = at + 1
            while end < len(sql) and (sql[end].isalnum() or sql[end] == "_"):
                end += 1
            if end > at + 1 and not sql[at + 1].isdigit():
                yield at, end, sql[at + 1 : end]
        at += 1
