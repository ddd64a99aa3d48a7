"""The sql executor on a real PostgreSQL: the promises that it keeps on SQLite, and its own."""

# tidy: one promise after the other, on one server.
from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import ExecutorPorts, Failed
from tallystick.executors.sql import QUERY, STEPS, Database, SqlExecutor, SqlSettings, make
from tallystick.values import canon
from tests.executors.attempts import KeptBlobs, done, failed, job_of, no_report
from tests.executors.killing import Killing
from tests.postgres import postgres

FRESH = """
DROP SCHEMA public CASCADE; CREATE SCHEMA public;
CREATE TABLE item (id serial PRIMARY KEY, name text UNIQUE);
CREATE TABLE hidden (word text);
INSERT INTO hidden VALUES ('canary');
CREATE VIEW peek AS SELECT word FROM hidden;
INSERT INTO item (name) VALUES ('a'), ('b'), ('c');
"""
FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server for this file."""
    with postgres() as url:
        yield url


@pytest.fixture
def url(server: str) -> str:
    """The database with two tables and a view."""
    plainly(server, FRESH)
    return server


@asynccontextmanager
async def beside(url: str) -> AsyncIterator[Any]:
    """A connection past the executor."""
    connection = await import_module("asyncpg").connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def plainly(url: str, sql: str) -> list[tuple[Any, ...]]:
    """A question, or several statements, past the executor."""

    async def ask() -> list[tuple[Any, ...]]:
        async with beside(url) as connection:
            if sql.startswith("SELECT"):
                return [tuple(row) for row in await connection.fetch(sql)]
            await connection.execute(sql)
            return []

    return asyncio.run(ask())


def items(url: str) -> list[str]:
    return [name for (name,) in plainly(url, "SELECT name FROM item ORDER BY id")]


def sql(url: str, mode: str = "write", now_ns: int = 0, **other: Any) -> SqlExecutor:
    ports = ExecutorPorts(Path("/nowhere/.tally"), None, lambda: now_ns)
    return make({"dbs": {"app": {"url": url, "mode": mode}}} | other, ports)


def asked(text: str, args: Any = None, **other: Any) -> dict[str, Any]:
    return {"db": "app", "sql": text, "args": args if args is not None else []} | other


def written(text: str, args: Any = None, **other: Any) -> dict[str, Any]:
    return asked(text, args, mode="write", **other)


def test_a_question_gives_columns_and_rows(url: str) -> None:
    """04 section 6: rows as JSON, with bound values by place or by name, beside casts and texts."""
    told = done(sql(url), job_of(QUERY, asked("SELECT id, name FROM item WHERE id > ?", [1])))
    assert told == {
        "columns": ["id", "name"],
        "rows": [[2, "b"], [3, "c"]],
        "rows_ref": None,
        "row_count": 2,
        "truncated": False,
    }
    text = "SELECT name, ':who ?', 5 % 3, :n::text FROM item WHERE name = :who"
    named = asked(text, {"who": "a", "n": 7})
    assert done(sql(url), job_of(QUERY, named))["rows"] == [["a", ":who ?", 2, "7"]]
    empty = done(sql(url), job_of(QUERY, asked("SELECT name FROM item WHERE id < 0")))
    assert (empty["columns"], empty["rows"], empty["row_count"]) == (["name"], [], 0)
    plan = done(sql(url), job_of(QUERY, asked("EXPLAIN SELECT name FROM item")))
    assert plan["columns"] == ["QUERY PLAN"]


TYPES = (
    ("NULL::int", None),
    ("true", True),
    ("7::smallint", 7),
    ("9223372036854775807", 2**63 - 1),
    ("1.5::float8", 1.5),
    ("2.0::float8", 2),
    ("'NaN'::float8", "NaN"),
    ("'-Infinity'::float8", "-Infinity"),
    ("15.80::numeric", 15.8),
    ("100::numeric", 100),
    ("0.1234567890123456789::numeric", "0.1234567890123456789"),
    ("99999999999999999999::numeric", "99999999999999999999"),
    ("'NaN'::numeric", "NaN"),
    ("'é'::varchar", "é"),
    ("decode('00ff', 'hex')", {"bytes_b64": "AP8="}),
    ("date '2026-02-03'", "2026-02-03"),
    ("time '04:05:06.7'", "04:05:06.7"),
    ("timestamp '2026-02-03 04:05:06.000007'", "2026-02-03 04:05:06.000007"),
    ("timestamptz '2026-02-03 04:05:06+02'", "2026-02-03 02:05:06+00"),
    ("interval '1 day 2 hours'", "P1DT2H"),
    ("date 'infinity'", "infinity"),
    (
        "uuid '6F1F2C0A-0000-4000-8000-000000000001'",
        "6f1f2c0a-0000-4000-8000-000000000001",
    ),
    ("inet '10.0.0.1/8'", "10.0.0.1/8"),
    ("ARRAY[1, NULL, 3]", [1, None, 3]),
    ("ARRAY[date '2026-02-03']", ["2026-02-03"]),
    ('\'{"a": [1, 2.5, null, "x"]}\'::jsonb', {"a": [1, 2.5, None, "x"]}),
    ("int4range(1, 5)", "[1,5)"),
    ("ROW(1, 'x')", "(1,x)"),
)


def test_every_type_comes_back_as_json(url: str) -> None:
    """PB-26: numbers, null, bytes; dates and all that JSON has not as the same text everywhere."""
    text = "SELECT " + ", ".join(expression for expression, _ in TYPES)
    told = done(sql(url), job_of(QUERY, asked(text)))
    assert dict(zip([e for e, _ in TYPES], told["rows"][0], strict=True)) == dict(TYPES)
    tagged = {"bytes_b64": "AP8="}
    values = [None, 7, 1.5, "é", tagged, True]
    text = "SELECT ?::int, ?::int, ?::float8, ?::text, ?::bytea, ?::bool"
    assert done(sql(url), job_of(QUERY, asked(text, values)))["rows"] == [values]
    for bad in ([[1]], [{"a": 1}], [{"bytes_b64": "?"}], "text", 7):
        assert failed(sql(url), job_of(QUERY, asked("SELECT ?", bad))).code == "sql.args"
    for missing in ([], {}, [1, 2], {"a": 1}):
        assert failed(sql(url), job_of(QUERY, asked("SELECT ?", missing))).code == "sql.invalid"
    assert failed(sql(url), job_of(QUERY, asked("SELECT :a", {"b": 1}))).code == "sql.invalid"
    assert failed(sql(url), job_of(QUERY, asked("SELECT ?, ?", [1]))).code == "sql.invalid"


def test_values_are_never_text_of_the_statement(url: str) -> None:
    """04 section 6: a bound value stays a value, whatever it looks like."""
    value = "'; DROP TABLE item; --"
    done(sql(url), job_of(QUERY, written("INSERT INTO item (name) VALUES (?)", [value])))
    assert items(url)[-1] == value
    for text in ("SELECT 1; DROP TABLE item", "SELECT 1 -- x", "", "SELECT $$x$$"):
        assert failed(sql(url), job_of(QUERY, written(text))).code == "sql.statement"


def test_large_answers_are_cut_or_referred_to(url: str) -> None:
    """04 section 6: `max_rows` cuts and says so; over 64 KiB the rows are a blob."""
    told = done(sql(url), job_of(QUERY, asked("SELECT name FROM item", max_rows=2)))
    assert (told["rows"], told["row_count"], told["truncated"]) == ([["a"], ["b"]], 2, True)
    blobs = KeptBlobs()
    many = "SELECT generate_series(1, 100000000), 'xxxxxxxxxx'"
    told = done(sql(url), job_of(QUERY, asked(many, max_rows=9000), blobs=blobs))
    assert (told["rows"], told["row_count"], told["truncated"]) == (None, 9000, True)
    assert len(canon.decode(blobs.bodies[told["rows_ref"]])) == 9000
    assert failed(sql(url, max_bytes=99), job_of(QUERY, asked(many))).kind == "limit"


@pytest.mark.clause("X-24")
def test_a_write_needs_three_yeses(url: str) -> None:
    """06 section 2: the settings, the grant and the request; one no is enough."""
    text = "INSERT INTO item (name) VALUES ('d')"
    for executor, job in (
        (sql(url), job_of(QUERY, asked(text))),
        (sql(url, mode="read"), job_of(QUERY, written(text))),
        (sql(url), job_of(QUERY, written(text), grant={"verbs": ["read"]})),
        (sql(url), job_of(QUERY, written(text), grant={"databases": ["other"]})),
    ):
        assert failed(executor, job).kind == "scope"
    # The text reads, and what it calls writes: the server refuses, since the transaction reads.
    plainly(
        url,
        "CREATE FUNCTION sly() RETURNS int LANGUAGE sql AS 'DELETE FROM item RETURNING 1'",
    )
    assert failed(sql(url), job_of(QUERY, asked("SELECT sly()"))).code == "sql.refused"
    assert items(url) == ["a", "b", "c"]
    told = done(sql(url), job_of(QUERY, written(text), grant={"verbs": ["read", "write"]}))
    assert (told["columns"], told["rows"], told["row_count"]) == ([], [], 1)
    assert items(url) == ["a", "b", "c", "d"]


@pytest.mark.clause("X-24")
def test_only_granted_tables_are_reached(url: str) -> None:
    """06 section 2: the server's locks are asked, so neither view nor trigger is a way round."""
    only = {"tables": ["item"]}
    assert done(sql(url), job_of(QUERY, asked("SELECT id FROM item"), grant=only))["row_count"]
    plainly(
        url,
        "CREATE FUNCTION sly() RETURNS SETOF text LANGUAGE sql AS 'SELECT word FROM hidden'",
    )
    for text in ("SELECT word FROM hidden", "SELECT word FROM peek", "SELECT sly()"):
        told = failed(sql(url), job_of(QUERY, asked(text), grant=only))
        assert (told.kind, "canary" in told.message) == ("scope", False)
    view = {"tables": ["peek"]}
    assert done(sql(url), job_of(QUERY, asked("SELECT word FROM peek"), grant=view))["rows"]
    plainly(
        url,
        "CREATE FUNCTION sweep() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN DELETE FROM hidden; RETURN NEW; END';"
        "CREATE TRIGGER t AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION sweep()",
    )
    job = job_of(QUERY, written("INSERT INTO item (name) VALUES ('d')"), grant=only)
    assert failed(sql(url), job).code == "sql.refused"
    assert items(url) == ["a", "b", "c"]
    assert plainly(url, "SELECT word FROM hidden") == [("canary",)]


REFUSED = (
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT a",
    "SET TRANSACTION READ WRITE",
    "VACUUM",
    "DO 'BEGIN DELETE FROM item; END'",
    "COPY item TO PROGRAM 'true'",
    "PREPARE TRANSACTION 'x'",
    "DELETE FROM tally_effect",
    'DROP TABLE "TALLY_effect"',
    "SELECT pg_read_file('/etc/passwd')",
)


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("text", REFUSED)
def test_no_statement_leaves_its_transaction(url: str, text: str) -> None:
    """04 section 6: no other transaction, no program, no hand on the memory of writes."""
    done(sql(url), job_of(QUERY, written("DELETE FROM item WHERE id = 3")))
    mode = "read" if text.startswith("SELECT") else "write"
    told = failed(sql(url), job_of(QUERY, asked(text, mode=mode), dispatch_key=b"2" * 32))
    assert told.kind == "scope"
    assert items(url) == ["a", "b"]
    assert plainly(url, "SELECT count(*) FROM tally_effect") == [(1,)]


@pytest.mark.clause("F-08")
def test_a_repeat_answers_what_the_first_answered(url: str) -> None:
    """04 section 6: same key, same answer, no second row; a failed write left nothing behind."""
    job = job_of(QUERY, written("INSERT INTO item (name) VALUES ('x'), ('a')"))
    told = failed(sql(url), job)
    assert (told.code, told.kind) == ("sql.constraint", "client_error")
    assert items(url) == ["a", "b", "c"]
    text = "INSERT INTO item (name) VALUES (?) RETURNING name"
    value = "x" * 70_000
    first = done(sql(url), job_of(QUERY, written(text, [value])))
    blobs = KeptBlobs()
    again = done(sql(url), job_of(QUERY, written(text, [value]), attempt=2, blobs=blobs))
    assert again == first
    assert canon.decode(blobs.bodies[again["rows_ref"]]) == [[value]]
    assert items(url) == ["a", "b", "c", value]


def test_two_attempts_at_once_write_once(url: str) -> None:
    """04 section 6: the second waits for the first at the row of their key, and answers it."""
    begun, go_on = threading.Event(), threading.Event()

    def slowly(step: str) -> None:
        if step == "ran":
            begun.set()
            assert go_on.wait(60)

    ports = ExecutorPorts(Path("/nowhere/.tally"), None, lambda: 0)
    settings = SqlSettings({"app": Database(url, write=True)}, busy_ms=60_000)
    text = "INSERT INTO item (name) VALUES (?) RETURNING id"
    answers: list[Any] = []

    def attempt(executor: SqlExecutor) -> None:
        answers.append(done(executor, job_of(QUERY, written(text, ["d"])))["rows"])

    first = threading.Thread(target=attempt, args=(SqlExecutor(settings, ports, slowly),))
    first.start()
    assert begun.wait(60)
    second = threading.Thread(target=attempt, args=(SqlExecutor(settings, ports),))
    second.start()
    while not plainly(url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
        assert second.is_alive()
    go_on.set()
    first.join(60)
    second.join(60)
    assert len(answers) == 2
    assert answers[0] == answers[1]
    assert items(url) == ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def program() -> Iterator[Killing]:
    """The program of `kill_sql.py`."""
    started = Killing("tests.executors.kill_sql")
    yield started
    started.close()


def after_a_kill(url: str, program: Killing, step: str, mode: str) -> list[str]:
    """Kill a write at a step, repeat it, and say what is in the table."""
    text = "INSERT INTO item (name) VALUES (gen_random_uuid())"
    program(url, text, step, mode)
    done(sql(url), job_of(QUERY, written(text), attempt=2))
    return items(url)


@pytest.mark.clause("F-08")
@pytest.mark.invariant("I3")
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_each_step_a_write_happens_once(url: str, program: Killing, step: str) -> None:
    """ND-15: killed before or behind the commit, the repeat leaves exactly one row more."""
    assert len(after_a_kill(url, program, step, "sound")) == 4


def test_without_the_key_a_write_happens_twice(url: str, program: Killing) -> None:
    """ND-15 control: an attempt that forgets its key acts again after a kill behind the commit."""
    assert len(after_a_kill(url, program, "committed", "forgetful")) == 5


def test_a_statement_stops_at_its_deadline_and_when_cancelled(url: str) -> None:
    """04 section 5: deadlines are the node's; a cancel interrupts, and nothing stays locked."""
    late = sql(url, now_ns=10)
    assert failed(late, job_of(QUERY, asked(FOREVER), deadline_ns=10)).kind == "timeout"
    assert failed(sql(url, timeout_s=0.1), job_of(QUERY, asked(FOREVER))).kind == "timeout"

    async def cancelled() -> Any:
        executor, job = sql(url), job_of(QUERY, asked(FOREVER))
        running = asyncio.create_task(executor.perform(job, no_report))
        await asyncio.sleep(0.05)  # it runs for ever, so any moment will do
        await executor.cancel(job)
        outcome = await running
        await executor.close()
        return outcome

    outcome = asyncio.run(cancelled())
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.code) == ("cancelled", "sql.cancelled")
    done(sql(url), job_of(QUERY, written("DELETE FROM item")))


def test_what_the_server_refuses_has_a_code(url: str) -> None:
    """04 section 5: by SQLSTATE; what may be tried again says so, and details name the state."""
    blobs = KeptBlobs()
    told = failed(sql(url), job_of(QUERY, asked("SELECT nothing FROM item"), blobs=blobs))
    assert told.code == "sql.invalid"
    assert told.details_ref is not None
    assert canon.decode(blobs.bodies[told.details_ref]) == {"sqlstate": "42703"}
    text = "INSERT INTO item (name) VALUES ('a')"
    told = failed(sql(url), job_of(QUERY, written(text), blobs=blobs))
    assert told.details_ref is not None
    assert canon.decode(blobs.bodies[told.details_ref]) == {
        "sqlstate": "23505",
        "constraint": "item_name_key",
        "table": "item",
    }
    assert failed(sql(url), job_of(QUERY, asked("SELECT 1 / 0"))).code == "sql.invalid"
    away = sql("postgresql://tally:s3cr3t@/postgres?host=/nowhere")
    told = failed(away, job_of(QUERY, asked("SELECT 1")))
    assert (told.kind, told.code, told.retryable) == ("connection", "sql.cannot_open", True)
    assert "s3cr3t" not in str(told)
    assert "nowhere" not in told.message


def test_a_locked_table_may_be_tried_again(url: str) -> None:
    """04 section 5: busy is retryable; nothing was done."""
    ports = ExecutorPorts(Path("/nowhere/.tally"), None, lambda: 0)
    settings = SqlSettings({"app": Database(url, write=True)}, busy_ms=20)
    job = job_of(QUERY, written("DELETE FROM item"))

    async def tried() -> Failed:
        async with beside(url) as other, other.transaction():
            await other.execute("LOCK TABLE item")
            return await asyncio.to_thread(failed, SqlExecutor(settings, ports), job)

    told = asyncio.run(tried())
    assert (told.code, told.retryable) == ("sql.busy", True)
    assert items(url) == ["a", "b", "c"]


def test_a_lost_connection_says_what_is_known(url: str) -> None:
    """04 section 5: a read may be tried again; of a write nobody knows, and its key protects it."""
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    plainly(
        url,
        "CREATE FUNCTION sleepy() RETURNS int LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_sleep(600); RETURN 1; END'",
    )
    for mode, kind in (("read", "connection"), ("write", "outcome_unknown")):
        found: list[Failed] = []
        job = job_of(QUERY, asked("SELECT sleepy()", mode=mode))
        ask = threading.Thread(target=lambda job=job, to=found: to.append(failed(sql(url), job)))
        ask.start()
        while ask.is_alive():
            plainly(url, end)
            ask.join(0.02)
        (told,) = found
        assert (told.kind, told.code, told.retryable) == (kind, "sql.lost", True)
