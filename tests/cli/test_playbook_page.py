"""The page about playbooks is true: its playbook and its commands, one after the other."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import tally

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/play-a-playbook.md"
CHILD = """apiVersion: tally/v1
kind: Playbook
metadata: {name: child, path: PATH}
workflow: [{step: a, tool: {kind: noop}}]
"""
# What the page says -> how it ends; None for a command that is played elsewhere in this file.
SAID: dict[str, int | None] = {
    "tally playbook check release.yaml": 0,
    "tally playbook run release.yaml --set repos='[\"core\"]' --allow python": None,
    "tally -w plays playbook run child.yaml": 0,
    "tally playbook show ID": 0,
    "tally playbook graph release.yaml": 0,
    "tally playbook ls": 0,
    "tally playbook show ID --events": 0,
    "tally playbook publish child.yaml": 0,
    "tally playbook run PATH": 0,
    'tally playbook patch ID --set approved=true --reason "checked"': 0,
    'tally gov revoke tool.python@ID --reason "no more"': 0,
    "tally playbook cancel ID": None,
}


def commands() -> list[str]:
    """Every command that the page shows as one."""
    found = re.findall(r"`(tally [^`]+)`", PAGE.read_text("utf-8").replace("\n", " "))
    return list(dict.fromkeys(found))


def test_the_page_and_this_test_say_the_same() -> None:
    """X-25: no command of the page is without its line here, and the reverse."""
    assert sorted(commands()) == sorted(SAID)


# tidy: the page, from its beginning to its end.
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.clause("N-01", "N-08", "X-25")
def test_the_page_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-25: the playbook waits at its gate, is opened as told, and every command works."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    Path("release.yaml").write_text(block, "utf-8")
    Path("child.yaml").write_text(CHILD, "utf-8")
    words = shlex.split("playbook run release.yaml --set repos='[\"core\"]' --allow python --json")
    ran = tally(*words)
    assert (ran.code, ran.value["status"]) == (1, "waiting"), ran.err
    assert ran.value["step_runs"] == {"collect": 1}
    name = ran.value["execution"]

    def follow(said: str) -> Any:
        words = shlex.split(said.replace("ID", name))[1:]
        done = tally(*words, "--json")
        assert done.code == SAID[said], (said, done.err)
        return done.value

    for said in commands():
        if SAID[said] is not None:
            follow(said)
    seen = follow("tally playbook show ID")
    assert (seen["status"], seen["step_runs"]["publish"]) == ("success", 1)
    assert seen["grants"][0]["revoked"] == "no more"
    again = tally("playbook", "run", "release.yaml", "--detach", "--json").value["execution"]
    assert tally("playbook", "cancel", again, "--json").code == 0


def test_a_tool_that_was_not_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-24: people are told which kind of tool to allow, and by which name it may be revoked."""
    monkeypatch.chdir(tmp_path)
    text = CHILD.replace("{kind: noop}", "{kind: shell, cmd: [echo, hello]}")
    Path("a.yaml").write_text(text, "utf-8")
    ran = tally("playbook", "run", "a.yaml")
    assert ran.code == 1
    assert "--allow shell" in ran.out
    waiting = text.replace(
        "{kind: shell", "{kind: wait, signal: go}}, {step: b, tool: {kind: shell"
    )
    Path("b.yaml").write_text(waiting, "utf-8")
    ran = tally("playbook", "run", "b.yaml", "--allow", "shell", "--detach", "--json")
    shown = tally("playbook", "show", ran.value["execution"])
    assert f"tool.shell@{ran.value['execution']}" in shown.out
