"""What brings a bug back exists: a line of BUGS.md that names nothing shows nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FORM = re.compile(r"`(tests/[\w/]+\.(?:py|json))(?:::(\w+))?`")


def lines() -> dict[str, str]:
    """The last cell of every line, by its number."""
    text = (ROOT / "BUGS.md").read_text("utf-8")
    rows = [line.strip("|").split("|") for line in text.splitlines() if re.match(r"\| \d", line)]
    return {row[0].strip(): row[-1].strip() for row in rows}


def problem(cell: str) -> str | None:
    """Why a line does not lead to what brings its bug back; None when it does."""
    found = FORM.match(cell)
    if found is None:
        return "no test and no trace is named"
    path = ROOT / found[1]
    if not path.is_file():
        return f"no file {found[1]}"
    if found[2] is None:
        return None if path.suffix == ".json" else "no test of the file is named"
    if not re.search(rf"^(?:async )?def {found[2]}\(", path.read_text("utf-8"), re.MULTILINE):
        return f"no test {found[2]} in {found[1]}"
    return None


def test_every_bug_can_be_brought_back() -> None:
    """RL-21: each line names a test or a trace that is there."""
    wrong = {number: why for number, cell in lines().items() if (why := problem(cell))}
    assert len(lines()) >= 49
    assert wrong == {}


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("seen once on a Tuesday", "no test and no trace is named"),
        ("`tests/kernel/test_gone.py::test_it`", "no file tests/kernel/test_gone.py"),
        ("`tests/test_bugs.py::test_gone`", "no test test_gone in tests/test_bugs.py"),
        ("`tests/test_bugs.py`", "no test of the file is named"),
    ],
)
def test_a_line_that_leads_nowhere_is_found(cell: str, said: str) -> None:
    """RL-21, control: a file or a test that is not there is said."""
    assert problem(cell) == said
