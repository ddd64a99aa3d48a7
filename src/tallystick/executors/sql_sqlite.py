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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import apsw

from tallystick.executors.base import Failed
from tallystick.executors.sql_values import Answer, Query, SqlError, Taken, bound

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
    bindings = bound(query.args)
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
    except KeyError as why:
        raise SqlError("sql.invalid", f"no value is named {why.args[0]}") from None
    except OverflowError:
        raise SqlError("sql.args", "a bound number has over 63 bits") from None
    finally:
        connection.authorizer = connection.exec_trace = None
    changed = connection.total_changes() - before
    return Answer(tuple(columns), rows, len(rows) if columns else changed, truncated)


def _taken(cursor: apsw.Cursor, query: Query) -> tuple[list[list[Any]], bool]:
    """The rows up to the limit; a write is run to its end, a read stops there."""
    taken = Taken(query)
    for row in cursor:
        if not taken.take(row):
            if not query.write:
                cursor.close(True)
                return taken.rows, True
            for _ in cursor:
                pass
            return taken.rows, True
    return taken.rows, False


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


def failed(error: apsw.Error) -> Failed:
    """What SQLite refused, by whose fault; its messages name tables, never places of the host."""
    if isinstance(error, apsw.AuthError | apsw.ReadOnlyError | apsw.PermissionsError):
        return Failed("scope", "sql.refused", str(error))
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Failed("conflict", "sql.busy", "the database is locked", retryable=True)
    if isinstance(error, apsw.ConstraintError):
        return Failed("client_error", "sql.constraint", str(error))
    if isinstance(error, apsw.CantOpenError):
        return Failed("connection", "sql.cannot_open", "the database cannot be opened")
    if isinstance(error, apsw.FullError | apsw.TooBigError | apsw.NoMemError):
        return Failed("limit", "sql.limit", str(error))
    if isinstance(error, apsw.SQLError | apsw.BindingsError | apsw.MismatchError | apsw.RangeError):
        return Failed("client_error", "sql.invalid", str(error))
    if isinstance(error, apsw.IOError):
        return Failed("outcome_unknown", "sql.io", str(error), retryable=True)
    return Failed("server_error", "sql.failed", str(error))
