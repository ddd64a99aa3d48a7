"""One statement on one SQLite file, under an authorizer that sees what the text cannot hide.

Theory of operation.
The text rules of `authority.sqltext` say which class a statement has; SQLite itself then asks the
authorizer about every table it really touches, through views and triggers too.
A read gets a connection that cannot write.
A write runs in one transaction with the row of `tally_effect` that remembers its answer: both are
there or neither is, so a second attempt finds the answer and does not act again.
No statement may reach that table, change the transaction, attach a file or load code.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import Any, Final

import apsw

from tallystick.values.schema.freeform import json_float

_MEMORY: Final = "tally_effect"
_BUSY_STEP_MS: Final = 10
_STEPS_BETWEEN_LOOKS: Final = 1000
_VALUE_BYTES_MAX: Final = 64 << 20
_READ_ACTIONS: Final = frozenset(
    (apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE)
)
_TABLE_ACTIONS: Final = frozenset(
    (apsw.SQLITE_READ, apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE)
)
# A virtual table may read files, and the rest would undo the transaction or leave the database.
_NEVER: Final = frozenset(
    (
        apsw.SQLITE_ATTACH,
        apsw.SQLITE_DETACH,
        apsw.SQLITE_PRAGMA,
        apsw.SQLITE_TRANSACTION,
        apsw.SQLITE_SAVEPOINT,
        apsw.SQLITE_CREATE_VTABLE,
        apsw.SQLITE_DROP_VTABLE,
    )
)


class SqlError(Exception):
    """A statement that cannot be run as it is; `code` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


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


@contextmanager
def opened(
    path: Path, *, write: bool, stopped: Callable[[], bool], busy_ms: int
) -> Iterator[apsw.Connection]:
    """A connection to a file that exists; a read one cannot write.

    `stopped` is asked while statements run; once it says yes, they end with an InterruptError.
    A lock of others is waited for at most `busy_ms`.
    """

    def wait(turn: int) -> bool:
        if stopped() or turn * _BUSY_STEP_MS >= busy_ms:
            return False
        time.sleep(_BUSY_STEP_MS / 1000)
        return True

    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    connection = apsw.Connection(str(path), flags=flags)
    try:
        connection.set_busy_handler(wait)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, _VALUE_BYTES_MAX)
        connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        connection.pragma("trusted_schema", False)
        connection.pragma("synchronous", "FULL")
        if not write:
            connection.pragma("query_only", True)
        connection.set_progress_handler(stopped, _STEPS_BETWEEN_LOOKS)
        yield connection
    finally:
        connection.close()


def ask(connection: apsw.Connection, query: Query) -> Answer:
    """Run a statement that only reads."""
    connection.execute("BEGIN")
    try:
        return _run(connection, query)
    finally:
        with suppress(apsw.SQLError):
            connection.execute("ROLLBACK")


def act(
    connection: apsw.Connection,
    query: Query,
    key: bytes,
    keep: Callable[[Answer], bytes],
    at: Callable[[str], None],
) -> bytes:
    """Run a statement that writes, once for each key; the kept answer, of this time or before."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        known = _remembered(connection, key)
        at("begun")
        if known is not None:
            connection.execute("ROLLBACK")
            return known
        kept = keep(_run(connection, query))
        at("ran")
        connection.execute(f"INSERT INTO {_MEMORY} VALUES (?, ?)", (key, kept))  # noqa: S608
        at("kept")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    at("committed")
    return kept


def _remembered(connection: apsw.Connection, key: bytes) -> bytes | None:
    """The answer that an earlier attempt kept, in this database and under this key."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {_MEMORY}"
        " (dispatch_key BLOB PRIMARY KEY, receipt BLOB NOT NULL) WITHOUT ROWID"
    )
    sql = f"SELECT receipt FROM {_MEMORY} WHERE dispatch_key = ?"  # noqa: S608 - a constant
    found = connection.execute(sql, (key,)).get
    return None if found is None else bytes(found)


def _run(connection: apsw.Connection, query: Query) -> Answer:
    bindings = _bound(query.args)
    before = connection.total_changes()
    columns: list[str] = []

    def prepared(cursor: apsw.Cursor, _sql: str, _bindings: object) -> bool:
        # Asked for here, since a statement without rows is over before anyone else can ask.
        columns.extend(column[0] for column in cursor.get_description())
        return True

    connection.authorizer = _authorizer(query)
    connection.exec_trace = prepared
    try:
        rows, truncated = _taken(connection.execute(query.sql, bindings), query)
    except UnicodeDecodeError:
        raise SqlError("sql.text", "a text of the database is not UTF-8") from None
    finally:
        connection.authorizer = connection.exec_trace = None
    changed = connection.total_changes() - before
    return Answer(tuple(columns), rows, len(rows) if columns else changed, truncated)


def _taken(cursor: apsw.Cursor, query: Query) -> tuple[list[list[Any]], bool]:
    """The rows up to the limit; a write is run to its end, a read stops there."""
    rows: list[list[Any]] = []
    size = 0
    for row in cursor:
        if len(rows) == query.rows_max:
            if not query.write:
                cursor.close(True)
                return rows, True
            for _ in cursor:
                pass
            return rows, True
        told = [_json(value) for value in row]
        size += sum(len(v) if isinstance(v, str | bytes) else 8 for v in row)
        if size > query.bytes_max:
            raise SqlError("sql.too_large", "the rows are over the limit")
        rows.append(told)
    return rows, False


def _authorizer(query: Query) -> Callable[..., int]:
    def judge(
        action: int, first: str | None, second: str | None, _db: str | None, inner: str | None
    ) -> int:
        if action in _NEVER or (not query.write and action not in _READ_ACTIONS):
            return apsw.SQLITE_DENY
        if _MEMORY in (name.lower() for name in (first, second) if name is not None):
            return apsw.SQLITE_DENY
        if query.tables is None or action in (apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION):
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_RECURSIVE:
            return apsw.SQLITE_OK
        named = {name.lower() for name in (first, inner) if name is not None}
        fits = action in _TABLE_ACTIONS and not named.isdisjoint(query.tables)
        return apsw.SQLITE_OK if fits else apsw.SQLITE_DENY

    return judge


# ---- values ---------------------------------------------------------------------------------


def _bound(args: Any) -> Any:
    """A list for `?`, a map for `:name`; scalars only, since a text made of parts is no value."""
    if args is None:
        return ()
    if isinstance(args, Mapping):
        return {name: _value(value) for name, value in args.items()}
    if isinstance(args, list):
        return tuple(_value(value) for value in args)
    raise SqlError("sql.args", "args is a list, a map or null")


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, Mapping) and list(value) == ["bytes_b64"]:
        try:
            return b64decode(value["bytes_b64"], validate=True)
        except (ValueError, TypeError):
            pass
    raise SqlError("sql.args", "a bound value is null, a number, a text or {bytes_b64}")


def _json(value: Any) -> Any:
    """A column as JSON: bytes as tagged base64, what is not finite as its name."""
    if isinstance(value, bytes):
        return {"bytes_b64": b64encode(value).decode("ascii")}
    if isinstance(value, float):
        if isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return json_float(value)
    return value
