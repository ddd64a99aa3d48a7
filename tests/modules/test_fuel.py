"""Fuel is the same number on every CPython (AU-13).

Other interpreters are looked for on the path; `TALLY_PYTHONS` names more, separated by colons.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from tests.modules.print_fuel import measured

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(__file__).parent / "print_fuel.py"
# Of 200 programs, as CPython 3.11.7, 3.12.1 and 3.13.0 print it.
GOLDEN = "581197ca0ea0b09aa5247f6eb4ee2d0690851c82b17d3d62231e221becb2dded"


def others() -> list[str]:
    """Interpreters beside this one."""
    found = [shutil.which(f"python3.{minor}") for minor in (11, 12, 13)]
    named = os.environ.get("TALLY_PYTHONS", "").split(":")
    return [path for path in (*found, *named) if path]


@pytest.mark.clause("X-03", "X-04")
def test_fuel_of_200_programs_is_golden() -> None:
    """AU-13: result and fuel of 200 random programs, those that run out of it too."""
    printed = json.dumps([measured(seed) for seed in range(200)]) + "\n"
    assert sha256(printed.encode()).hexdigest() == GOLDEN


def printed_by(python: str, program: Path) -> bytes:
    """What another interpreter prints; skips where there is none that can."""
    if not python:
        pytest.skip("no other CPython here: name some in TALLY_PYTHONS")
    surroundings = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    known = subprocess.run([python, "-c", ""], env=surroundings, capture_output=True, check=False)
    if known.returncode != 0:
        pytest.skip(f"{python} is a name without an interpreter behind it")
    done = subprocess.run(
        [python, str(program)], env=surroundings, capture_output=True, check=False
    )
    if done.returncode != 0 and b"ModuleNotFoundError" in done.stderr:
        pytest.skip(f"{python} lacks a dependency")
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("python", others() or [""])
def test_other_interpreters_count_alike(python: str) -> None:
    """AU-13: an interpreter of another version prints the same bytes."""
    assert sha256(printed_by(python, PROGRAM)).hexdigest() == GOLDEN
