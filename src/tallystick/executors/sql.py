"""The sql executor: one statement with bound values on a configured database.

A database is known by its alias; where it is stands in the settings or in a secret, never in a
request.
A write needs three yeses: the settings of the alias, the grant, and `mode` in the request.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw

from tallystick.authority.enforcers import builtin
from tallystick.authority.sqltext import read_statement
from tallystick.errors import BadDefinition, SchemaMismatch, TallyError
from tallystick.executors import sql_postgres
from tallystick.executors.base import (
    INLINE_BYTES_MAX,
    ExecutorPorts,
    Failed,
    Job,
    Ok,
    Outcome,
    Repeat,
    Report,
)
from tallystick.executors.sql_sqlite import act, ask, failed, opened
from tallystick.executors.sql_values import Answer, Query, SqlError
from tallystick.values import canon

QUERY: Final = "sys/sql.query@1"
_ROWS_MAX: Final = 1000
_BYTES_MAX: Final = 16 << 20
STEPS: Final = ("begun", "ran", "kept", "committed")


@dataclass(frozen=True, slots=True)
class Database:
    """One alias: its url (`sqlite:PATH`, `postgresql:...` or a secret's binding) and its mode."""

    url: str
    write: bool = False


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """The known databases, how much a statement may give back, and how many run at a time.

    `busy_ms` is how long a lock of others is waited for, `timeout_s` how long a statement may run.
    """

    databases: Mapping[str, Database]
    bytes_max: int = _BYTES_MAX
    slots: int = 8
    busy_ms: int = 5000
    timeout_s: float = 60.0


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> SqlExecutor:
    """The executor of `[executors.sql]`; BadDefinition when an alias is not well told."""
    known = {
        str(name): _database(str(name), told) for name, told in settings.get("dbs", {}).items()
    }
    limits = SqlSettings(
        known,
        bytes_max=int(settings.get("max_bytes", _BYTES_MAX)),
        slots=int(settings.get("slots", 8)),
        timeout_s=float(settings.get("timeout_s", 60.0)),
    )
    return SqlExecutor(limits, ports)


def _database(name: str, told: Any) -> Database:
    mode = told.get("mode", "read") if isinstance(told, Mapping) else None
    if mode not in ("read", "write") or not isinstance(told.get("url"), str):
        raise BadDefinition(
            "a database has a url and a mode, read or write",
            code="config.value",
            where={"path": f"executors.sql.dbs.{name}"},
        )
    return Database(told["url"], mode == "write")


def _no_step(_step: str) -> None:
    return None


class SqlExecutor:
    """Performs `sys/sql.query@1`; `at` is called at each step of a write, for crash tests."""

    name = "sql"
    effects = frozenset((QUERY,))
    repeat: Repeat = "same"

    def __init__(
        self, settings: SqlSettings, ports: ExecutorPorts, at: Callable[[str], None] = _no_step
    ) -> None:
        self.slots = settings.slots
        self._settings = settings
        self._ports = ports
        self._at = at
        self._threads = ThreadPoolExecutor(settings.slots, "tally-sql")
        self._running: dict[tuple[bytes, int], threading.Event] = {}

    async def perform(self, job: Job, report: Report) -> Outcome:  # noqa: ARG002 - the protocol
        """Run the statement on a thread; it stops soon after the deadline or a cancel."""
        stop = self._running.setdefault(job.mark, threading.Event())
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._perform, job, stop)
        finally:
            stop.set()
            self._running.pop(job.mark, None)

    async def cancel(self, job: Job) -> None:
        """Interrupt the statement; its transaction is rolled back."""
        stop = self._running.get(job.mark)
        if stop is not None:
            stop.set()

    async def close(self) -> None:
        """Interrupt what runs and wait for the threads."""
        for stop in self._running.values():
            stop.set()
        await asyncio.to_thread(self._threads.shutdown)

    def _perform(self, job: Job, stop: threading.Event) -> Outcome:
        until = time.monotonic() + self._settings.timeout_s

        def late() -> bool:
            if time.monotonic() >= until:
                return True
            return job.deadline_ns is not None and self._ports.now_ns() >= job.deadline_ns

        try:
            return self._judged(job, lambda: stop.is_set() or late())
        except SqlError as error:
            return _interrupted(stop) if error.code == "sql.interrupted" else _told(error, job)
        except apsw.InterruptError:
            return _interrupted(stop)
        except apsw.Error as error:
            return failed(error)

    def _judged(self, job: Job, stopped: Callable[[], bool]) -> Outcome:
        params = job.params
        statement = read_statement(params["sql"])
        if statement is None:
            raise SqlError("sql.statement", "the text is not plainly one statement")
        refused = self._refused(job, write=params.get("mode") == "write", verb=statement.verb)
        if refused is not None:
            return refused
        where = self._place(self._settings.databases[params["db"]])
        if isinstance(where, Failed):
            return where
        query = self._query(job)
        busy_ms = self._settings.busy_ms
        if isinstance(where, str):
            bounds = sql_postgres.Bounds(stopped, busy_ms, self._settings.timeout_s)
            work = sql_postgres.Work(_kept, self._at)
            kept = sql_postgres.perform(where, query, job.dispatch_key, bounds, work)
            return _receipt(kept, job)
        with opened(where, write=query.write, stopped=stopped, busy_ms=busy_ms) as connection:
            if not query.write:
                return _receipt(_kept(ask(connection, query)), job)
            return _receipt(act(connection, query, job.dispatch_key, _kept, self._at), job)

    def _refused(self, job: Job, *, write: bool, verb: str) -> Failed | None:
        database = self._settings.databases.get(job.params["db"])
        if database is None:
            message = "no such database is configured: name it in [executors.sql] dbs of tally.toml"
            return Failed("not_found", "sql.db_unknown", message)
        question = {"cap_params": job.grant or {}, "params": job.params, "effect": job.effect}
        answer = builtin("sql", question)
        if not answer.ok:
            return Failed("scope", "sql.not_granted", answer.message or "not granted")
        if verb == "write" and not write:
            return Failed("scope", "sql.read_only", "a statement that writes needs mode write")
        if write and not database.write:
            return Failed("scope", "sql.read_only", "the database is configured for reading")
        return None

    def _query(self, job: Job) -> Query:
        tables = (job.grant or {}).get("tables")
        asked = job.params.get("max_rows")
        return Query(
            sql=job.params["sql"],
            args=job.params["args"],
            write=job.params.get("mode") == "write",
            tables=None if tables is None else frozenset(name.lower() for name in tables),
            rows_max=_ROWS_MAX if asked is None else asked,
            bytes_max=self._settings.bytes_max,
        )

    def _place(self, database: Database) -> Path | str | Failed:
        """The file of a database, relative to where the data folder stands, or its address."""
        url = database.url
        if url.partition(":")[0] in ("env", "file", "store"):
            if self._ports.secrets is None:
                return Failed(
                    "auth", "sql.url_missing", "the node has no secrets to resolve the url"
                )
            try:
                url = self._ports.secrets.value(url)
            except TallyError as error:
                return Failed("auth", error.code, "the url of the database is not bound")
        scheme, _, rest = url.partition(":")
        if scheme in ("postgres", "postgresql"):
            return f"postgresql:{rest}"
        if scheme != "sqlite" or not rest.lstrip("/"):
            message = "a url is sqlite:PATH or postgresql://USER@HOST/NAME"
            return Failed("client_error", "sql.engine", message)
        # sqlite:///a/b is the absolute /a/b, sqlite://a/b and sqlite:a/b are relative.
        path = rest.removeprefix("//")
        return self._ports.folder.absolute().parent / path


def _interrupted(stop: threading.Event) -> Failed:
    if stop.is_set():
        return Failed("cancelled", "sql.cancelled", "the statement was cancelled")
    return Failed("timeout", "sql.timeout", "the statement ran past its deadline")


def _told(error: SqlError, job: Job) -> Failed:
    ref = job.blobs.put(canon.encode(error.details)) if error.details else None
    return Failed(error.kind, error.code, error.message, error.retryable, details_ref=ref)


def _kept(answer: Answer) -> bytes:
    """An answer as it is remembered: rows inline, since blobs of a lost attempt are lost too.

    Made before a write is committed, so one that no document can hold leaves nothing behind.
    """
    told = {
        "columns": list(answer.columns),
        "rows": answer.rows,
        "row_count": answer.row_count,
        "truncated": answer.truncated,
    }
    try:
        return canon.encode(told)
    except SchemaMismatch as why:
        raise SqlError("sql.too_large", f"the rows cannot be kept: {why.message}", "limit") from why


def _receipt(kept: bytes, job: Job) -> Ok:
    value = canon.decode(kept)
    rows = canon.encode(value["rows"])
    inline = len(rows) <= INLINE_BYTES_MAX
    value["rows"] = value["rows"] if inline else None
    value["rows_ref"] = None if inline else job.blobs.put(rows)
    return Ok(value)
