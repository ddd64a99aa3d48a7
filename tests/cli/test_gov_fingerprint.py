"""A passed proof accepts the fingerprint of the sources it was about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import Ran, tally
from tests.workflow.test_flows import program

BASE = """\
got = (await effect(Work(n=1))).n
note = await receive(Note)
return Out(text=f"{got} {note.n}")"""


# tidy: one story, told in its order.
@pytest.mark.clause("K-20")
def test_prove_updates_the_fingerprint(tmp_path: Path) -> None:
    """AU-17: a new order of commands is TL501; a proof of these very sources explains it.

    Cells that diverge, or other sources than those proved, explain nothing.
    """
    app = tmp_path / "app.py"
    data = str(tmp_path / ".tally")

    def run(*words: str) -> Ran:
        return tally(*words, "--data", data, "--json")

    def ok(*words: str) -> Any:
        done = run(*words)
        assert done.code == 0, done.err
        return done.value

    def proposed(body: str) -> str:
        app.write_text(program(body))
        found: str = ok("gov", "propose", "--bundle", str(app))["proposal"]
        return found

    app.write_text(program(BASE))
    ok("world", "create", "main", "--bundle", str(app))
    assert tally("lint", str(app), "--accept").code == 0
    ok("send", "t/Go@1", json.dumps({"key": "a"}))
    # The cell waits for its first effect: what comes behind it has not run yet.
    after = proposed(BASE.replace("note = await", "await effect(Undo(n=3))\nnote = await"))
    assert tally("lint", str(app), "--check").code == 2
    found = ok("gov", "prove", after, "--accept", str(app))
    assert found["verdicts"]["identical"] == 1
    assert tally("lint", str(app), "--check").code == 0
    before = proposed(BASE.replace("Work(n=1)", "Work(n=2)"))
    assert run("gov", "prove", before, "--accept", str(app)).problem["code"] == "gov.not_proved"
    assert run("gov", "prove", after, "--accept", str(app)).problem["code"] == "gov.other_sources"
    assert tally("lint", str(app), "--check").code == 2
