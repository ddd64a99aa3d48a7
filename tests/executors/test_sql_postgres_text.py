"""Values to and from a real PostgreSQL: whatever the type, the server's own text decides."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.executors.base import ExecutorPorts, Ok
from tallystick.executors.sql import QUERY, Database, SqlExecutor, SqlSettings
from tallystick.executors.sql_postgres_text import COMMON, types_of
from tests.executors.attempts import done, failed, job_of, no_report
from tests.executors.test_sql_postgres import asked, beside, plainly, sql, written
from tests.postgres import postgres

MADE = """
CREATE TYPE mood AS ENUM ('glad', 'so so');
CREATE TYPE pair AS (n int, "two words" text);
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE TABLE "numeric" (a text);
INSERT INTO "numeric" VALUES ('no number');
CREATE TABLE kept (
  n int, s small, m mood, p pair, r int4range, a int[], t text[], d date, j jsonb, f numeric
);
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server for this file, with types of users."""
    with postgres() as url:
        plainly(url, MADE)
        yield url


def test_the_common_types_have_the_numbers_of_the_server(url: str) -> None:
    """PB-26: what is not asked of a server is what it would say."""
    names = ", ".join(f"'{name}'" for _, name, _, _ in COMMON)
    said = plainly(
        url,
        "SELECT oid::int8, typname, typarray::int8, typdelim FROM pg_type"
        f" WHERE typname IN ({names}) AND oid < 16384 ORDER BY oid",
    )
    assert [(*row[:3], row[3].decode()) for row in said] == list(COMMON)


class Seen:
    """A prepared statement whose places have these types."""

    def __init__(self, *oids: int) -> None:
        self._oids = oids

    def get_attributes(self) -> list[Any]:
        return [SimpleNamespace(type=SimpleNamespace(oid=oid)) for oid in self._oids]

    def get_parameters(self) -> list[Any]:
        return []


def test_the_server_is_asked_for_strange_types_alone() -> None:
    """PB-26: a statement of common types asks nothing about types, another about those it has."""
    common, others = types_of(Seen(16, 1700, 1016))
    assert ([row[1] for row in common], others) == (["bool", "int8", "numeric"], [])
    assert types_of(Seen(23, 16390, 3904))[1] == [3904, 16390]


def row(url: str, text: str, values: Any = None) -> list[Any]:
    """The one row that a question gives."""
    (found,) = done(sql(url), job_of(QUERY, asked(text, values)))["rows"]
    return list(found)


# Each as the server is given it, with its type, and as it comes back.
WRITTEN = (
    ("so so", "mood", "so so"),
    ('{"so so",NULL,glad}', "mood[]", ["so so", None, "glad"]),
    ('(1,"a ""b"", c")', "pair", '(1,"a ""b"", c")'),
    ('{"(1,\\"a, b\\")",NULL}', "pair[]", ['(1,"a, b")', None]),
    ("7", "small", 7),
    ('("no number")', 'public."numeric"', '("no number")'),
    ("[1,]", "int4range", "[1,)"),
    ('{"[1,5)",empty}', "int4range[]", ["[1,5)", "empty"]),
    ("[2026-02-03,)", "tstzrange", '["2026-02-03 00:00:00+00",)'),
    ("{[1,3),[5,9)}", "int4multirange", "{[1,3),[5,9)}"),
    ("{}", "int[]", []),
    ("{{1,2},{3,NULL}}", "int[]", [[1, 2], [3, None]]),
    ("[0:1]={1,2}", "int[]", [1, 2]),
    ("{t,f}", "bool[]", [True, False]),
    ("{1.5,NaN}", "numeric[]", [1.5, "NaN"]),
    (r'{"\\x00ff"}', "bytea[]", [{"bytes_b64": "AP8="}]),
    (r'{"{\"a\": \"b c\"}"}', "jsonb[]", [{"a": "b c"}]),
    ("{(3,4),(1,2);(1,1),(0,0)}", "box[]", ["(3,4),(1,2)", "(1,1),(0,0)"]),
    ("294276-12-31 23:59:59", "timestamp", "294276-12-31 23:59:59"),
    ("4713-01-01 BC", "date", "4713-01-01 BC"),
    ("1 2", "int2vector", "1 2"),
    ("(1,2)", "point", "(1,2)"),
    ("a", '"char"', "a"),
    ("b a", "tsvector", "'a' 'b'"),
    ("int4", "regtype", "integer"),
)


def test_types_beyond_json_come_as_the_server_writes_them(url: str) -> None:
    """PB-26: enums, records, ranges and dates of any year as text; arrays as lists, nested too."""
    text = "SELECT " + ", ".join(f"?::{name}" for _, name, _ in WRITTEN)
    found = row(url, text, [given for given, _, _ in WRITTEN])
    assert found == [told for _, _, told in WRITTEN]
    assert row(url, 'SELECT x, ROW(1, NULL) FROM "numeric" x') == ['("no number")', "(1,)"]
    assert row(url, "SELECT 1 AS a, 2 AS a") == [1, 2]


TRICKY = ("", " ", "NULL", "null", "a,b", "{", "}", '"', "\\", '\\"', "é\n\t", "a;b", "[0:1]={")


def test_any_text_comes_out_of_an_array_as_it_went_in(url: str) -> None:
    """PB-26: quotes, braces, signs and the word NULL are text inside an element."""
    marks = ", ".join("?" for _ in TRICKY)
    text = (
        f"WITH one AS (SELECT ARRAY[{marks}]::text[] AS a) SELECT array_append(a, NULL),"
        " (SELECT array_agg(b) FROM (SELECT a AS b FROM one UNION ALL SELECT a FROM one) q)"
        " FROM one"
    )
    assert row(url, text, [*TRICKY]) == [[*TRICKY, None], [[*TRICKY], [*TRICKY]]]


def test_a_text_fits_the_type_of_its_place(url: str) -> None:
    """04 section 6: the server reads a bound text; what does not fit is refused by its type."""
    values = [
        1,
        7,
        "so so",
        '(1,"a, b")',
        "[1,5)",
        "{1,NULL}",
        '{"a,b",c}',
        "2026-02-03",
        '{"k": 1}',
        0.1,
    ]
    text = f"INSERT INTO kept VALUES ({', '.join('?' for _ in values)}) RETURNING *"
    (found,) = done(sql(url), job_of(QUERY, written(text, values)))["rows"]
    assert found == [*values[:5], [1, None], ["a,b", "c"], "2026-02-03", {"k": 1}, 0.1]
    for place, value in (
        ("n", "x"),
        ("s", 11),
        ("m", "sad"),
        ("a", "{1"),
        ("d", "soon"),
        ("n", True),
    ):
        text = f"UPDATE kept SET {place} = ?"
        job = job_of(QUERY, written(text, [value]), dispatch_key=b"2" * 32)
        assert failed(sql(url), job).code in ("sql.invalid", "sql.constraint"), place
    assert failed(sql(url), job_of(QUERY, asked("SELECT ?", ["a\0"]))).code == "sql.invalid"


def test_a_number_is_what_it_would_be_in_the_statement(url: str) -> None:
    """04 section 6: its type is its own and not that of its neighbour, and no digit is lost."""
    values = [7, 2**40, 2**53 - 1, 1.5, 0.30000000000000004, True, None, "7"]
    marks = ", ".join("?" for _ in values)
    assert row(url, f"SELECT {marks}", values) == values
    assert row(url, "SELECT 2 > ?, 2 < ?, 10 / ?, -?", [1.5, 2**40, 4, 3]) == [True, True, 2, -3]
    assert row(url, "SELECT date '2026-02-03' + ?", [1]) == ["2026-02-04"]
    tagged = {"bytes_b64": "AP8="}
    assert row(url, "SELECT ?, length(?)", [tagged, tagged]) == [tagged, 2]


def test_a_write_that_gives_rows_runs_to_its_end(url: str) -> None:
    """04 section 6: `max_rows` cuts what is told, not what is done."""
    plainly(
        url,
        "CREATE TABLE put (n int); CREATE FUNCTION put(n int) RETURNS int LANGUAGE sql AS"
        " 'INSERT INTO put VALUES (n) RETURNING n'",
    )
    text = "SELECT put(n) FROM generate_series(1, 1200) n"
    job = job_of(QUERY, written(text, max_rows=2), dispatch_key=b"4" * 32)
    told = done(sql(url), job)
    assert (told["rows"], told["row_count"], told["truncated"]) == ([[1], [2]], 2, True)
    assert plainly(url, "SELECT count(*) FROM put") == [(1200,)]


SLOW_COMMIT = """
CREATE TABLE late (n int);
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION wait();
"""


@pytest.mark.clause("F-08")
def test_a_stop_does_not_leave_a_commit_halfway(url: str) -> None:
    """04 section 5: cancelled while it commits, a write says what became of it."""
    plainly(url, SLOW_COMMIT)
    steps: list[str] = []
    ports = ExecutorPorts(Path("/nowhere/.tally"), None, lambda: 0)
    settings = SqlSettings({"app": Database(url, write=True)}, busy_ms=60_000)
    executor = SqlExecutor(settings, ports, steps.append)
    job = job_of(QUERY, written("INSERT INTO late VALUES (1)"), dispatch_key=b"3" * 32)

    async def cancelled() -> Any:
        async with beside(url) as other:
            await other.execute("SELECT pg_advisory_lock(7)")
            running = asyncio.create_task(executor.perform(job, no_report))
            waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while not await other.fetch(waits):
                assert not running.done()
            await executor.cancel(job)
            await asyncio.sleep(0.1)  # whoever would stop the commit has seen it by now
            await other.execute("SELECT pg_advisory_unlock(7)")
            outcome = await running
        await executor.close()
        return outcome

    assert isinstance(asyncio.run(cancelled()), Ok)
    assert steps[-1] == "committed"
    assert plainly(url, "SELECT n FROM late") == [(1,)]
