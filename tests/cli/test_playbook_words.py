"""`tally playbook` in words: findings, drawings, what waits for what, and plain refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallystick.playbooks.kinds import NEEDS_GRANT
from tests.cli.runs import Ran, tally
from tests.cli.test_playbook import GATE

SIGNAL = """apiVersion: tally/v1
kind: Playbook
metadata: {name: signal}
workflow:
  - {step: a, tool: {kind: wait, signal: go}}
"""
ASKS = """apiVersion: tally/v1
kind: Playbook
metadata: {name: asks}
workflow:
  - {step: a, tool: {kind: human, prompt: "May it go out?"}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("gate.yaml").write_text(GATE, "utf-8")
    return tmp_path


def run(*words: str, code: int = 0) -> Ran:
    done = tally("playbook", *words)
    assert done.code == code, (words, done)
    return done


def said(*words: str, code: int = 0) -> Any:
    return run(*words, "--json", code=code).value


@pytest.mark.clause("N-01")
def test_findings_stand_with_their_place_and_hint(folder: Path) -> None:
    """PB-01: file, line and column, then what to do; the canonical form has a hash."""
    Path("odd.yaml").write_text(GATE + "colour: red\n", "utf-8")
    lines = run("check", "gate.yaml", "odd.yaml", code=2).out.splitlines()
    assert lines[0].startswith("gate.yaml:7:5 info P308 ")
    assert any(line.startswith("odd.yaml:12:1 error P105 ") for line in lines)
    assert lines[-1] == "refused"
    assert run("check", "gate.yaml").out.splitlines()[-1] == "ok"
    forms = said("check", "gate.yaml", "--canonical")["canonical"]
    assert list(forms) == ["gate.yaml"]
    assert forms["gate.yaml"]["document"]["metadata"]["name"] == "gate"
    assert forms["gate.yaml"]["hash"].startswith("sha256:")


@pytest.mark.clause("N-01")
def test_what_goes_into_a_pipe_is_not_broken_into_lines(folder: Path) -> None:
    """PB-18: a line is a line however long it is, so that a drawing can be read by others."""
    long = "a" * 150
    arc = f'next: {{arcs: [{{step: report, when: "{{{{ ctx.{long} }}}}"}}]}}'
    text = GATE.replace("    tool: {kind: noop}\n", f"    tool: {{kind: noop}}\n    {arc}\n")
    Path("long.yaml").write_text(text, "utf-8")
    assert any(long in line for line in run("graph", "long.yaml").out.splitlines())
    Path(f"{long}.yaml").write_text(GATE + "colour: red\n", "utf-8")
    lines = run("check", f"{long}.yaml", code=2).out.splitlines()
    assert any(line.startswith(f"{long}.yaml:12:1 error P105 ") for line in lines)


@pytest.mark.clause("N-01")
def test_a_file_is_drawn_or_it_is_said_why_not(folder: Path) -> None:
    """PB-18: the drawing as plain text; what cannot be read is told like a check tells it."""
    assert run("graph", "gate.yaml").out.startswith('flowchart TD\n  s0["gate (admit)"]\n')
    Path("cut.yaml").write_text("workflow: [", "utf-8")
    lines = run("graph", "cut.yaml", code=2).out.splitlines()
    assert lines[0].startswith("cut.yaml:2:1 error P101 ")
    assert lines[-1] == "refused"


@pytest.mark.clause("N-07", "N-15")
def test_what_waits_is_told_with_its_gate_and_its_variables(folder: Path) -> None:
    """PB-08: the token, the rules of the gate, the value of each name; events a line each."""
    Path("load.json").write_text('{"who": "eve"}', "utf-8")
    lines = run("run", "gate.yaml", "--workload", "load.json", code=1).out.splitlines()
    at = lines.index("  t1 waits at the gate of gate:")
    assert lines[at + 1 :] == ["    {{ ctx.approved }} -> allow True", "    ctx.approved is null"]
    (row,) = said("ls")["items"]
    events = run("show", row["execution"], "--events").out.splitlines()
    assert events[1].split()[1:] == ["token.enqueued", "gate", "t1"]
    said("patch", row["execution"], "--set", "approved=true")
    assert said("show", row["execution"])["ctx"]["seen"] == "eve", "the file gave the workload"


def test_a_signal_goes_to_a_task_that_waits(folder: Path) -> None:
    """A signal with a value ends the wait; the value is what was sent."""
    Path("signal.yaml").write_text(SIGNAL, "utf-8")
    name = said("run", "signal.yaml", "--detach")["execution"]
    assert "  a waits for signal go" in run("show", name).out
    said("patch", name, "--signal", "go", "--value", '{"n": 3}')
    seen = said("show", name)
    assert (seen["status"], '{"n": 3}' in json.dumps(seen)) == ("success", True)


@pytest.mark.parametrize("words", [("signal.yaml",), ("asks.yaml",)])
def test_a_run_that_only_others_can_help_gives_the_files_back(
    folder: Path, words: tuple[str, ...]
) -> None:
    """PB-20: alone in a folder the command says what it waits for and ends; it goes on later."""
    Path("signal.yaml").write_text(SIGNAL, "utf-8")
    Path("asks.yaml").write_text(ASKS, "utf-8")
    seen = said("run", *words, code=1)
    assert (seen["status"], len(seen["lacks"])) == ("running", 1)
    lines = run("run", *words, code=1).out.splitlines()
    assert lines[-1].startswith("  hint: it goes on under `tally serve`")
    assert lines[-2] == f"  {seen['lacks'][0]}"


@pytest.mark.clause("X-24")
def test_all_allows_every_kind_that_needs_it(folder: Path) -> None:
    """X-24: `--allow all` is a grant for each kind of tool that asks for one."""
    grants = said("run", "gate.yaml", "--allow", "all", code=1)["grants"]
    assert [row["kind"] for row in grants] == sorted(NEEDS_GRANT)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "none.yaml"), "cli.no_file"),
        (("run", "gate.yaml", "--allow", "magic"), "playbook.bad_allow"),
        (("run", "gate.yaml", "--set", "lonely"), "cli.usage"),
        (("run", "gate.yaml", "--set", "=1"), "cli.usage"),
        (("run", "nobody/knows"), "playbook.unknown"),
    ],
)
def test_wrong_words_are_refused_before_anything_runs(
    folder: Path, words: tuple[str, ...], code: str
) -> None:
    """ST-06: the code and a hint; no execution has begun."""
    done = run(*words, "--json", code=2)
    assert (done.problem["code"], bool(done.problem["hint"])) == (code, True)
    listed = tally("playbook", "ls", "--json")
    assert listed.code != 0 or json.loads(listed.out)["items"] == []
