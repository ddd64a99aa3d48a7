"""Determinism: the same world and input give the same frame everywhere; what does not is found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

from tallystick.model.records import Ticked
from tallystick.modules.python import Outcome, PythonRunner
from tests.rig import Rig, check
from tests.worlds import GO, LAB, go, lab_documents, lab_function

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = "tests.kernel.print_frames"
CODE = ("t/code@1", "lab")


def run(
    *words: str, python: str = sys.executable, given: str | None = None, **surroundings: str
) -> str:
    """What the program prints in these surroundings."""
    packages = sysconfig.get_path("purelib")
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), packages]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        **surroundings,
    }
    command = [python, "-m", PROGRAM, *words]
    ran = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        cwd=ROOT,
        input=given,
    )
    return ran.stdout.strip()


def python_of(version: str) -> str | None:
    """An interpreter of that version that can load what the product needs, if there is one."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for candidate in (shutil.which(f"python{version}"), *map(str, kept)):
        if candidate is None:
            continue
        probe = "import sys, jinja2; print('%d.%d' % sys.version_info[:2])"
        packages = sysconfig.get_path("purelib")
        ran = subprocess.run(
            [candidate, "-c", probe],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": packages},
        )
        if ran.returncode == 0 and ran.stdout.strip() == version:
            return candidate
    return None


@pytest.fixture(scope="module")
def plain() -> str:
    """Every frame and root, in this interpreter's own surroundings."""
    return run("print")


# ---- KN-01 ----------------------------------------------------------------------------------


@pytest.mark.clause("K-01", "X-02")
@pytest.mark.invariant("I2", "I14")
@pytest.mark.parametrize(
    "surroundings",
    [
        {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
        {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "Asia/Kolkata"},
        {"PYTHONHASHSEED": "4242", "LC_ALL": "C", "TZ": "America/Lima", "TALLY_PURE": "1"},
    ],
)
def test_surroundings(plain: str, surroundings: dict[str, str]) -> None:
    """KN-01: hash seed, locale, time zone and codec change no frame and no root."""
    lines = plain.splitlines()
    assert len(lines) > 50
    assert run("print", **surroundings) == plain


@pytest.mark.clause("K-01", "X-02")
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_python_version(plain: str, version: str) -> None:
    """KN-01: every supported CPython gives the same frames."""
    python = python_of(version)
    if python is None:
        pytest.skip(f"KN-01 NOT SHOWN for CPython {version}: no interpreter with the dependencies")
    assert run("print", python=python) == plain


# ---- KN-03 ----------------------------------------------------------------------------------


@pytest.mark.clause("X-02")
@pytest.mark.invariant("I15")
def test_set_order_is_found() -> None:
    """KN-03: the order of a set, let out by a reducer, is found under another hash seed.

    The control sorts first, and verifies under any seed.
    """
    kept = run("keep", "sets", PYTHONHASHSEED="1")
    seq, workflow, field = json.loads(run("verify", "sets", given=kept, PYTHONHASHSEED="2"))
    assert workflow == LAB
    assert field in ("output", "after", "state")
    frames = json.loads(kept)["frames"]
    assert seq in [frame[0] for frame in frames]
    assert json.loads(run("verify", "sets", given=kept, PYTHONHASHSEED="1")) is None
    clean = run("keep", PYTHONHASHSEED="1")
    assert json.loads(run("verify", given=clean, PYTHONHASHSEED="2")) is None


class Counter:
    """State that a module keeps for itself: what no journal holds."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, following: Any, _value: Any, _ctx: Any) -> Outcome:
        self.count += 1
        following["log"].append(str(self.count))
        return Outcome(following)


def clock_reader(following: Any, _value: Any, _ctx: Any) -> Outcome:
    following["log"].append(str(time.perf_counter_ns()))
    return Outcome(following)


def effect_counter() -> Any:
    """A defect that shows in what leaves, not in the state."""
    count = Counter()

    def deed(following: Any, _value: Any, _ctx: Any) -> Outcome:
        count.count += 1
        event = {"schema": GO, "value": go("b", "note", count.count)}
        return Outcome(following, events=[event])

    return deed


@pytest.mark.clause("X-02")
@pytest.mark.invariant("I15")
@pytest.mark.parametrize(
    ("name", "deed"),
    [("time", clock_reader), ("global", Counter()), ("event", effect_counter())],
)
def test_planted(name: str, deed: Any) -> None:
    """KN-03: a reducer that reads a clock or keeps a counter is found at its seq, with the field.

    Nothing behind the difference is looked at: verification stops there.
    """
    rig = Rig(lab_documents(), {CODE: lab_function(bad=deed)})
    rig.send(GO, go("a"))
    rig.send(GO, go("a", "bad"))
    rig.send(GO, go("c"))
    found = rig.verify().first
    assert found is not None
    ticks = [r for r in rig.records(Ticked) if r.events or name != "event"]
    planted = ticks[1] if name != "event" else ticks[0]
    where = rig.records().index(planted) + 1
    assert found.seq == where
    assert found.field in ("output", "size", "after", "state")
    assert (found.workflow, found.key) == (LAB, planted.key)
    assert found.expected != found.got
    error = found.error()
    assert error.exit_code == 4
    assert error.where["seq"] == where
    assert error.hint


@pytest.mark.clause("X-02")
def test_control() -> None:
    """KN-03, control: the same world without the defect verifies, and counts what it ran."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    for i in range(20):
        rig.send(GO, go(f"c{i % 3}", "note", i))
    done = rig.verify()
    assert done.first is None
    assert done.ticks == 20
    assert done.root == rig.root()
    check(rig)


@pytest.mark.clause("X-02")
def test_other_code_is_found() -> None:
    """KN-03: a journal verified with code that decides otherwise differs, and is not rewritten."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    rig.send(GO, go("a"))
    rig.send(GO, go("a", "late"))
    before = rig.root()
    other = lab_function(late=lambda following, *_: Outcome(following, status="completed"))
    found = rig.verify(PythonRunner({CODE: other})).first
    assert found is not None
    assert found.field == "status"
    assert (found.expected, found.got) == ("running", "completed")
    raising = lab_function(late=lambda *_: 1 // 0)
    found = rig.verify(PythonRunner({CODE: raising})).first
    assert found is not None
    assert (found.field, found.expected, found.got) == ("record", "Ticked", "WorkflowFaulted")
    assert rig.root() == before
    check(rig)


@pytest.mark.clause("K-19")
@pytest.mark.invariant("I2")
def test_opening_runs_no_code() -> None:
    """D2: opening folds records: a world opens with modules that cannot run at all."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    for i in range(5):
        rig.send(GO, go("a", n=i))
    rig.runner = PythonRunner({})
    assert rig.reopened().root() == rig.root()
