"""Which path runs is told wherever somebody asks for it, with the way to the other one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tallystick
from tallystick.node import doctor, path
from tallystick.node.config import config_of

SOURCE = Path(tallystick.__file__).parents[1]


def version(*words: str, **more: str) -> str:
    """What a new process says about itself."""
    command = [sys.executable, "-m", "tallystick", "--version", *words]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **more}
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_the_version_says_which_path_runs() -> None:
    """11 section 4: people and programs see which path runs, and how to get the compiled one."""
    told = json.loads(version("--json", TALLY_PURE="1"))
    assert told["version"] == tallystick.__version__
    assert (told["path"], "TALLY_PURE" in told["compiled_by"]) == ("pure", True)
    assert version(TALLY_PURE="1") == f"tally (pure), version {tallystick.__version__}\n"


@pytest.mark.parametrize(("found", "name"), [("", "pure"), ("codec", "codec"), ("rooms", None)])
def test_the_doctor_names_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str, name: str | None
) -> None:
    """11 section 4: the pure path is no fault; the way to the compiled one is told."""
    monkeypatch.setattr(path, "_COMPILED", found)
    monkeypatch.delenv("TALLY_PURE", raising=False)
    config = config_of(tmp_path, {}, {})
    (check,) = [check for check in doctor.examine(config) if check.id == "path"]
    assert check.level == doctor.OK
    if name is None:
        assert (check.found, check.fix) == ("compiled", None)
    else:
        assert check.found.startswith(f"{name};")
        assert check.fix is not None
        assert "make fast-wheel" in check.fix
        assert check.fix in check.found, "the table shows what was found alone"
