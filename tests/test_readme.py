"""The README says what the program prints."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def demo(*more: str) -> str:
    command = [sys.executable, "-m", "tallystick", "demo", *more]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return done.stdout


def masked(text: str) -> str:
    """A session without what differs from run to run: hashes, and where a record stands."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "#", text)
    text = re.sub(r"[0-9a-f]{64}|\b[0-9a-f]{8}\b", "#", text)
    text = re.sub(r"(ticks_per_s +)[\d.]+", r"\1#", text)
    return re.sub(r"^ +\d+", "N", text, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.clause("K-25")
def test_the_session_is_what_the_program_prints() -> None:
    """ST-11: the block after `make demo` in the README is what `tally demo` prints."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```\n\$ make demo\n(.*?)\n```", readme, flags=re.DOTALL)
    assert found is not None, "the README shows the demonstration"
    assert masked(found.group(1)) == masked(demo().rstrip())


@pytest.mark.slow
@pytest.mark.clause("K-25")
def test_the_first_session_is_what_the_commands_print() -> None:
    """ST-11: the README's program, served, killed and replayed by the commands it shows."""
    script: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "readme"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program, shown = script["PROGRAM"].search(readme), script["FIRST"].search(readme)
    assert len(program.group(1).splitlines()) <= 18, "a newcomer reads it in a minute"
    assert masked(script["first"](program.group(1))) == masked(shown.group(0))


def test_a_session_that_differs_is_found() -> None:
    """ST-11 control: masking leaves the words; another outcome is another text."""
    line = "     10   settled ok by http.request 04b3363d"
    assert masked(line) == "N   settled ok by http.request #"
    assert masked(line) != masked(line.replace("ok", "error"))
