"""`tally playbook` as people use it, without a running node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import tally

GATE = """apiVersion: tally/v1
kind: Playbook
metadata: {name: gate}
executor: {spec: {final_step: report}}
workload: {who: nobody}
workflow:
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ ctx.approved }}", then: {allow: true}}]}}}
    tool: {kind: noop}
    set_ctx: {seen: "{{ who }}"}
  - {step: report, tool: {kind: noop}}
"""


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "gate.yaml"
    path.write_text(GATE, "utf-8")
    return str(path)


def said(*words: str) -> Any:
    ran = tally(*words, "--json")
    assert ran.code == 0, ran.err
    return ran.value


@pytest.mark.clause("N-07", "N-08", "N-15")
def test_an_approval_by_a_patch(book: str) -> None:
    """PB-08: `run` ends with 1 while it waits, says for what; a patch with a reason opens it."""
    ran = tally("playbook", "run", book, "--set", "who=ana", "--json")
    assert ran.code == 1
    assert (ran.value["status"], ran.value["step_runs"]) == ("waiting", {})
    assert ran.value["pending"] == [{"token": "t1", "step": "gate", "waits": ["ctx"]}]
    name = ran.value["execution"]
    assert [row["status"] for row in said("playbook", "ls")["items"]] == ["waiting"]
    said("playbook", "patch", name, "--set", "approved=true", "--reason", "checked")
    seen = said("playbook", "show", name)
    assert (seen["status"], seen["step_runs"]) == ("success", {"gate": 1, "report": 1})
    assert seen["ctx"] == {"approved": True, "seen": "ana"}
    again = tally("playbook", "patch", name, "--set", "approved=true", "--json")
    assert (again.code, again.problem["code"]) == (1, "execution.over")


@pytest.mark.clause("N-15", "X-17")
def test_cancel_runs_no_final_step(book: str) -> None:
    """PB-24: a waiting execution that is cancelled is over at once."""
    name = said("playbook", "run", book, "--detach")["execution"]
    said("playbook", "cancel", name, "--reason", "enough")
    seen = said("playbook", "show", name)
    assert (seen["status"], seen["step_runs"]) == ("cancelled", {})


@pytest.mark.clause("N-01")
def test_check_and_graph(book: str) -> None:
    """PB-01, PB-18: exit 2 with code, line and hint; a good file ends with 0 and can be drawn."""
    found = said("playbook", "check", book)
    assert (found["ok"], [row["code"] for row in found["findings"]]) == (True, ["P308"])
    text = said("playbook", "graph", book)["text"]
    assert text.splitlines()[:2] == ["flowchart TD", '  s0["gate (admit)"]']
    Path(book).write_text(GATE + "colour: red\n", "utf-8")
    ran = tally("playbook", "check", book, "--json")
    assert ran.code == 2
    (found,) = ran.value["findings"]
    assert (found["code"], found["line"], bool(found["hint"])) == ("P105", 12, True)
    refused = tally("playbook", "run", book, "--json")
    assert (refused.code, refused.problem["code"]) == (2, "playbook.invalid")
    assert tally("playbook", "ls", "--json").value == {"items": []}
