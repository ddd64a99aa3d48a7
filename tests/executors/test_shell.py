"""The shell and python executors: what they pass, what they answer, what they refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import BadDefinition
from tallystick.executors.base import Failed
from tallystick.executors.isolate import Bounds, read_bounds
from tallystick.executors.python import RUN as PYTHON
from tallystick.executors.python import make as make_python
from tallystick.executors.shell import RUN, make
from tallystick.values.canon import hash_of
from tests.executors.attempts import KeptBlobs, failed, job_of, no_report
from tests.executors.sandboxes import Box, missing, need_walls, ports

LITERAL = {"$tag": "literal", "$value": "plain"}
SECRET = {"$tag": "secret", "$value": {"alias": "a/b", "version": 1}}


@pytest.fixture(params=["bubblewrap", "rlimits"])
def box(tmp_path: Path, request: Any) -> Box:
    """A box with and without walls: both behave alike in what is not about walls."""
    if request.param == "bubblewrap":
        need_walls()
    made = Box(tmp_path)
    made.bounds = Bounds(isolation=request.param)
    return made


def test_a_program_gets_arguments_and_gives_output(box: Box) -> None:
    """04 section 6: argv as it is, no shell between; any exit code is ok."""
    told = box.shell("printf", "%s|", "a b", "$HOME", ";", "")
    assert (told["exit_code"], told["stdout"], told["stderr"]) == (0, b"a b|$HOME|;||", b"")
    assert told["timings"]["total_ns"] > 0
    told = box.shell("sh", "-c", "echo no >&2; exit 3")
    assert (told["exit_code"], told["stderr"]) == (3, b"no\n")
    assert box.shell("sh", "-c", "kill -9 $$")["exit_code"] == 137


def test_the_environment_is_clean(box: Box) -> None:
    """04 section 6: nothing of the node's variables; those of the request, secrets among them."""
    env = {"A": LITERAL, "B": SECRET, "PATH": LITERAL, "LD_PRELOAD": LITERAL}
    told = box.shell("env", env=env, secrets={"/env/B": "canary"})
    lines = sorted(told["stdout"].decode().splitlines())
    assert lines == ["A=plain", "B=canary", "HOME=/tmp", "LANG=C.UTF-8", *lines[4:]]
    assert lines[4:] == ["LD_PRELOAD=plain", "PATH=plain"]
    assert box.no_shell("env", env={"B": SECRET}).code == "shell.secret_missing"
    for bad in ("", "A=B", "A\x00"):
        assert box.no_shell("env", env={bad: LITERAL}).code == "shell.env"


def test_input_and_large_output_go_by_reference(box: Box) -> None:
    """04 section 6: 64 KiB inline, the whole as a blob; beyond the limit it is cut and said so."""
    body = bytes(range(256)) * 300
    blobs = KeptBlobs(body)
    told = box.shell("cat", stdin_ref=hash_of(body), blobs=blobs)
    assert (told["stdout"], told["stdout_ref"]) == (body[:65_536], hash_of(body))
    assert (told["stderr_ref"], told["truncated"]) == (None, False)
    few = Bounds(isolation=box.bounds.isolation, bytes_max=1000)
    told = box.shell("cat", stdin_ref=hash_of(body), blobs=blobs, bounds=few)
    assert (told["stdout"], told["stdout_ref"], told["truncated"]) == (body[:1000], None, True)
    assert box.no_shell("cat", stdin_ref=hash_of(b"?")).code == "shell.stdin_missing"


def test_the_project_can_be_read_where_it_is_asked_for(box: Box, tmp_path: Path) -> None:
    """04 section 6: `cwd` is a place in the project, read-only, and our data is not in it."""
    tmp_path.chmod(0o755)  # behind the walls of a root node, the program is a stranger
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a").write_text("a\n")
    (tmp_path / ".tally/keys").mkdir(parents=True)
    (tmp_path / ".tally/keys/k").write_text("canary")
    assert box.shell("cat", "a", cwd="sub")["stdout"] == b"a\n"
    assert box.no_shell("cat", "a", cwd="absent").code == "sandbox.cwd"
    assert box.no_shell("cat", "a", cwd="../x").code == "shell.not_granted"
    if box.bounds.isolation == "bubblewrap":
        assert box.shell("cat", "../.tally/keys/k", cwd="sub")["exit_code"] != 0
        assert box.shell("touch", "b", cwd="sub")["exit_code"] != 0
        assert box.shell("cat", "/project/sub/a")["exit_code"] != 0
    assert sorted(p.name for p in (tmp_path / "sub").iterdir()) == ["a"]


@pytest.mark.clause("X-24")
def test_only_what_was_granted_runs(box: Box) -> None:
    """06 section 2: the program exactly, its variables, the network; checked again here."""
    grant = {"programs": ["echo"], "env": ["A"]}
    assert box.shell("echo", "x", grant=grant, env={"A": LITERAL})["stdout"] == b"x\n"
    for refused in (
        box.no_shell("cat", grant=grant),
        box.no_shell("/bin/echo", grant=grant),
        box.no_shell("echo", grant=grant, env={"B": LITERAL}),
        box.no_shell("echo", grant=grant, net=True),
        box.no_shell(grant=grant),
    ):
        assert (refused.kind, refused.code) == ("scope", "shell.not_granted")
    assert box.no_shell("no-such-program").code == "sandbox.program"
    grant = {"entrypoints": ["main"]}
    entry = {"entry": "other"}
    refused = box.no_python("def other(): pass", params=entry, grant=grant)
    assert refused.code == "python.not_granted"


@pytest.mark.clause("X-24")
def test_a_program_without_a_name_is_a_failure(box: Box) -> None:
    """04 section 5: nothing was started, and it was told as ok with exit code 1."""
    found = box.no_shell("")
    assert (found.kind, found.code) == ("not_found", "sandbox.program")


def test_code_is_called_with_json(box: Box) -> None:
    """04 section 6: a map by name, a list by place, null not at all; the result is JSON."""
    code = "def main(*a, **k):\n    print('said')\n    return [list(a), k]"
    for args, result in (
        ({"x": [1, None]}, [[], {"x": [1, None]}]),
        ([1, "é"], [[1, "é"], {}]),
        (None, [[], {}]),
        (7, [[7], {}]),
    ):
        told = box.python(code, args)
        assert (told["result"], told["stdout"]) == (result, "said\n")
    other = box.python("def other():\n    return 1", params={"entry": "other"})
    assert other["result"] == 1
    body = b"def main():\n    return 2"
    ref = {"code": None, "code_ref": hash_of(body)}
    assert box.python("", params=ref, blobs=KeptBlobs(body))["result"] == 2


def test_an_error_that_cannot_be_shown_is_an_error_of_the_code(box: Box) -> None:
    """04 section 5: its text raised again, and the attempt was told as a crash of the node's."""
    code = "class E(Exception):\n    __str__ = None\ndef main():\n    raise E"
    found = box.no_python(code)
    assert (found.kind, found.code, found.message) == ("client_error", "python.raised", "E: ")


def test_what_goes_wrong_in_code_is_told(box: Box) -> None:
    """04 section 5: a raise is an error with its traceback; no answer at all is a crash."""
    blobs = KeptBlobs()
    told = box.no_python("def main():\n    raise ValueError('why')", blobs=blobs)
    assert (told.kind, told.code, told.message) == (
        *("client_error", "python.raised"),
        "ValueError: why",
    )
    assert told.details_ref is not None
    assert b'<python.run>", line 2' in blobs.bodies[told.details_ref]
    for code in ("def main(:", "def main():\n    return object()"):
        assert box.no_python(code).code == "python.raised"
    for code in (
        "import os\ndef main():\n    os._exit(0)",
        "import os\nos.write(1, b'')\nos.abort()",
    ):
        assert box.no_python(code).code == "python.no_answer"
    few = Bounds(isolation=box.bounds.isolation, bytes_max=1000)
    assert box.no_python("def main():\n    return 'x' * 1000", bounds=few).kind == "limit"
    for params, code in (
        ({"code": None}, "python.code"),
        ({"code_ref": hash_of(b"x")}, "python.code"),
        ({"code": None, "code_ref": hash_of(b"x")}, "python.code_missing"),
    ):
        assert box.no_python("", params=params).code == code
    body = b"\xff"
    params = {"code": None, "code_ref": hash_of(body)}
    assert box.no_python("", params=params, blobs=KeptBlobs(body)).code == "python.code"


def test_a_cancelled_program_is_killed(box: Box, tmp_path: Path) -> None:
    """04 section 5: a cancel, and the end of the task that waits, end the program."""

    async def stopped(by_task: bool) -> Any:
        executor = make({"isolation": box.bounds.isolation}, ports(tmp_path))
        job = job_of(RUN, {"argv": ["sleep", "600"]})
        running = asyncio.create_task(executor.perform(job, no_report))
        await asyncio.sleep(0.05)
        if by_task:
            running.cancel()
        else:
            await executor.cancel(job)
        outcome = (await asyncio.gather(running, return_exceptions=True))[0]
        await executor.close()
        return outcome

    outcome = asyncio.run(stopped(by_task=False))
    assert isinstance(outcome, Failed)
    assert outcome.kind == "cancelled"
    assert isinstance(asyncio.run(stopped(by_task=True)), asyncio.CancelledError)


def test_a_deadline_is_kept(box: Box, tmp_path: Path) -> None:
    """04 section 5: the deadline of the job ends it before the settings do."""
    executor = make_python({"isolation": box.bounds.isolation}, ports(tmp_path))
    params = {"code": "import time\ndef main():\n    time.sleep(600)", "args": None}
    assert failed(executor, job_of(PYTHON, params, deadline_ns=10**9)).kind == "timeout"


def test_without_walls_nothing_runs_unless_told(tmp_path: Path) -> None:
    """04 section 6: `rlimits` is an explicit downgrade, never a silent one."""
    box = Box(tmp_path)
    for bounds in (Bounds(bwrap=None), Bounds(bwrap="/bin/false")):
        told = box.no_shell("echo", bounds=bounds)
        assert told.kind == "server_error"
    assert box.no_shell("echo", bounds=Bounds(bwrap=None)).code == "sandbox.unavailable"
    assert box.no_shell("echo", bounds=Bounds(bwrap="/bin/false")).code == "sandbox.failed"
    plain = Bounds(isolation="rlimits", bwrap=None)
    assert box.shell("echo", bounds=plain)["stdout"] == b"\n"
    with pytest.raises(BadDefinition) as caught:
        read_bounds({"isolation": "none"})
    assert caught.value.code == "config.value"
    assert missing() is None or "sandbox." in str(missing())
