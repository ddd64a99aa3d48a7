"""Types are a promise to users: lines that must be refused are refused (ST-05)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLANTED = Path("tests/typing/must_fail.py")


def reported(path: Path) -> dict[int, set[str]]:
    """The errors that mypy reports in a file: line -> codes."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
    ]
    command += ["--cache-dir", ".mypy_cache/typing", "--config-file=", "--python-version", "3.11"]
    done = subprocess.run(
        [*command, "--follow-imports=silent", str(path)],
        cwd=ROOT,
        env={"MYPYPATH": "src", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    found: dict[int, set[str]] = {}
    for line in done.stdout.splitlines():
        if match := re.match(rf"{re.escape(str(path))}:(\d+): error: .* (\[[a-z-]+\])$", line):
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def test_lines_that_must_be_errors_are_reported() -> None:
    """ST-05: each marked line is refused with its code, and no other line is."""
    expected = {}
    for number, line in enumerate((ROOT / PLANTED).read_text("utf-8").splitlines(), 1):
        if match := re.search(r"# error: (\[[a-z-]+\])$", line):
            expected[number] = {match[1]}
    assert len(expected) >= 10
    assert reported(PLANTED) == expected
