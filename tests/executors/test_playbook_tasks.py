"""Tasks of playbooks in a real node: models, stores and databases, and who is not there."""

# tidy: every tool of a task, served and not.
from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors import playbook_tools
from tallystick.executors.base import Failed, Ok, Outcome
from tallystick.executors.file import FileExecutor, FileSettings
from tallystick.executors.playbook_files import WRITE, Appends
from tallystick.node.attempt import Shelf
from tallystick.playbooks.tasks import Perform
from tests.executors.attempts import job_of, no_report
from tests.executors.jobs import MemoryBlobs, job
from tests.playbooks.nets import HEAD
from tests.playbooks.rig import Ended, ended, playing, request, until

# Whatever becomes of a task, its outcome goes to ctx and the pipeline goes on.
SEEN = (
    "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: "
    "{%s: '{{ outcome.error.code | default(outcome.result) }}'}}}}]}}"
)


def play(folder: Path, text: str, enabled: Sequence[str], **settings: Any) -> Ended:
    """One execution from its beginning to its end."""

    async def main() -> Ended:
        names = ["timer", *enabled, "playbook"]
        async with playing(folder / "data", enabled=names, executors=settings) as (node, world):
            await request(node, world, text)
            return await ended(node, world)

    return asyncio.run(main())


def pipeline(*tasks: tuple[str, str]) -> str:
    """A playbook of one step whose tasks all end, each with its outcome in ctx."""
    lines = [f"      - {{name: {name}, {kind}, {SEEN % name}}}\n" for name, kind in tasks]
    return HEAD + "workflow:\n  - step: a\n    tool:\n" + "".join(lines)


@pytest.mark.clause("N-03")
def test_what_is_not_enabled_says_what_to_do(tmp_path: Path) -> None:
    """07 section 5: a tool without its executor is an error of the task, with the setting named."""
    text = pipeline(
        ("web", "kind: http, url: 'http://127.0.0.1:1/'"),
        ("db", "kind: sql, database: app, command: select 1"),
        ("odd", "kind: file, action: fold, path: x"),
    )
    found = play(tmp_path, text, ())
    assert found.status == "success", str(found.net["failures"])
    assert found.ctx == dict.fromkeys(("web", "db", "odd"), "task.unserved")
    only = HEAD + "workflow:\n  - {step: a, tool: {kind: http, url: 'http://127.0.0.1:1/'}}\n"
    (row,) = play(tmp_path / "b", only, ()).net["failures"]
    assert "`enabled` under [executors]" in row["message"]


@pytest.mark.clause("N-03")
def test_a_model_is_asked_by_prompt_and_by_messages(tmp_path: Path) -> None:
    """07 section 5: both spellings reach the model, and its words come back."""
    said = "kind: llm, model: stand-in"
    text = pipeline(
        ("one", f"{said}, prompt: 'a word'"),
        ("two", f"{said}, messages: [{{role: user, content: 'two words'}}]"),
    )
    found = play(tmp_path, text, ("llm",))
    assert found.status == "success", str(found.net["failures"])
    assert "a word" in found.ctx["one"]["text"]
    assert "two words" in found.ctx["two"]["text"]
    assert found.ctx["one"]["usage"]


@pytest.mark.clause("N-08")
@pytest.mark.skipif(find_spec("duckdb") is None, reason="the driver duckdb is not installed")
def test_rows_flow_from_step_to_step(tmp_path: Path) -> None:
    """07 section 5: a list is a result; over the limit it is a reference that still has rows."""
    text = HEAD + (
        "workflow:\n"
        "  - step: few\n"
        "    tool: {kind: duckdb, command: 'select 7 as n'}\n"
        "    next: {arcs: [{step: many}]}\n"
        "  - step: many\n"
        "    tool:\n"
        "      - {name: rows, kind: duckdb, params: ['{{ few[0].n }}'],\n"
        "         command: 'select ? as n from range(20000)'}\n"
    )
    found = play(tmp_path, text, ("sql",))
    assert found.status == "success", str(found.net["failures"])
    assert found.results["few"] == [{"n": 7}]
    kept = found.results["many"]
    assert kept["_ref"]["kind"] == "result_ref"
    assert kept["_preview"].startswith("[{'n': 7}")


@pytest.mark.clause("N-22")
def test_a_join_tells_who_came(tmp_path: Path) -> None:
    """07 section 3: the step behind a split sees each branch by its name."""
    arcs = "next: {arcs: [{step: j}]}"
    text = HEAD + (
        "workflow:\n"
        "  - {step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}\n"
        f"  - {{step: a, tool: {{kind: noop}}, {arcs}}}\n"
        f"  - {{step: b, tool: {{kind: noop}}, {arcs}}}\n"
        "  - step: j\n"
        "    join: all\n"
        "    tool: {kind: llm, model: stand-in,\n"
        "      prompt: '{{ join.tokens[0].from }} and {{ join.tokens[1].from }}'}\n"
    )
    found = play(tmp_path, text, ("llm",))
    assert found.status == "success", str(found.net["failures"])
    assert "a and b" in found.results["j"]["text"]


def test_many_rows_of_a_database_are_read_from_the_store(tmp_path: Path) -> None:
    """07 section 5: an answer that is too long for a receipt is still rows for the task."""
    (tmp_path / "app.db").touch()
    sql = (
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 900) "
        "select i, hex(zeroblob(60)) as pad from n"
    )
    kind = f"kind: sql, database: app, command: '{sql}'"
    text = HEAD + f"workflow:\n  - step: a\n    tool: {{{kind}}}\n"
    text += "    set_ctx: {last: '{{ a.row_count }}'}\n"
    databases = {"app": {"url": f"sqlite:{tmp_path / 'app.db'}"}}
    found = play(tmp_path, text, ("sql",), sql={"dbs": databases})
    assert found.status == "success", str(found.net["failures"])
    assert found.ctx["last"] == 900
    assert found.results["a"]["_ref"]["bytes"] > 65_536


@pytest.mark.clause("N-15")
def test_a_long_pause_holds_no_worker(tmp_path: Path) -> None:
    """07 section 7: a retry in an hour is the cell's to wait for; the step is not at work."""
    rule = "{when: '{{ _attempt < 2 }}', then: {do: retry, delay: 3600}}"
    text = HEAD + (
        "workflow:\n  - step: a\n    tool: {kind: http, url: 'http://127.0.0.1:1/', "
        f"spec: {{policy: {{rules: [{rule}]}}}}}}\n"
    )

    async def main() -> None:
        async with playing(tmp_path, enabled=["timer", "playbook"]) as (node, world):
            await request(node, world, text)
            net = await until(node, world, "running")
            while not any(
                unit.get("wish", {}).get("kind") == "pause"
                for run in net["runs"].values()
                for unit in run["open"].values()
            ):
                net = await until(node, world, "running")
                await asyncio.sleep(0.01)
            assert await node.quiet(world, 30_000)

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.clause("N-03")
def test_a_task_over_its_time_is_an_error(tmp_path: Path) -> None:
    """07 section 5: `timeout` ends the task though the far end never answers."""

    async def main() -> Ended:
        held: list[asyncio.StreamWriter] = []

        async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            held.append(writer)

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        one = f"kind: http, url: 'http://127.0.0.1:{port}/', {SEEN % 'web'}"
        text = HEAD + "workflow:\n  - step: a\n    tool: {" + one.replace(
            "spec: {", "spec: {timeout: 200ms, "
        ) + "}\n"  # fmt: skip
        async with playing(tmp_path, enabled=["timer", "http", "playbook"]) as (node, world):
            await request(node, world, text)
            found = await ended(node, world)
        for writer in held:
            writer.close()
        server.close()
        return found

    assert asyncio.run(asyncio.wait_for(main(), 60)).ctx == {"web": "task.timeout"}


# ---- what an executor said, as a task tells it ----------------------------------------------


def test_a_failure_says_when_to_come_again_and_what_was_raised() -> None:
    """07 section 5: `retry_after` in seconds; an exception of a program by the name of its type."""
    busy = playbook_tools.failed(Failed("limit", "llm.busy", "later", True, 1_500_000_000))
    assert (busy["error"]["retry_after"], busy["error"]["retryable"]) == (1.5, True)
    raised = playbook_tools.failed(Failed("client_error", "python.raised", "ValueError: no: 1"))
    assert raised["py"] == {"exception_type": "ValueError"}
    assert raised["error"]["kind"] == "unknown"
    plain = playbook_tools.failed(Failed("connection", "http.cut", "cut"))
    assert "py" not in plain


def test_a_response_says_when_to_come_again() -> None:
    """07 section 5: seconds of Retry-After are a number; a date is left to the policy."""
    given = job("sys/http.request@1", {})
    for after, wanted in (("7", 7), ("Fri, 01 Jan 2027 00:00:00 GMT", None)):
        value = {"status": 429, "headers": {"Retry-After": after}, "body": b'{"a": 1}'}
        told = playbook_tools.http_outcome(given, value)
        assert told["error"].get("retry_after") == wanted
        assert told["error"]["retryable"] is True
        assert told["result"]["data"] == {"a": 1}


def act(kind: str, **inputs: Any) -> Perform:
    return Perform("a", kind, inputs, {"n": 1}, 1, 0, None)


def test_inputs_of_http_are_spelled_for_the_wire() -> None:
    """07 section 5: query values as JSON has them; a type that is given is not given twice."""
    headers = {"content-TYPE": "application/x-own"}
    asked = playbook_tools.http_params(
        act("http", url="http://x/?a=1", params={"b": True, "c": None, "d": 5}, body=[1],
            headers=headers)
    )  # fmt: skip
    assert asked is not None
    params = asked[1]
    assert params["url"] == "http://x/?a=1&b=true&d=5"
    assert json.loads(params["body"]) == [1]
    assert set(params["headers"]) == {"content-TYPE"}


def test_code_may_come_in_base64() -> None:
    """07 section 5: `code_b64` is the same program."""
    plain = playbook_tools.python_params(act("python", code="result = 1"), {})
    coded = playbook_tools.python_params(act("python", code_b64="cmVzdWx0ID0gMQ=="), {})
    assert plain == coded


def test_a_large_file_is_read_from_the_store() -> None:
    """07 section 5: a file that came by reference is a text too; a tagged status is its tag."""
    blobs = MemoryBlobs()
    value = {"path": "a", "bytes": None, "ref": blobs.put(b"long \xff"), "size": 6}
    read = playbook_tools.file_outcome(job("sys/file.read@1", {}, blobs=blobs), value)
    assert read["result"] == {"path": "a", "size": 6, "text": "long �"}
    tagged = {"path": "a", "status": {"$tag": "written", "$value": None}}
    written = playbook_tools.file_outcome(job("sys/file.write@1", {}), tagged)
    assert written["result"]["status"] == "written"


def test_an_append_to_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """08 section 10: what cannot be read is not written either; a refusal is told as it came."""
    (tmp_path / "log").symlink_to("elsewhere")

    async def main() -> Outcome:
        executor = FileExecutor(FileSettings({"project": tmp_path}))
        params = {"workspace": "project", "path": "log", "content": b"line"}
        found = await Appends().append(executor, job_of(WRITE, params), no_report)
        await executor.close()
        return found

    found = asyncio.run(main())
    assert not isinstance(found, Ok)
    assert found.code == "file.link"
    assert not (tmp_path / "elsewhere").exists()


UNKEPT = {
    "a number of a hundred bits": "10 ** 30",
    "half a letter": "chr(0xd83d)",
    "too many layers": "__import__('functools').reduce(lambda made, _: [made], range(80), 1)",
}


@pytest.mark.parametrize("name", UNKEPT)
def test_a_result_that_cannot_be_kept_is_an_error_of_its_task(tmp_path: Path, name: str) -> None:
    """07 section 5: what no document can hold is told to the policy; no worker is lost over it."""
    text = pipeline(
        ("odd", f'kind: python, code: "result = {UNKEPT[name]}"'),
        ("even", "kind: python, code: 'result = 1'"),
    )
    found = play(tmp_path, text, ("python",), python={"isolation": "rlimits"})
    assert found.status == "success", str(found.net["failures"])
    assert found.ctx == {"odd": "task.result", "even": 1}


LARGE = "kind: python, code: \"result = 'x' * %d\""


def test_a_result_over_the_size_of_a_document_is_an_error_of_its_task(tmp_path: Path) -> None:
    """07 section 5: rows or a text over 16 MiB ended the step as that of a lost worker."""
    wide = ", ".join(f"i AS a_column_with_a_long_name_{n}" for n in range(7))
    tasks = (
        ("text", {"kind": "file", "action": "read", "path": "big.txt"}),
        ("rows", {"kind": "duckdb", "command": f"SELECT {wide} FROM range(99000) AS t(i)"}),
    )
    for name, tool in tasks:
        (tmp_path / name / "data").mkdir(parents=True)
        (tmp_path / name / "data/big.txt").write_bytes(b"x" * (20 << 20))
        if name == "rows" and find_spec("duckdb") is None:
            continue
        step = json.dumps({"step": "a", "tool": tool})
        found = play(tmp_path / name, HEAD + f"workflow:\n  - {step}\n", ("file",))
        (row,) = found.net["failures"]
        assert (row["code"], row["kind"]) == ("task.result", "schema"), name


def test_tasks_may_make_more_than_a_document_together(tmp_path: Path) -> None:
    """07 section 5: two results of 9 MiB each ended their step as that of a lost worker."""
    tasks = [f"      - {{name: {name}, {LARGE % (9 << 20)}}}\n" for name in ("one", "two")]
    text = HEAD + "workflow:\n  - step: a\n    tool:\n" + "".join(tasks)
    found = play(tmp_path, text, ("python",), python={"isolation": "rlimits"})
    assert found.status == "success", str(found.net["failures"])


@pytest.mark.parametrize(
    "body", ['{"n": 1e999}', f'{{"n": {10**30}}}', '["\\ud83d"]', "[" * 99_999]
)
def test_an_answer_that_cannot_be_kept_is_a_text(body: str) -> None:
    """07 section 5: a body that is JSON, but no document, comes as it stands there."""
    value = {"status": 200, "headers": {}, "body": body.encode(), "body_ref": None}
    outcome = playbook_tools.http_outcome(job("sys/playbook.step@1", {}), value)
    assert outcome["result"]["data"] == body


def test_what_is_no_name_of_a_result_is_unknown() -> None:
    """07 section 5: a text as long as a hash that is none is an error of the task."""
    act = Perform("a", "artifact", {}, {"result_ref": "x" * 71}, 1, 1, None)
    blobs = Shelf("w", lambda world, digest: None)
    step = job("sys/playbook.step@1", {}, blobs=blobs)
    outcome = playbook_tools.artifact_outcome(step, act)
    assert outcome["error"]["code"] == "artifact.unknown"
    other = act._replace(args={"result_ref": blobs.put(b"no document")})
    outcome = playbook_tools.artifact_outcome(step, other)
    assert outcome["error"]["code"] == "artifact.no_result"


def test_inputs_of_another_kind_are_an_error_of_their_task(tmp_path: Path) -> None:
    """07 section 5: what a template makes is known late; the policy is told, no worker is lost."""
    url = "url: 'http://127.0.0.1:1/'"
    text = pipeline(
        ("query", f"kind: http, {url}, params: '{{{{ [1, 2] }}}}'"),
        ("heads", f"kind: http, {url}, headers: '{{{{ 7 }}}}'"),
        ("words", "kind: llm, model: m, prompt: hi, max_tokens: '{{ \"many\" }}'"),
        ("even", "kind: noop"),
    )
    found = play(tmp_path, text, ("http", "llm"))
    assert found.status == "success", str(found.net["failures"])
    assert {found.ctx[name] for name in ("query", "heads", "words")} == {"task.inputs"}
