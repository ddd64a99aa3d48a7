"""One statement on one PostgreSQL database; the driver is `asyncpg`, where it is installed.

Theory of operation.
A statement has a connection and a transaction of its own; a read gets one that cannot write.
The tables it touched are asked of the server behind it: its locks name them, also those that a
view or a trigger led to, and what was not granted is rolled back.
A write begins with the row of `tally_effect` that stands for its key.
A second attempt meets that row, waits for the first to end, and answers what it kept.
What the role of the connection may do is the server's business: give an alias a role of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from tallystick.executors.base import ErrorKind
from tallystick.executors.sql_postgres_text import TYPES, speak_text, typed, types_of
from tallystick.executors.sql_values import Answer, Query, SqlError, Taken, numbered

T = TypeVar("T")

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
_MAKE: Final = (
    "CREATE TABLE IF NOT EXISTS tally_effect"
    " (dispatch_key bytea PRIMARY KEY, receipt bytea NOT NULL)"
)
_BEGIN: Final = "INSERT INTO tally_effect VALUES ($1, '') ON CONFLICT DO NOTHING RETURNING true"
_KNOWN: Final = "SELECT receipt FROM tally_effect WHERE dispatch_key = $1"
_KEEP: Final = "UPDATE tally_effect SET receipt = $2 WHERE dispatch_key = $1"
# What the transaction holds a lock on, but for the granted names, what a granted view stands for
# and the partitions of a granted table.
_FOREIGN: Final = """
WITH RECURSIVE granted(oid) AS (
  SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN json_array_elements_text($1) name ON name = lower(c.relname)
    OR name = lower(n.nspname || '.' || c.relname)
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
    It waits for the server on a loop of its own, so a thread that serves none calls it.
    """
    if find_spec("asyncpg") is None:
        message = "the driver asyncpg is not installed here: pip install tallystick[postgres]"
        raise SqlError("sql.engine", message)
    driver = import_module("asyncpg")
    _judge(query)

    async def run() -> bytes:
        async with _opened(driver, place, bounds) as connection:
            if not query.write:
                return work.keep(await _ask(connection, query, bounds.stopped))
            await _remember(driver, connection)
            return await _act(connection, query, key, bounds.stopped, work)

    try:
        return asyncio.run(run())
    except (driver.PostgresError, driver.InterfaceError, OSError) as error:
        raise _refusal(error, write=query.write) from None


def _judge(query: Query) -> None:
    words = query.sql.split(None, 1)
    if words[0].lower() in _NEVER or _MEMORY in query.sql.lower():
        raise SqlError("sql.refused", "the statement is not for one transaction", "scope")


@asynccontextmanager
async def _opened(driver: Any, place: str, bounds: Bounds) -> AsyncIterator[Any]:
    settings = {
        "TimeZone": "UTC",
        "DateStyle": "ISO, YMD",
        "IntervalStyle": "iso_8601",
        "bytea_output": "hex",
        "lock_timeout": str(bounds.busy_ms),
        "statement_timeout": str(max(1, int(bounds.timeout_s * 1000))),
    }
    try:
        connection = await driver.connect(
            place, timeout=_CONNECT_S, statement_cache_size=0, server_settings=settings
        )
    except (driver.PostgresError, driver.InterfaceError, OSError, ValueError):
        # The driver's own words name the host and the user.
        error = SqlError("sql.cannot_open", "the database cannot be reached", "connection")
        error.retryable = True
        raise error from None
    try:
        yield connection
    finally:
        connection.terminate()  # at once: what is open then was to be rolled back


async def _unless(stopped: Callable[[], bool], doing: Coroutine[Any, Any, T]) -> T:
    """What is done, unless it is to stop: then the server is asked to cancel it."""
    task = asyncio.ensure_future(doing)
    while not (await asyncio.wait({task}, timeout=_LOOK_S))[0]:
        if stopped():
            task.cancel()
            await asyncio.wait({task})
    if task.cancelled():
        raise SqlError("sql.interrupted", "the statement was stopped", "cancelled")
    return task.result()


async def _ask(connection: Any, query: Query, stopped: Callable[[], bool]) -> Answer:
    async with connection.transaction(readonly=True):
        return await _unless(stopped, _run(connection, query))


async def _act(
    connection: Any, query: Query, key: bytes, stopped: Callable[[], bool], work: Work
) -> bytes:
    # The commit is not stopped: whoever leaves it halfway does not know whether it was made.
    async with connection.transaction():
        kept = await _unless(stopped, _once(connection, query, key, work))
    work.at("committed")
    return kept


async def _once(connection: Any, query: Query, key: bytes, work: Work) -> bytes:
    fresh = await connection.fetchval(_BEGIN, key)
    work.at("begun")
    if not fresh:
        known: bytes = await connection.fetchval(_KNOWN, key)
        return known
    kept = work.keep(await _run(connection, query))
    work.at("ran")
    await connection.execute(_KEEP, key, kept)
    work.at("kept")
    return kept


async def _remember(driver: Any, connection: Any) -> None:
    """The table of answers, made by whoever writes first."""
    if await connection.fetchval("SELECT to_regclass($1)", _MEMORY) is None:
        # Another attempt may make it meanwhile.
        with suppress(driver.UniqueViolationError, driver.DuplicateTableError):
            await connection.execute(_MAKE)


async def _run(connection: Any, query: Query) -> Answer:
    text, values = numbered(query, typed)
    statement = await _prepared(connection, text)
    columns = tuple(column.name for column in statement.get_attributes())
    taken, whole = Taken(query), True
    if columns:
        # Pages of a cursor: a large table is not read into memory to find that it is too large.
        # A write runs to its end, since rows that nobody takes may be made by what it calls.
        cursor = await statement.cursor(*values)
        while (whole or query.write) and (page := await cursor.fetch(_PAGE)):
            whole = whole and all(taken.take(row) for row in page)
    else:
        await statement.fetch(*values)
    await _only_granted(connection, query)
    count = len(taken.rows) if columns else _changed(statement.get_statusmsg())
    return Answer(columns, taken.rows, count, not whole)


async def _prepared(connection: Any, text: str) -> Any:
    """A statement that takes and gives text.

    What it takes and gives is known when it is prepared, so it is prepared once more.
    """
    statement = await connection.prepare(text)
    common, others = types_of(statement)
    asked = await connection.fetch(TYPES, others) if others else ()
    speak_text(connection, [*common, *asked])
    return await connection.prepare(text)


def _changed(status: str) -> int:
    """How many rows a statement changed, by the last word of `INSERT 0 1`; not all say it."""
    word = status.rpartition(" ")[2]
    return int(word) if word.isdecimal() else 0


async def _only_granted(connection: Any, query: Query) -> None:
    if query.tables is None:
        return
    found = await connection.fetchval(_FOREIGN, json.dumps(sorted(query.tables)))
    if found is not None:
        raise SqlError("sql.refused", f"the table {found} is not granted", "scope")


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
    state = getattr(error, "sqlstate", None)
    if state is None or state.startswith(("08", "57P")):
        kind: ErrorKind = "outcome_unknown" if write else "connection"
        made = SqlError("sql.lost", "the connection to the database was lost", kind)
        made.retryable = True
        return made
    message = error.message or "the server refused the statement"
    for start, kind, code, retryable in _BY_STATE:
        if state.startswith(start):
            made = SqlError(code, message, kind)
            made.retryable = retryable
            break
    else:
        made = SqlError("sql.failed", message, "server_error")
    named = {"constraint": error.constraint_name, "table": error.table_name}
    made.details = {"sqlstate": state, **{k: v for k, v in named.items() if v}}
    return made
