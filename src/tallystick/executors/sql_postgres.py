"""One statement on one PostgreSQL database; the driver is `psycopg`, where it is installed.

Theory of operation.
A statement has a connection and a transaction of its own; a read gets one that cannot write.
The tables it touched are asked of the server behind it: its locks name them, also those that a
view or a trigger led to, and what was not granted is rolled back.
A write begins with the row of `tally_effect` that stands for its key.
A second attempt meets that row, waits for the first to end, and answers what it kept.
What the role of the connection may do is the server's business: give an alias a role of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from tallystick.executors.base import ErrorKind
from tallystick.executors.sql_values import Answer, Query, SqlError, Taken, numbered

_MEMORY: Final = "tally_effect"
_LOOK_S: Final = 0.02
_PAGE: Final = 500
_CONNECT_S: Final = 10
# These change the transaction, leave it, or hide another statement.
_NEVER_WORDS: Final = """
abort begin call checkpoint close commit copy deallocate declare discard do end execute fetch
listen load lock move notify prepare reassign release reset rollback savepoint security set
start unlisten vacuum
"""
_NEVER: Final = frozenset(_NEVER_WORDS.split())
# Types that JSON has, and text that needs no reading; all others come as the server writes them.
_READ_WORDS: Final = """
bool int2 int4 int8 oid float4 float8 numeric bytea json jsonb text varchar bpchar "char" name
"""
_READ: Final = frozenset(_READ_WORDS.split())
_SETTINGS: Final = (
    "SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO, YMD', false),"
    " set_config('IntervalStyle', 'iso_8601', false), set_config('bytea_output', 'hex', false),"
    " set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false)"
)
_MAKE: Final = (
    "CREATE TABLE IF NOT EXISTS tally_effect"
    " (dispatch_key bytea PRIMARY KEY, receipt bytea NOT NULL)"
)
_BEGIN: Final = "INSERT INTO tally_effect VALUES ($1, '') ON CONFLICT DO NOTHING"
_KNOWN: Final = "SELECT receipt FROM tally_effect WHERE dispatch_key = $1"
_KEEP: Final = "UPDATE tally_effect SET receipt = $2 WHERE dispatch_key = $1"
# What the transaction holds a lock on, but for the granted names, what a granted view stands for
# and the partitions of a granted table.
_FOREIGN: Final = """
WITH RECURSIVE granted(oid) AS (
  SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE lower(c.relname) = ANY($1) OR lower(n.nspname || '.' || c.relname) = ANY($1)
  UNION SELECT more.oid FROM granted JOIN (
    SELECT r.ev_class AS of, d.refobjid AS oid FROM pg_rewrite r JOIN pg_depend d
      ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
      AND d.refclassid = 'pg_class'::regclass
    UNION ALL SELECT inhparent, inhrelid FROM pg_inherits) more ON more.of = granted.oid)
SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation'
  AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND c.relname <> 'tally_effect' AND c.oid NOT IN (SELECT oid FROM granted) LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a statement ends: `stopped` is asked while it runs, the rest the server keeps itself."""

    stopped: Callable[[], bool]
    busy_ms: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Work:
    """How an answer is kept, and who is told of each step of a write."""

    keep: Callable[[Answer], bytes]
    at: Callable[[str], None]


def perform(place: str, query: Query, key: bytes, bounds: Bounds, work: Work) -> bytes:
    """Run a statement, a write once for each key; the kept answer, of this time or before.

    Every failure is an SqlError; `sql.interrupted` is that of a stopped statement.
    """
    if find_spec("psycopg") is None:
        message = "the driver psycopg is not installed here: pip install tallystick[postgres]"
        raise SqlError("sql.engine", message)
    driver = import_module("psycopg")
    _judge(query)
    try:
        with _opened(driver, place, query, bounds) as connection:
            if query.write:
                return _act(driver, connection, query, key, work)
            return work.keep(_ask(driver, connection, query))
    except driver.Error as error:
        raise _refusal(error, write=query.write) from None


def _judge(query: Query) -> None:
    words = query.sql.split(None, 1)
    if words[0].lower() in _NEVER or _MEMORY in query.sql.lower():
        raise SqlError("sql.refused", "the statement is not for one transaction", "scope")


@contextmanager
def _opened(driver: Any, place: str, query: Query, bounds: Bounds) -> Iterator[Any]:
    try:
        connection = driver.connect(
            place,
            connect_timeout=_CONNECT_S,
            cursor_factory=driver.RawCursor,
            prepare_threshold=None,
        )
    except driver.Error:
        # The driver's own words name the host and the user.
        error = SqlError("sql.cannot_open", "the database cannot be reached", "connection")
        error.retryable = True
        raise error from None
    try:
        for info in driver.postgres.types:
            if info.name not in _READ:
                connection.adapters.register_loader(info.oid, driver.types.string.TextLoader)
        limits = (str(bounds.busy_ms), str(max(1, int(bounds.timeout_s * 1000))))
        connection.execute(_SETTINGS, limits)
        connection.commit()  # a setting of a transaction that is rolled back is lost with it
        connection.read_only = not query.write
        with _watched(connection, bounds.stopped):
            yield connection
    finally:
        connection.close()


@contextmanager
def _watched(connection: Any, stopped: Callable[[], bool]) -> Iterator[None]:
    """Ask the server to cancel once the statement is to stop."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_S):
            if stopped():
                connection.cancel()

    thread = threading.Thread(target=look, name="tally-sql-watch")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _ask(driver: Any, connection: Any, query: Query) -> Answer:
    text, values = numbered(query)
    if query.sql[:7].lower() == "explain":
        return _run(connection, query)
    # Pages of a cursor: a large table is not read into memory to find that it is too large.
    with driver.RawServerCursor(connection, "tally") as cursor:
        cursor.execute(text, values)
        taken, whole = Taken(query), True
        while whole and (page := cursor.fetchmany(_PAGE)):
            whole = all(taken.take(row) for row in page)
        columns = tuple(column.name for column in cursor.description or ())
        _only_granted(connection, query)
    return Answer(columns, taken.rows, len(taken.rows), not whole)


def _act(driver: Any, connection: Any, query: Query, key: bytes, work: Work) -> bytes:
    _remember(driver, connection)
    fresh = connection.execute(_BEGIN, (key,)).rowcount == 1
    work.at("begun")
    if not fresh:
        (known,) = connection.execute(_KNOWN, (key,)).fetchone()
        return bytes(known)
    kept = work.keep(_run(connection, query))
    work.at("ran")
    connection.execute(_KEEP, (key, kept))
    work.at("kept")
    connection.commit()
    work.at("committed")
    return kept


def _remember(driver: Any, connection: Any) -> None:
    """The table of answers, made by whoever writes first."""
    found = connection.execute("SELECT to_regclass($1)", (_MEMORY,)).fetchone()
    if found[0] is not None:
        return
    try:
        connection.execute(_MAKE)
        connection.commit()
    except (driver.errors.UniqueViolation, driver.errors.DuplicateTable):
        connection.rollback()  # another attempt made it meanwhile


def _run(connection: Any, query: Query) -> Answer:
    text, values = numbered(query)
    taken = Taken(query)
    with connection.execute(text, values) as cursor:
        columns = tuple(column.name for column in cursor.description or ())
        whole = not columns or all(taken.take(row) for row in cursor)
        count = len(taken.rows) if columns else max(0, cursor.rowcount)
    _only_granted(connection, query)
    return Answer(columns, taken.rows, count, not whole)


def _only_granted(connection: Any, query: Query) -> None:
    if query.tables is None:
        return
    found = connection.execute(_FOREIGN, (sorted(query.tables),)).fetchone()
    if found is not None:
        raise SqlError("sql.refused", f"the table {found[0]} is not granted", "scope")


# ---- errors -------------------------------------------------------------------------------------


_BY_STATE: Final[tuple[tuple[str, ErrorKind, str, bool], ...]] = (
    ("57014", "cancelled", "sql.interrupted", False),
    ("55P03", "conflict", "sql.busy", True),
    ("40001", "conflict", "sql.serialization", True),
    ("40P01", "conflict", "sql.deadlock", True),
    ("42501", "scope", "sql.refused", False),
    ("25006", "scope", "sql.refused", False),
    ("28", "auth", "sql.auth", False),
    ("23", "client_error", "sql.constraint", False),
    ("53", "limit", "sql.limit", True),
    ("54", "limit", "sql.limit", False),
    ("22", "client_error", "sql.invalid", False),
    ("42", "client_error", "sql.invalid", False),
)


def _refusal(error: Any, *, write: bool) -> SqlError:
    """What the server refused, by its SQLSTATE; a lost connection has none."""
    state = error.sqlstate
    if state is None or state.startswith(("08", "57P")):
        kind: ErrorKind = "outcome_unknown" if write else "connection"
        made = SqlError("sql.lost", "the connection to the database was lost", kind)
        made.retryable = True
        return made
    message = error.diag.message_primary or "the server refused the statement"
    for start, kind, code, retryable in _BY_STATE:
        if state.startswith(start):
            made = SqlError(code, message, kind)
            made.retryable = retryable
            break
    else:
        made = SqlError("sql.failed", message, "server_error")
    named = {"constraint": error.diag.constraint_name, "table": error.diag.table_name}
    made.details = {"sqlstate": state, **{k: v for k, v in named.items() if v}}
    return made
