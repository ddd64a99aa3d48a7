"""The sql executor: bound values, what was granted and no more, and each write once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from tallystick.errors import BadDefinition, UnknownName
from tallystick.executors.base import ExecutorPorts, Failed
from tallystick.executors.sql import QUERY, STEPS, Database, SqlExecutor, SqlSettings, make
from tallystick.values import canon
from tests.executors.attempts import KeptBlobs, done, failed, job_of, no_report
from tests.executors.killing import Killing

FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one database of two tables."""
    with closing(sqlite3.connect(tmp_path / "app.db")) as db, db:
        db.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        db.execute("CREATE TABLE hidden (word TEXT)")
        db.execute("INSERT INTO hidden VALUES ('canary')")
        db.execute("CREATE VIEW peek AS SELECT word FROM hidden")
        db.executemany("INSERT INTO item (name) VALUES (?)", [("a",), ("b",), ("c",)])
    return tmp_path


def ports(folder: Path, now_ns: int = 0) -> ExecutorPorts:
    return ExecutorPorts(folder / ".tally", None, lambda: now_ns)


def sql(folder: Path, mode: str = "write", **other: Any) -> SqlExecutor:
    return make({"dbs": {"app": {"url": "sqlite:app.db", "mode": mode}}} | other, ports(folder))


def asked(text: str, args: Any = None, **other: Any) -> dict[str, Any]:
    return {"db": "app", "sql": text, "args": args if args is not None else []} | other


def written(text: str, args: Any = None, **other: Any) -> dict[str, Any]:
    return asked(text, args, mode="write", **other)


def items(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "app.db")) as db:
        return [name for (name,) in db.execute("SELECT name FROM item ORDER BY id")]


def test_a_question_gives_columns_and_rows(folder: Path) -> None:
    """04 section 6: rows as JSON, with bound values by place or by name."""
    told = done(sql(folder), job_of(QUERY, asked("SELECT id, name FROM item WHERE id > ?", [1])))
    assert told == {
        "columns": ["id", "name"],
        "rows": [[2, "b"], [3, "c"]],
        "rows_ref": None,
        "row_count": 2,
        "truncated": False,
    }
    named = asked("SELECT name FROM item WHERE name = :who", {"who": "a"})
    assert done(sql(folder), job_of(QUERY, named))["rows"] == [["a"]]
    empty = done(sql(folder), job_of(QUERY, asked("SELECT name FROM item WHERE id < 0")))
    assert (empty["columns"], empty["rows"], empty["row_count"]) == (["name"], [], 0)


def test_every_type_comes_back_as_json(folder: Path) -> None:
    """04 section 6: null, numbers, text; bytes are tagged, in both directions."""
    tagged = {"bytes_b64": "AP8="}
    values = [None, 7, 1.5, "é", tagged, True]
    text = "SELECT ?, ?, ?, ?, ?, ?, 9e999, 2.0"
    told = done(sql(folder), job_of(QUERY, asked(text, values)))
    assert told["rows"] == [[None, 7, 1.5, "é", tagged, 1, "Infinity", 2]]
    for bad in ([[1]], [{"a": 1}], [{"bytes_b64": "?"}], "text", 7):
        assert failed(sql(folder), job_of(QUERY, asked("SELECT ?", bad))).code == "sql.args"
    for missing in ([], {}, [1, 2]):
        told = failed(sql(folder), job_of(QUERY, asked("SELECT ?", missing)))
        assert told.code == "sql.invalid"


def test_values_are_never_text_of_the_statement(folder: Path) -> None:
    """04 section 6: a bound value stays a value, whatever it looks like."""
    value = "'; DROP TABLE item; --"
    done(sql(folder), job_of(QUERY, written("INSERT INTO item (name) VALUES (?)", [value])))
    assert items(folder)[-1] == value
    for text in ("SELECT 1; DROP TABLE item", "SELECT 1 -- x", "", "SELECT /* x */ 1"):
        assert failed(sql(folder), job_of(QUERY, written(text))).code == "sql.statement"


def test_large_answers_are_cut_or_referred_to(folder: Path) -> None:
    """04 section 6: `max_rows` cuts and says so; over 64 KiB the rows are a blob."""
    told = done(sql(folder), job_of(QUERY, asked("SELECT name FROM item", max_rows=2)))
    assert (told["rows"], told["row_count"], told["truncated"]) == ([["a"], ["b"]], 2, True)
    blobs = KeptBlobs()
    many = FOREVER.replace("max(i)", "i, 'xxxxxxxxxx'")
    told = done(sql(folder), job_of(QUERY, asked(many, max_rows=9000), blobs=blobs))
    assert (told["rows"], told["row_count"], told["truncated"]) == (None, 9000, True)
    assert len(canon.decode(blobs.bodies[told["rows_ref"]])) == 9000
    assert len(done(sql(folder), job_of(QUERY, asked(many)))["rows"]) == 1000
    assert failed(sql(folder, max_bytes=99), job_of(QUERY, asked(many))).kind == "limit"


@pytest.mark.clause("X-24")
def test_a_write_needs_three_yeses(folder: Path) -> None:
    """06 section 2: the settings, the grant and the request; one no is enough."""
    text = "INSERT INTO item (name) VALUES ('d')"
    reads = {"verbs": ["read"]}
    for executor, job in (
        (sql(folder), job_of(QUERY, asked(text))),
        (sql(folder, mode="read"), job_of(QUERY, written(text))),
        (sql(folder), job_of(QUERY, written(text), grant=reads)),
        (sql(folder), job_of(QUERY, written(text), grant={"databases": ["other"]})),
    ):
        assert failed(executor, job).kind == "scope"
    assert items(folder) == ["a", "b", "c"]
    told = done(sql(folder), job_of(QUERY, written(text), grant={"verbs": ["read", "write"]}))
    assert (told["columns"], told["rows"], told["row_count"]) == ([], [], 1)
    assert items(folder) == ["a", "b", "c", "d"]


@pytest.mark.clause("X-24")
def test_only_granted_tables_are_reached(folder: Path) -> None:
    """06 section 2: SQLite itself is asked, so a view is no way round the list of tables."""
    only = {"tables": ["item"]}
    assert done(sql(folder), job_of(QUERY, asked("SELECT id FROM item"), grant=only))["row_count"]
    for text in ("SELECT word FROM hidden", "SELECT word FROM peek"):
        assert failed(sql(folder), job_of(QUERY, asked(text), grant=only)).kind == "scope"
    view = {"tables": ["peek"]}
    assert done(sql(folder), job_of(QUERY, asked("SELECT word FROM peek"), grant=view))["rows"]
    # The text says only `item`; what the trigger touches is known to SQLite alone.
    with closing(sqlite3.connect(folder / "app.db")) as db, db:
        db.execute("CREATE TRIGGER t AFTER INSERT ON item BEGIN DELETE FROM hidden; END")
    job = job_of(QUERY, written("INSERT INTO item (name) VALUES ('d')"), grant=only)
    assert failed(sql(folder), job).code == "sql.refused"
    assert items(folder) == ["a", "b", "c"]


REFUSED = (
    "ATTACH 'other.db' AS o",
    "PRAGMA writable_schema = 1",
    "COMMIT",
    "SAVEPOINT a",
    "VACUUM",
    "VACUUM INTO 'other.db'",
    "DELETE FROM tally_effect",
    "DROP TABLE tally_effect",
    "ALTER TABLE tally_effect RENAME TO x",
    "CREATE TRIGGER t AFTER INSERT ON tally_effect BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE v USING fts5(a)",
    "SELECT load_extension('x')",
)


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("text", REFUSED)
def test_no_statement_leaves_its_transaction(folder: Path, text: str) -> None:
    """04 section 6: no other file, no pragma, no commit, no hand on the memory of writes."""
    done(sql(folder), job_of(QUERY, written("DELETE FROM item WHERE id = 3")))
    told = failed(sql(folder), job_of(QUERY, written(text), dispatch_key=b"2" * 32))
    assert told.kind in ("scope", "client_error")
    assert items(folder) == ["a", "b"]
    assert [p.name for p in folder.iterdir()] == ["app.db"]


def test_a_failed_write_leaves_nothing(folder: Path) -> None:
    """04 section 6: the statement and its memory are one transaction."""
    job = job_of(QUERY, written("INSERT INTO item (name) VALUES ('x'), ('a')"))
    assert failed(sql(folder), job).code == "sql.constraint"
    assert items(folder) == ["a", "b", "c"]
    told = done(sql(folder), job_of(QUERY, written("INSERT INTO item (name) VALUES ('x')")))
    assert told["row_count"] == 1


@pytest.mark.clause("F-08")
def test_a_repeat_answers_what_the_first_answered(folder: Path) -> None:
    """04 section 6: same key, same answer, no second row; also with rows that became a blob."""
    text = "INSERT INTO item (name) VALUES (?) RETURNING id, name"
    value = "x" * 70_000
    first = done(sql(folder), job_of(QUERY, written(text, [value])))
    blobs = KeptBlobs()
    again = done(sql(folder), job_of(QUERY, written(text, [value]), attempt=2, blobs=blobs))
    assert again == first
    assert canon.decode(blobs.bodies[again["rows_ref"]]) == [[4, value]]
    assert items(folder) == ["a", "b", "c", value]


@pytest.fixture(scope="module")
def program() -> Iterator[Killing]:
    """The program of `kill_sql.py`."""
    started = Killing("tests.executors.kill_sql")
    yield started
    started.close()


def after_a_kill(folder: Path, program: Killing, step: str, mode: str) -> list[str]:
    """Kill a write at a step, repeat it, and say what is in the table."""
    text = "INSERT INTO item (name) VALUES (hex(randomblob(4)))"
    program(str(folder), text, step, mode)
    assert len(items(folder)) == (4 if step == "committed" else 3)
    done(sql(folder), job_of(QUERY, written(text), attempt=2))
    return items(folder)


@pytest.mark.clause("F-08")
@pytest.mark.invariant("I3")
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_each_step_a_write_happens_once(
    folder: Path, program: Killing, step: str
) -> None:
    """ND-15: killed before or behind the commit, the repeat leaves exactly one row more."""
    assert len(after_a_kill(folder, program, step, "sound")) == 4


def test_without_the_key_a_write_happens_twice(folder: Path, program: Killing) -> None:
    """ND-15 control: an attempt that forgets its key acts again after a kill behind the commit."""
    assert len(after_a_kill(folder, program, "committed", "forgetful")) == 5


def test_a_statement_stops_at_its_deadline_and_when_cancelled(folder: Path) -> None:
    """04 section 5: deadlines are the node's; a cancel interrupts, and nothing stays locked."""
    late = make({"dbs": {"app": {"url": "sqlite:app.db"}}}, ports(folder, now_ns=10))
    assert failed(late, job_of(QUERY, asked(FOREVER), deadline_ns=10)).kind == "timeout"
    assert failed(sql(folder, timeout_s=0.1), job_of(QUERY, asked(FOREVER))).kind == "timeout"

    async def cancelled() -> Any:
        executor, job = sql(folder), job_of(QUERY, asked(FOREVER))
        running = asyncio.create_task(executor.perform(job, no_report))
        await asyncio.sleep(0.05)  # it runs for ever, so any moment will do
        await executor.cancel(job)
        outcome = await running
        await executor.close()
        return outcome

    outcome = asyncio.run(cancelled())
    assert isinstance(outcome, Failed)
    assert outcome.kind == "cancelled"
    done(sql(folder), job_of(QUERY, written("DELETE FROM item")))


def test_a_locked_database_may_be_tried_again(folder: Path) -> None:
    """04 section 5: busy is retryable; nothing was done."""
    settings = SqlSettings({"app": Database("sqlite:app.db", write=True)}, busy_ms=20)
    # Locks of the standard library are not seen in this process: it has a SQLite of its own.
    db = apsw.Connection(str(folder / "app.db"))
    db.execute("BEGIN EXCLUSIVE")
    told = failed(SqlExecutor(settings, ports(folder)), job_of(QUERY, written("DELETE FROM item")))
    db.close()
    assert (told.code, told.retryable) == ("sql.busy", True)
    assert items(folder) == ["a", "b", "c"]


class OneSecret:
    """Secrets that know one binding."""

    def value(self, binding: str) -> str:
        if binding != "env:APP_DB":
            raise UnknownName("no such binding", code="secret.unbound")
        return "sqlite:app.db"


def test_the_url_may_be_a_secret(folder: Path) -> None:
    """04 section 8: `url = "env:APP_DB"`; an unbound or foreign one is an outcome, not a crash."""
    job = job_of(QUERY, asked("SELECT 1"))

    def told(url: str, secrets: Any = None) -> SqlExecutor:
        return make(
            {"dbs": {"app": {"url": url}}}, ExecutorPorts(folder / ".tally", secrets, lambda: 0)
        )

    assert done(told("env:APP_DB", OneSecret()), job)["rows"] == [[1]]
    assert done(told(f"sqlite://{folder}/app.db"), job)["rows"] == [[1]]
    assert failed(told("env:OTHER", OneSecret()), job).code == "secret.unbound"
    assert failed(told("env:APP_DB"), job).code == "sql.url_missing"
    assert failed(told("mysql://x"), job).code == "sql.engine"
    assert failed(told("sqlite:absent.db"), job).code == "sql.cannot_open"
    other = job_of(QUERY, asked("SELECT 1") | {"db": "other"})
    assert failed(told("sqlite:app.db"), other).code == "sql.db_unknown"
    for wrong in ({"url": "sqlite:a", "mode": "all"}, {"mode": "read"}, "sqlite:a"):
        with pytest.raises(BadDefinition) as caught:
            make({"dbs": {"app": wrong}}, ports(folder))
        assert caught.value.code == "config.value"
