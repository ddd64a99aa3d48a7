"""Tools in a real node: what a program says, what a database answers, how long it took."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.playbook_tools import (
    http_params,
    llm_outcome,
    shell_outcome,
    unasked,
)
from tallystick.playbooks.tasks import Perform
from tests.executors.jobs import MemoryBlobs, job
from tests.playbooks.rig import Ended, ended, playing, request
from tests.playbooks.test_played import HEAD, sandboxed

SHELL = HEAD + (
    "workflow:\n"
    "  - step: say\n"
    '    tool: {kind: shell, cmd: [sh, -c, "echo hello; echo oops >&2"]}\n'
    "    next: {arcs: [{step: large}]}\n"
    "  - step: large\n"
    '    tool: {kind: shell, cmd: [sh, -c, "yes tally | head -c 200000"]}\n'
    "    set_ctx: {size: '{{ large._ref.bytes }}'}\n"
    "    next: {arcs: [{step: bad}]}\n"
    "  - step: bad\n"
    "    tool:\n"
    "      kind: shell\n"
    "      cmd: [sh, -c, exit 3]\n"
    "      spec: {policy: {rules: [{else: {then: {do: continue, "
    "set_ctx: {code: '{{ outcome.result.exit_code }}', "
    "ms: '{{ outcome.meta.duration_ms }}'}}}}]}}\n"
)


def play(folder: Path, text: str, enabled: str, grants: Any, **settings: Any) -> Ended:
    async def main() -> Ended:
        names = ["timer", enabled, "playbook"]
        async with playing(folder / "data", enabled=names, executors=settings) as (node, world):
            await request(node, world, text, grants=grants)
            return await ended(node, world)

    return asyncio.run(main())


@sandboxed
@pytest.mark.clause("N-03", "N-20")
def test_what_a_program_says(tmp_path: Path) -> None:
    """07 section 5: output is text, a large one by reference; another code than 0 is an error."""
    found = play(tmp_path, SHELL, "shell", {"shell": {"programs": ["sh"]}})
    assert found.status == "success", str(found.net["failures"])
    assert found.results["say"] == {"exit_code": 0, "stdout": "hello\n", "stderr": "oops\n"}
    assert found.ctx["size"] > 60_000
    assert found.ctx["code"] == 3
    assert found.ctx["ms"] >= 0


@sandboxed
@pytest.mark.clause("X-24")
@pytest.mark.parametrize(
    ("cmd", "grant"),
    [("echo hello", {}), ("[echo, hello]", {"programs": ["cat"]})],
)
def test_a_grant_bounds_programs(tmp_path: Path, cmd: str, grant: dict[str, Any]) -> None:
    """PB-22: a text needs a grant with `text`, a program one that names it."""
    text = HEAD + f"workflow:\n  - {{step: a, tool: {{kind: shell, cmd: {cmd}}}}}\n"
    found = play(tmp_path, text, "shell", {"shell": grant})
    (row,) = found.net["failures"]
    assert (found.status, row["kind"]) == ("failed", "denied")


@sandboxed
@pytest.mark.clause("X-24")
def test_a_text_that_was_granted(tmp_path: Path) -> None:
    """07 section 5, control: with `text` in its grant a command is read by a shell."""
    text = HEAD + "workflow:\n  - {step: a, tool: {kind: shell, cmd: 'echo $((6 * 7))'}}\n"
    found = play(tmp_path, text, "shell", {"shell": {"text": True}})
    assert found.results["a"]["stdout"] == "42\n", str(found.net["failures"])


@pytest.mark.clause("N-03", "X-24")
def test_what_a_database_answers(tmp_path: Path) -> None:
    """07 section 5: rows by name; a statement that begins with `with` may read or write."""
    (tmp_path / "app.db").touch()
    text = HEAD + (
        "workflow:\n"
        "  - step: a\n"
        "    tool:\n"
        "      - {name: make, kind: sql, database: app, command: create table t (n integer)}\n"
        "      - {name: put, kind: sql, database: app, params: [1, 2],\n"
        '         command: "with w(n) as (values (?), (?)) insert into t select n from w"}\n'
        "      - {name: get, kind: sql, database: app,\n"
        '         query: "with w as (select n from t) select n * 10 as ten from w order by n"}\n'
    )
    databases = {"app": {"url": f"sqlite:{tmp_path / 'app.db'}", "mode": "write"}}
    found = play(tmp_path, text, "sql", {"sql": {}}, sql={"dbs": databases})
    assert found.status == "success", str(found.net["failures"])
    wanted = {"rows": [{"ten": 10}, {"ten": 20}], "row_count": 2, "columns": ["ten"]}
    assert found.results["a"] == wanted
    refused = play(
        tmp_path / "b", text, "sql", {"sql": {"verbs": ["read"]}}, sql={"dbs": databases}
    )
    assert refused.net["failures"][0]["kind"] == "denied"


def test_answers_that_are_in_the_store() -> None:
    """A long output of a program or a model is read from where its executor put it."""
    blobs = MemoryBlobs()
    given = job("sys/shell.run@1", {}, blobs=blobs)
    ref = blobs.put("größer".encode())
    told = {"exit_code": 0, "stdout": b"", "stderr": b"\xff", "stdout_ref": ref}
    assert shell_outcome(given, told)["result"] == {
        "exit_code": 0,
        "stdout": "größer",
        "stderr": "\ufffd",
    }
    long = {"text": None, "output_ref": blobs.put(b'{"a": 1}'), "usage": None}
    assert llm_outcome(given, long)["result"] == {"text": "", "data": {"a": 1}, "usage": None}


@pytest.mark.clause("N-03")
@pytest.mark.parametrize(
    ("text", "schema", "code"),
    [
        ('{"n": 1}', {"record": {"n": {"nat": {}}}}, None),
        ('{"n": "one"}', {"record": {"n": {"nat": {}}}}, "value.mismatch"),
        ("no JSON at all", {"record": {"n": {"nat": {}}}}, "value.mismatch"),
        ('{"n": 1}', {"type": "object"}, "schema.unknown_type"),
    ],
)
def test_what_a_model_wrote_fits_its_schema(text: str, schema: Any, code: str | None) -> None:
    """07 section 5: with `schema` an answer of another shape is an error of kind schema."""
    told = llm_outcome(job("sys/llm.generate@1", {}), {"text": text, "usage": None}, schema)
    assert told["result"]["text"] == text
    assert (told.get("error") or {}).get("code") == code, told
    assert code is None or told["error"]["kind"] == "schema"


AUTH: list[tuple[Any, dict[str, str] | None]] = [
    (None, {}),
    ({"type": "bearer", "token": "abc"}, {"Authorization": "Bearer abc"}),
    ({"type": "basic", "username": "a", "password": "b"}, {"Authorization": "Basic YTpi"}),
    ({"type": "api_key", "value": "k"}, {"X-API-Key": "k"}),
    ({"type": "api_key", "value": "k", "header": "K"}, {"K": "k"}),
    ("abc", None),
    ({"type": "bearer"}, None),
    ({"type": "digest", "username": "a", "password": "b"}, None),
]


@pytest.mark.clause("N-03")
@pytest.mark.parametrize(("auth", "headers"), AUTH)
def test_auth_of_http_is_a_header_or_an_error(auth: Any, headers: dict[str, str] | None) -> None:
    """07 section 5: `auth` is sent; what cannot be read is refused, never left out in silence."""
    act = Perform("a", "http", {"url": "http://x/", "auth": auth}, {}, 1, 0, None)
    asked = http_params(act)
    if headers is None:
        assert asked is None
        assert "bearer" in unasked(act)
        return
    assert asked is not None
    sent = {name: value["$value"] for name, value in (asked[1]["headers"] or {}).items()}
    assert sent == headers


def test_an_action_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    """07 section 5: a file task with another action fails with its name."""
    text = HEAD + "workflow:\n  - {step: a, tool: {kind: file, action: burn, path: x}}\n"
    found = play(tmp_path, text, "file", {"file": {}})
    (row,) = found.net["failures"]
    assert (row["code"], "burn" in row["message"]) == ("task.unserved", True)
