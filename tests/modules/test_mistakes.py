"""The first ten minutes: every slip is answered with what, where and what to do (AU-15, D13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.errors import BadDefinition
from tallystick.modules.lint import lint
from tallystick.modules.source import bundle_of
from tests.cli.runs import tally
from tests.modules.mistakes import HELLO, MISTAKES, PAYS, WAITS


@pytest.mark.clause("K-05")
@pytest.mark.parametrize("slip", MISTAKES)
def test_a_slip_is_answered(slip: str) -> None:
    """AU-15: its own finding comes, at its line, names the thing, and says what to write."""
    made = MISTAKES[slip]
    found = lint({"app.py": made.source})
    near = [each for each in found if (each.code, each.line) == (made.code, made.line)]
    assert near, found
    assert any(made.says in each.message and made.hint in each.hint for each in near), near


@pytest.mark.parametrize("source", [HELLO, PAYS, WAITS], ids=["hello", "pays", "waits"])
def test_without_the_slip_nothing_is_said(source: str) -> None:
    """AU-15 control: the programs themselves have no finding, and load."""
    assert lint({"app.py": source.encode()}) == []
    assert bundle_of({"app.py": source.encode()}).manifest["workflows"]


@pytest.mark.parametrize("slip", MISTAKES)
def test_what_cannot_be_loaded_says_where(slip: str) -> None:
    """D13: a refusal of the sources names the line, or the name that it is about, and a way out."""
    why = refused(MISTAKES[slip].source)
    if why is not None:
        assert why.hint
        assert int(why.where.get("line", 0)) > 0 or why.code in _WHOLE, why.where


def test_a_command_says_where(tmp_path: Path) -> None:
    """D13: a command that loads sources answers with file, line, what, and what to do."""
    path = tmp_path / "hello.py"
    path.write_bytes(MISTAKES["key misspelt"].source)
    done = tally("bundle", "show", str(path))
    assert done.code == 2
    assert done.err.splitlines() == [
        "hello.py:7: routing.key_path: greeter.key: Greet has no field nmae to be the key",
        "hint: did you mean name?",
    ]


def refused(source: bytes) -> BadDefinition | None:
    try:
        bundle_of({"app.py": source})
    except BadDefinition as why:
        return why
    return None


_WHOLE = {"lane.no_bundle", "lane.mutable_global"}  # they name what they are about
