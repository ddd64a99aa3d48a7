"""A small WASM history: written under one engine version, verified under another (AU-21).

`python -m tests.modules.other_engine write FILE` plays it and exports the world;
`... verify FILE [--wrong]` runs every tick of an export again and prints what it found as JSON.
With `--wrong` a defect is planted: the module seems to answer another thing here.
Which engine that is, is decided by the path that the interpreter was started with.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tallystick.journal.export import export_bundle
from tallystick.journal.imports import opened
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.replay import open_world, verify
from tallystick.model.abi import Halted, Ran, Runner
from tallystick.modules.runners import Runners
from tallystick.modules.wasm_engine import ENGINE
from tests.modules.wasm_world import STEP, WasmRig, output, says, wat

# The length of the input decides: a short name is counted, a long one goes wrong in its own way.
DEEP = "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))"
BEFORE = (
    "(if (i32.gt_u (local.get 1) (i32.const 400)) (then unreachable))"
    "(if (i32.gt_u (local.get 1) (i32.const 300)) (then (drop (call $deep (i32.const 1)))))"
    "(if (i32.gt_u (local.get 1) (i32.const 200)) (then (loop br 0)))"
)
# Two ticks that are counted, the end of the fuel, of the stack, a trap of the module's own, a tick.
NAMES = ("a", "b", "n" * 90, "n" * 140, "n" * 190, "c")


class Wrong:
    """The lane with a planted defect: one byte more than the module said."""

    def __init__(self, blobs: Any) -> None:
        lane = Runners(blobs)
        self.init, self.pure, self._tick = lane.init, lane.pure, lane.tick

    def tick(self, *given: Any) -> Ran | Halted:
        ran = self._tick(*given)
        return ran._replace(envelope=ran.envelope + b"\0") if isinstance(ran, Ran) else ran


def write(path: Path) -> dict[str, Any]:
    """Play the history under the engine of this process, and export the world."""
    rig = WasmRig(wat(DEEP + says(output(4), BEFORE)), fuel=10_000)
    for name in NAMES:
        rig.send(STEP, {"name": name, "n": 1})
    with path.open("wb") as out:
        export_bundle(rig.journal, rig.world.id, out)
    return {"engine": ENGINE, "root": rig.root().hex()}


def verified(path: Path, *, wrong: bool = False) -> dict[str, Any]:
    """What running an export again gives under the engine of this process."""
    with opened(path) as (journal, world_id):
        blobs = StagedBlobs(journal, world_id)
        runner: Runner = Wrong(blobs) if wrong else Runners(blobs)
        found = verify(open_world(world_id, [], blobs, runner), journal.read(world_id))
    return {
        "engine": ENGINE,
        "ticks": found.ticks,
        "unverifiable": found.unverifiable,
        "root": found.root.hex(),
        "differs": None if found.first is None else found.first.field,
    }


if __name__ == "__main__":
    verb, file, *more = sys.argv[1:]
    made = write(Path(file)) if verb == "write" else verified(Path(file), wrong="--wrong" in more)
    print(json.dumps(made))
