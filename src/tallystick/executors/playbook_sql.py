"""The tools `sql` and `postgres` of a playbook, by the sql executor.

A text of several statements is several effects, each with a key of its own: a task that is played
again repeats none that was done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tallystick.authority.sqltext import read_statement, statements
from tallystick.executors.base import Blobs, Executor, Failed, Job, Report
from tallystick.executors.playbook_tools import Outcome, failed, inner_job
from tallystick.playbooks.tasks import Perform, failure
from tallystick.values import canon

_DRIVERS: Final = (None, "sqlite", "postgres")
_KINDS: Final = {
    "sql.constraint": "db_constraint",
    "sql.cannot_open": "db_connection",
    "sql.lost": "db_connection",
    "sql.busy": "db_timeout",
    "sql.timeout": "db_timeout",
    "sql.deadlock": "db_deadlock",
    "sql.serialization": "db_deadlock",
}


class Scratch:
    """What an executor keeps for the moment: documents that are read back here, and scrubbed then.

    The blobs of a job are scrubbed as bytes, and a document with lengths does not survive that.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._held: dict[str, bytes] = {}

    def get(self, hash_text: str) -> bytes | None:
        """What was put here, or a blob of the world."""
        mine = self._held.get(hash_text)
        return self._blobs.get(hash_text) if mine is None else mine

    def put(self, body: bytes) -> str:
        """Keep bytes as long as the task runs."""
        name = canon.hash_of(body)
        self._held[name] = body
        return name


async def perform(inner: Executor, job: Job, act: Perform, report: Report) -> Outcome:
    """Run the statements of a task in their order; the result is that of the last.

    The first that fails ends the task; `postgres` also has each result as `command_<i>`.
    """
    texts = statements(str(act.inputs["command"]))
    refused = _refused(act, texts)
    if refused is not None:
        return refused
    results: list[dict[str, Any]] = []
    for part, text in enumerate(texts or ()):
        given = inner_job(job, act, "sys/sql.query@1", _params(act, text), part)
        given = replace(given, blobs=Scratch(job.blobs))
        found = await inner.perform(given, report)
        if isinstance(found, Failed):
            return _failed(given, found)
        results.append(_rows(given, found.value))
    result = dict(results[-1])
    if act.kind == "postgres":
        result |= {f"command_{part}": told for part, told in enumerate(results)}
    return {"status": "ok", "result": result}


def _refused(act: Perform, texts: list[str] | None) -> Outcome | None:
    if act.inputs.get("driver") not in _DRIVERS:
        return _error("task.unserved", f"there is no driver {act.inputs['driver']!r}")
    if not isinstance(act.inputs.get("auth", ""), str):
        message = "auth is the name of a configured database: what opens it stands in the settings"
        return _error("sql.auth", message)
    if not texts:
        return _error("sql.statement", "the command holds no statement, or an open quote")
    if len(texts) > 1 and act.inputs.get("params"):
        return _error("sql.args", "values are bound to one statement at a time")
    return None


def _params(act: Perform, text: str) -> dict[str, Any]:
    """`sys/sql.query@1` of one statement on a configured database."""
    statement = read_statement(text)
    reads = statement is not None and statement.verb == "read"
    return {
        "db": str(act.inputs.get("database") or act.inputs.get("auth") or ""),
        "sql": text,
        "args": act.inputs.get("params"),
        "mode": "read" if reads else "write",
        "max_rows": None,
    }


def _rows(job: Job, value: Mapping[str, Any]) -> dict[str, Any]:
    """Rows as maps."""
    rows = value.get("rows")
    if rows is None and value.get("rows_ref") is not None:
        rows = canon.decode(job.blobs.get(value["rows_ref"]) or canon.encode([]))
    columns = list(value["columns"])
    made = [dict(zip(columns, row, strict=True)) for row in rows or ()]
    return {"rows": made, "row_count": value["row_count"], "columns": columns}


def _failed(job: Job, found: Failed) -> Outcome:
    outcome = failed(found)
    outcome["error"]["kind"] = _KINDS.get(found.code, outcome["error"]["kind"])
    details = None if found.details_ref is None else job.blobs.get(found.details_ref)
    if details is not None:
        outcome["error"]["details"] = told = canon.decode(details)
        outcome["pg"] = {"code": told["sqlstate"], "sqlstate": told["sqlstate"]}
    return outcome


def _error(code: str, message: str) -> Outcome:
    return {"status": "error", "error": failure("client_error", code, message)}
