"""Databases as tools of playbooks: DuckDB in memory, a real PostgreSQL, several statements."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tallystick.authority.sqltext import statements
from tallystick.executors import playbook_duckdb
from tallystick.playbooks.tasks import Perform
from tests.playbooks.rig import Ended
from tests.playbooks.test_played import HEAD
from tests.playbooks.test_tools import play
from tests.postgres import postgres

with_duckdb = pytest.mark.skipif(
    find_spec("duckdb") is None, reason="the driver duckdb is not installed: nothing was shown"
)


def duck(command: str, params: Any = None, seconds: float | None = None, **other: Any) -> Any:
    """The outcome of a duckdb task."""
    inputs = {"command": command, "params": params, **other}
    act = Perform("ask", "duckdb", inputs, {}, 1, 0, None)
    return asyncio.run(asyncio.wait_for(playbook_duckdb.query(act), seconds))


TYPES: tuple[tuple[str, Any], ...] = (
    ("NULL", None),
    ("true", True),
    ("42", 42),
    ("1.50::DECIMAL(5, 2)", 1.5),
    ("99999999999999999999999::HUGEINT", "99999999999999999999999"),
    ("2.0::DOUBLE", 2),
    ("'nan'::DOUBLE", "NaN"),
    ("'-inf'::DOUBLE", "-Infinity"),
    ("'é'", "é"),
    (r"'\x00\xFF'::BLOB", {"bytes_b64": "AP8="}),
    ("DATE '2026-02-03'", "2026-02-03"),
    ("TIME '04:05:06'", "04:05:06"),
    ("TIMESTAMP '2026-02-03 04:05:06'", "2026-02-03 04:05:06"),
    ("TIMESTAMPTZ '2026-02-03 04:05:06+02'", "2026-02-03 02:05:06+00:00"),
    ("INTERVAL 90 MINUTE", "P0DT5400S"),
    ("[1, NULL]", [1, None]),
    ("{'a': [DATE '2026-02-03']}", {"a": ["2026-02-03"]}),
)


@with_duckdb
def test_every_type_of_duckdb_comes_back_as_json() -> None:
    """PB-26: numbers, null, bytes; dates and all that JSON has not as the same text everywhere."""
    for expression, value in TYPES:
        told = duck(f"SELECT {expression} AS x")
        assert told == {"status": "ok", "result": [{"x": value}]}, expression
    assert duck("SELECT ? + 1 AS a, ':b ?' AS t", [1])["result"] == [{"a": 2, "t": ":b ?"}]
    assert duck("SELECT :a::INT + :a AS a", {"a": 2})["result"] == [{"a": 4}]
    several = "CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (2); SELECT sum(n) AS s FROM t"
    assert duck(several)["result"] == [{"s": 3}]


@with_duckdb
@pytest.mark.clause("X-24")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "sql.refused"),
        ("COPY (SELECT 1) TO '/tmp/tally-duck.csv'", "sql.refused"),
        ("ATTACH '/tmp/tally-duck.db'", "sql.refused"),
        ("INSTALL httpfs", "sql.refused"),
        ("SET enable_external_access = true", "sql.invalid"),
        ("SET memory_limit = '100GB'", "sql.invalid"),
        ("CREATE TABLE t (n INT PRIMARY KEY); INSERT INTO t VALUES (1), (1)", "sql.constraint"),
        ("SELECT * FROM range(100001)", "sql.too_large"),
        ("SELECT repeat('x', 17000000)", "sql.too_large"),
        ("nonsense", "sql.invalid"),
        ("SELECT 'open", "sql.invalid"),
    ],
)
def test_what_duckdb_may_not_do_is_an_outcome(command: str, code: str) -> None:
    """PB-22: no file, no extension, no setting is reached, and every refusal has a code."""
    told = duck(command)
    assert (told["status"], told["error"]["code"]) == ("error", code), told
    assert not list(Path("/tmp").glob("tally-duck*"))


@with_duckdb
def test_duckdb_stops_when_its_time_is_over() -> None:
    """PB-26: a question without end is interrupted, and no thread is left behind it."""
    with pytest.raises(TimeoutError):
        duck("SELECT count(*) FROM range(1000000000) a, range(1000000000) b", seconds=0.3)
    assert duck("SELECT 1 AS x", database="app.duckdb")["error"]["kind"] == "denied"
    assert duck("SELECT ?", [[1]])["error"]["code"] == "sql.args"


FLOW = HEAD + (
    "workflow:\n"
    "  - step: load\n"
    "    tool:\n"
    "      - name: make\n"
    "        kind: postgres\n"
    "        database: app\n"
    "        command: |\n"
    "          CREATE TABLE town (name text PRIMARY KEY, people numeric, seen timestamptz);\n"
    "          INSERT INTO town VALUES ('Ulm', 126000, '2026-02-03 04:05:06+02');\n"
    "          SELECT count(*) AS n FROM town;\n"
    "      - {name: put, kind: sql, driver: postgres, auth: app, params: [\"O'Hara; DROP\", 1.5],\n"
    '         command: "INSERT INTO town (name, people) VALUES (?, ?)"}\n'
    "    next: {arcs: [{step: again}]}\n"
    "  - step: again\n"
    "    tool:\n"
    "      kind: postgres\n"
    "      database: app\n"
    '      command: "INSERT INTO town (name) VALUES (:name)"\n'
    "      params: {name: Ulm}\n"
    "      spec: {policy: {rules: [{when: \"{{ outcome.pg.sqlstate == '23505' }}\",\n"
    "        then: {do: continue, set_ctx: {kind: '{{ outcome.error.kind }}',\n"
    "          table: '{{ outcome.error.details.table }}'}}}]}}\n"
    "    next: {arcs: [{step: read}]}\n"
    "  - step: read\n"
    "    tool: {kind: postgres, database: app, command: SELECT * FROM town ORDER BY name}\n"
)  # fmt: skip


def on(folder: Path, url: str, text: str, grants: Any = None) -> Ended:
    databases = {"app": {"url": url, "mode": "write"}}
    return play(
        folder, text, "sql", {"sql": {}} if grants is None else grants, sql={"dbs": databases}
    )


@pytest.mark.clause("N-03", "N-20", "X-24")
def test_a_playbook_on_a_real_postgresql(tmp_path: Path) -> None:
    """PB-26: statements in order, bound values, typed rows, and errors by their SQLSTATE."""
    with postgres() as url:
        found = on(tmp_path, url, FLOW)
        assert found.status == "success", str(found.net["failures"])
        assert found.ctx == {"kind": "db_constraint", "table": "town"}
        rows = [
            {"name": "O'Hara; DROP", "people": 1.5, "seen": None},
            {"name": "Ulm", "people": 126000, "seen": "2026-02-03 02:05:06+00"},
        ]
        told = {"rows": rows, "row_count": 2, "columns": ["name", "people", "seen"]}
        assert found.results["read"] == {**told, "command_0": told}
        reads = {"sql": {"verbs": ["read"]}}
        refused = on(tmp_path / "b", url, FLOW, reads)
        assert refused.net["failures"][0]["kind"] == "denied"
        away = on(tmp_path / "c", url.replace("host=/", "host=/nowhere/"), FLOW)
        assert away.net["failures"][0]["kind"] == "db_connection"


SEVERAL = HEAD + (
    "workflow:\n"
    "  - step: a\n"
    "    tool:\n"
    "      kind: sql\n"
    "      database: app\n"
    "      command: \"CREATE TABLE t (n, s);INSERT INTO t VALUES (1, 'a;b'); SELECT * FROM t;\"\n"
)  # fmt: skip


@pytest.mark.clause("N-03")
def test_several_statements_answer_with_the_last(tmp_path: Path) -> None:
    """07 section 5: `{rows, row_count, columns}` of the last statement; the first error ends it."""
    (tmp_path / "app.db").touch()
    url = f"sqlite:{tmp_path / 'app.db'}"
    found = on(tmp_path, url, SEVERAL)
    assert found.status == "success", str(found.net["failures"])
    wanted = {"rows": [{"n": 1, "s": "a;b"}], "row_count": 1, "columns": ["n", "s"]}
    assert found.results["a"] == wanted
    again = on(tmp_path / "b", url, SEVERAL)
    assert again.net["failures"][0]["code"] == "sql.invalid"


@pytest.mark.clause("N-03")
@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("{kind: sql, database: app, command: 'select 1; select ?', params: [1]}", "sql.args"),
        ("{kind: sql, database: app, command: ';'}", "sql.statement"),
        ("{kind: sql, database: app, command: select 1, driver: oracle}", "task.unserved"),
        ("{kind: sql, command: select 1, auth: {password: x}}", "sql.auth"),
        ("{kind: sql, database: other, command: select 1}", "sql.db_unknown"),
    ],
)
def test_what_cannot_be_asked_says_so(tmp_path: Path, tool: str, code: str) -> None:
    """07 section 5: an input that means nothing here is an error with a code, never ignored."""
    (tmp_path / "app.db").touch()
    text = HEAD + f"workflow:\n  - {{step: a, tool: {tool}}}\n"
    found = on(tmp_path, f"sqlite:{tmp_path / 'app.db'}", text)
    assert found.net["failures"][0]["code"] == code, found.net["failures"]


def test_statements_are_split_outside_quotes() -> None:
    """07 section 5: a semicolon in a text or a name is part of it; an open quote is none."""
    assert statements("a; 'x;y' ; \"n;m\";; b") == ["a", "'x;y'", '"n;m"', "b"]
    assert statements("select 'open; select 1") is None
    assert statements(" ; ") == []
