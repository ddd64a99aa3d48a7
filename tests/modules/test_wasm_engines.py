"""A journal of another engine version is verified in all that does not depend on it (AU-21).

A second version is a folder that `scripts/toolchains` fills, or that TALLY_WASMTIME_OTHER names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.model.abi import Halted, Ran
from tallystick.modules.runners import Runners
from tallystick.modules.wasm_engine import ENGINE
from tests.modules import other_engine
from tests.modules.wasm_world import STEP, WasmRig, output, says, wat

OTHER = "wasmtime/48.0.1/00000000"
# The number of the event's key decides: an input of another length runs on for ever.
PICKY = says(
    output(4),
    "(if (i32.gt_u (local.get 1) (i32.const 90)) (then (loop br 0)))",
)
DEEP = (
    "(func $f (param i32 i32) (result i64) (call $f (i32.const 1) (i32.const 1)))"
    ' (export "flow" (func $f))'
)


class Elsewhere:
    """The same lane as if under another version: other fuel, another name, more patience."""

    def __init__(self, blobs: Any) -> None:
        lane = Runners(blobs)
        self.init, self.pure, self._tick = lane.init, lane.pure, lane.tick

    def tick(self, *given: Any) -> Ran | Halted:
        ran = self._tick(*given)
        if isinstance(ran, Ran):
            return ran._replace(fuel=ran.fuel * 2, engine=OTHER, **self.changed(ran))
        return ran._replace(fuel=ran.fuel * 2, engine=OTHER)

    def changed(self, ran: Ran) -> dict[str, Any]:
        return {}


class Wrong(Elsewhere):
    """And one that answers another thing besides."""

    def changed(self, ran: Ran) -> dict[str, Any]:
        return {"envelope": ran.envelope + b"\0"}


@pytest.mark.clause("X-02")
def test_only_what_the_engine_counts_is_left_out() -> None:
    """AU-21: fuel faults are counted as unverifiable; every other tick is compared and equal."""
    rig = WasmRig(wat(PICKY), fuel=1000)
    for name in ("a", "b", "n" * 40, "c"):
        rig.send(STEP, {"name": name, "n": 1})
    here = rig.verify()
    assert (here.first, here.unverifiable) == (None, 0)
    there = rig.verify(Elsewhere(rig.driver.blobs))
    assert (there.first, there.unverifiable) == (None, 1)
    assert there.ticks == here.ticks
    assert there.root == here.root
    assert ENGINE != OTHER


def test_a_stack_is_the_engines_own_too() -> None:
    """AU-21: how deep a stack goes differs by version, so its overflow is not compared."""
    rig = WasmRig(wat(DEEP))
    rig.send(STEP, {"name": "a", "n": 1})
    assert rig.verify(Elsewhere(rig.driver.blobs)).unverifiable == 1


def test_another_answer_is_still_found() -> None:
    """AU-21 control: under another engine a different output is a difference."""
    rig = WasmRig(wat(PICKY), fuel=1000)
    rig.send(STEP, {"name": "a", "n": 1})
    found = rig.verify(Wrong(rig.driver.blobs)).first
    assert found is not None
    assert found.field == "output"


# ---- two real versions, each in a process of its own -------------------------------------------

ROOT = Path(__file__).parent.parent.parent
TOOLCHAIN = ROOT / ".venv" / "toolchains" / "wasmtime"
SECOND = os.environ.get("TALLY_WASMTIME_OTHER") or (str(TOOLCHAIN) if TOOLCHAIN.is_dir() else None)


def second(*asked: str) -> dict[str, Any]:
    """What the program prints under the other engine version."""
    path = os.pathsep.join([str(SECOND), str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", other_engine.__name__, *asked],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["engine"] != ENGINE, f"{SECOND} holds the engine version that runs here"
    return found


@pytest.fixture
def there() -> Callable[..., dict[str, Any]]:
    if SECOND is None:
        wanted = "scripts/toolchains gets one, TALLY_WASMTIME_OTHER names its folder"
        pytest.skip(f"no second engine version here ({wanted}): two versions were NOT compared")
    return second


@pytest.mark.clause("X-02")
def test_a_journal_of_here_is_verified_by_another_version(there: Any, tmp_path: Path) -> None:
    """AU-21: of six ticks the ends of fuel and stack are unverifiable, four are compared."""
    file = tmp_path / "world"
    wrote = other_engine.write(file)
    here, elsewhere = other_engine.verified(file), there("verify", str(file))
    assert (here["differs"], here["ticks"], here["unverifiable"]) == (None, 6, 0)
    assert (elsewhere["differs"], elsewhere["ticks"], elsewhere["unverifiable"]) == (None, 6, 2)
    assert here["root"] == elsewhere["root"] == wrote["root"]


@pytest.mark.clause("X-02")
def test_a_journal_of_another_version_is_verified_here(there: Any, tmp_path: Path) -> None:
    """AU-21: the other way round too: recorded faults are counted, never overwritten."""
    file = tmp_path / "world"
    wrote = there("write", str(file))
    here = other_engine.verified(file)
    assert (here["differs"], here["ticks"], here["unverifiable"]) == (None, 6, 2)
    assert here["root"] == wrote["root"]


def test_another_version_that_answers_otherwise_is_found(there: Any, tmp_path: Path) -> None:
    """AU-21 control: a planted difference under the other version is a difference of output."""
    file = tmp_path / "world"
    other_engine.write(file)
    assert there("verify", str(file), "--wrong")["differs"] == "output"
