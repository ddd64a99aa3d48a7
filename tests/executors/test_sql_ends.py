"""How statements end: cut answers of writes, undone transactions, bad bytes, a node that stops."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from tallystick.executors import sql_sqlite
from tallystick.executors.base import Failed
from tallystick.executors.sql import QUERY
from tallystick.executors.sql_values import Query, numbered
from tests.executors.attempts import done, failed, job_of, no_report
from tests.executors.test_sql import FOREVER, asked, folder, items, sql, written

__all__ = ["folder"]  # a fixture of these tests


def test_a_write_is_run_to_its_end_though_its_answer_is_cut(folder: Path) -> None:
    """04 section 6: `max_rows` bounds what is told, never what is done."""
    text = "UPDATE item SET name = name || '!' RETURNING name"
    told = done(sql(folder), job_of(QUERY, written(text, max_rows=1)))
    assert (told["rows"], told["truncated"]) == ([["a!"]], True)
    assert items(folder) == ["a!", "b!", "c!"]


def test_a_statement_that_undoes_its_transaction_leaves_nothing(folder: Path) -> None:
    """ND-15: OR ROLLBACK ends the transaction itself; the failure is that of the constraint."""
    text = "INSERT OR ROLLBACK INTO item (name) VALUES ('d'), ('a')"
    assert failed(sql(folder), job_of(QUERY, written(text))).code == "sql.constraint"
    assert items(folder) == ["a", "b", "c"]
    again = done(sql(folder), job_of(QUERY, written("INSERT INTO item (name) VALUES ('d')")))
    assert again["row_count"] == 1, "the failed attempt has kept no answer under its key"


@pytest.mark.clause("X-24")
def test_a_grant_of_tables_lets_a_statement_count(folder: Path) -> None:
    """06 section 2: a recursion over no table needs none; over a hidden one it is refused."""
    only = {"tables": ["item", "n"]}
    text = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) "
        "SELECT count(*) FROM n JOIN %s"
    )
    told = done(sql(folder), job_of(QUERY, asked(text % "item"), grant=only))
    assert told["rows"] == [[9]]
    hidden = failed(sql(folder), job_of(QUERY, asked(text % "hidden"), grant=only))
    assert hidden.code == "sql.not_granted"


ODD = {
    "no text": ("SELECT CAST(x'ff' AS TEXT)", "sql.text"),
    "too large": ("SELECT zeroblob(2000000000)", "sql.limit"),
    "no statement": ("SELECT FROM FROM", "sql.invalid"),
    # Within `max_bytes`, but in base64 more than a document holds; it ended as a crash.
    "no document": ("SELECT zeroblob(13000000)", "sql.too_large"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_answered_has_a_code(folder: Path, name: str) -> None:
    """04 section 6: bytes that are no text, values over every bound and nonsense are outcomes."""
    text, code = ODD[name]
    assert failed(sql(folder), job_of(QUERY, asked(text))).code == code


def test_a_write_whose_answer_no_document_can_hold_is_not_done(folder: Path) -> None:
    """04 section 6: it ended as a crash; it is refused, and its transaction leaves nothing."""
    text = "INSERT INTO item (name) VALUES ('d') RETURNING zeroblob(13000000)"
    found = failed(sql(folder), job_of(QUERY, written(text)))
    assert (found.kind, found.code) == ("limit", "sql.too_large")
    assert items(folder) == ["a", "b", "c"]


def test_a_file_that_is_no_database_is_told(folder: Path) -> None:
    """04 section 6: damage is the server's fault, and named without the place of the file."""
    with closing(sqlite3.connect(folder / "app.db")) as db:
        db.execute("PRAGMA user_version = 1")
    (folder / "app.db").write_bytes(b"this is no database at all, but long enough to look\n" * 40)
    found = failed(sql(folder), job_of(QUERY, asked("SELECT 1 FROM item")))
    assert (found.kind, found.code) == ("server_error", "sql.failed")
    assert str(folder) not in found.message


def test_a_disk_that_fails_leaves_the_outcome_open() -> None:
    """04 section 5: after an I/O error nobody knows what was written; it may be asked again."""
    found = sql_sqlite.failed(apsw.IOError("disk I/O error"))
    assert (found.kind, found.code, found.retryable) == ("outcome_unknown", "sql.io", True)


def test_a_node_that_stops_interrupts_what_runs(folder: Path) -> None:
    """04 section 5: closing ends a statement without end; a cancel of what is over is nothing."""

    async def stopped() -> Any:
        executor, job = sql(folder), job_of(QUERY, asked(FOREVER))
        await executor.cancel(job)
        running = asyncio.create_task(executor.perform(job, no_report))
        await asyncio.sleep(0.05)  # it runs for ever, so any moment will do
        assert not running.done()
        await executor.close()
        return await running

    outcome = asyncio.run(asyncio.wait_for(stopped(), 60))
    assert isinstance(outcome, Failed)
    assert outcome.kind == "cancelled"
    assert items(folder) == ["a", "b", "c"]


PLACES = {
    "SELECT ?, ':a', \"?\", b::text": ("SELECT $1, ':a', \"?\", b::text", [1]),
    "SELECT ? WHERE t > '12:30": ("SELECT $1 WHERE t > '12:30", [1]),
    "SELECT ?, a[1:2], x: y": ("SELECT $1, a[1:2], x: y", [1]),
}


@pytest.mark.parametrize("text", PLACES)
def test_only_places_become_numbers(text: str) -> None:
    """04 section 6: quotes, casts, slices and lone colons stay; an open quote is the engine's."""
    wanted, args = PLACES[text]
    assert numbered(Query(text, args, False, None, 10, 1000)) == (wanted, (1,))


UNBOUND = {
    "a name without a value": ("SELECT :a, :b", {"a": 1}, "sql.invalid"),
    "a number that the engine has not": ("SELECT ?", [2**63], "sql.args"),
}


@pytest.mark.parametrize("name", UNBOUND)
def test_a_value_that_cannot_be_bound_is_told(folder: Path, name: str) -> None:
    """04 section 6: what the statement lacks, or SQLite cannot hold, is an error of the asker."""
    text, args, code = UNBOUND[name]
    found = failed(sql(folder), job_of(QUERY, asked(text, args)))
    assert (found.kind, found.code) == ("client_error", code)
