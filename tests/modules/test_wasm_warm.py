"""An instance in memory that stayed mapped is as fresh as one in new memory (AU-20, AU-22)."""

from __future__ import annotations

import gc
import subprocess
import sys
from ctypes import sizeof
from importlib import import_module
from random import Random
from typing import Any

import pytest
from wasmtime import WasmtimeError

from tallystick.model.abi import Halted, Ran
from tallystick.modules.wasm import WasmLane
from tallystick.modules.wasm_engine import FUEL_SCALE, Compiled, engine, warm_engine
from tallystick.modules.wasm_guest import Guest
from tallystick.modules.wasm_plain import Cap, Plain
from tallystick.modules.wasm_raw import Raw, calls
from tallystick.modules.wasm_run import GuestSettings
from tallystick.modules.wasm_warm import PLACES
from tests.modules.test_wasm import ENTRY, STOPPED
from tests.modules.test_wasm_pool import keeper
from tests.modules.wasm_world import WasmRig, output, says, wat

CAP = Cap(1_000_000 * FUEL_SCALE, 1 << 26)
HIDDEN = "(global $hidden (mut i32) (i32.const 0))"
SPENT = (
    "(local $n i32) (local.set $n (i32.const 1000))"
    " (loop $l (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))"
)
TRAPS = [
    "(drop (i32.load (i32.const 70000)))",
    "(i64.store (i32.const 65530) (i64.const 1))",
    "(i32.store8 offset=4294967295 (i32.const -1) (i32.const 1))",
    "(memory.copy (i32.const 0) (i32.const 65000) (i32.const 1000))",
    "(memory.fill (i32.const 65000) (i32.const 0) (i32.const 1000))",
    "(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))",
    "(drop (i32.rem_u (i32.const 1) (i32.const 0)))",
    "(drop (i32.trunc_f32_s (f32.const nan)))",
    "(drop (i64.trunc_f64_u (f64.const 1e300)))",
]
INDIRECT = "(type $t (func)) (table 2 funcref) (elem (i32.const 0) func 0)"
BODIES = [
    *(body for _, _, body in STOPPED),
    *(ENTRY.format(f"{SPENT} {trap} i64.const 0") for trap in TRAPS),
    *(
        INDIRECT + ENTRY.format(f"(call_indirect (type $t) (i32.const {at})) i64.const 0")
        for at in range(3)
    ),
    says(output(), SPENT),
]


class Nowhere(Compiled):
    """A module whose instances all lie in new memory."""

    @property
    def warm(self) -> Any:
        return self.code


def lanes(rig: WasmRig, code: bytes) -> tuple[WasmLane, WasmLane]:
    """A lane with warm memory and one with new memory, both with an instance for each tick."""
    artifact = str(rig.world.active.catalogue.modules["t/code@1"].artifact)
    cold = GuestSettings(known={artifact: Nowhere(code)}, pooled=False)
    return rig.lane(pooled=False), WasmLane(rig.driver.blobs, cold)


def run(rig: WasmRig, lane: WasmLane, numbers: list[int]) -> list[Ran | Halted]:
    return [rig.tick(lane, number, number) for number in numbers]


@pytest.mark.clause("X-03")
@pytest.mark.parametrize("body", BODIES)
def test_every_end_is_the_same_in_warm_memory(body: str) -> None:
    """AU-22: output, fault, message and fuel do not tell where an instance lay."""
    code = wat(HIDDEN + body)
    rig = WasmRig(code, fuel=100_000)
    warm, cold = lanes(rig, code)
    assert run(rig, warm, [1, 2, 1]) == run(rig, cold, [1, 2, 1])


@pytest.mark.clause("X-02")
def test_nothing_of_an_instance_is_left_in_its_place() -> None:
    """AU-20: modules that would tell of an earlier tick take turns in the same few places."""
    chance = Random(22)
    codes = [wat_with(keeper(), bytes([3, *b"nr", 48 + number])) for number in range(3)]
    rigs = [WasmRig(code) for code in codes]
    pairs = [lanes(rig, code) for rig, code in zip(rigs, codes, strict=True)]
    assert Compiled(codes[0]).warm.engine is warm_engine()
    for _ in range(3 * PLACES):
        at, numbers = chance.randrange(3), [chance.randrange(8) for _ in range(3)]
        warm, cold = pairs[at]
        assert run(rigs[at], warm, numbers) == run(rigs[at], cold, numbers)


def wat_with(code: bytes, custom: bytes) -> bytes:
    """The same module under another hash: with a section that means nothing."""
    return code + bytes([0, len(custom)]) + custom


def test_an_instance_that_is_not_fresh_would_tell() -> None:
    """AU-20 control: the same module in one instance twice answers otherwise."""
    gc.collect()  # the package's own instances leave their places when they are collected
    compiled = Compiled(keeper())
    guest = Guest(compiled, compiled.warm, CAP, calls)
    data = b"\0" * 200
    assert guest.run("flow", data, CAP.fuel) != guest.run("flow", data, CAP.fuel)


TABLE_GROWS = (
    "(if (i32.eq (table.grow (ref.null func) (i32.const 30000)) (i32.const -1)) (then unreachable))"
)


@pytest.mark.parametrize(
    "body",
    [
        f"(table 1 funcref) {says(output(), TABLE_GROWS)}",
        f"{HIDDEN} (table 30000 funcref) {says(output())}",
        f"{HIDDEN} (table 1 funcref) (table 1 funcref) {says(output())}",
        "(global (mut i64) (i64.const 0))" * 70_000 + says(output()),
    ],
)
def test_a_module_that_could_notice_its_place_has_none(body: str) -> None:
    """AU-22: tables that grow or do not fit, and too many globals, run in new memory."""
    code = wat(body)
    assert Compiled(code).warm.engine is engine()
    rig = WasmRig(code)
    assert isinstance(rig.tick(rig.lane(pooled=False), None, 1), Ran)


def test_one_more_than_there_are_places() -> None:
    """AU-22: when all places are taken a tick has the same outcome in new memory."""
    code = wat(HIDDEN + says(output(7)))
    rig, compiled = WasmRig(code), Compiled(code)
    free = rig.tick(rig.lane(pooled=False), None, 1)
    taken = []
    gc.collect()
    while len(taken) <= PLACES:
        try:
            taken.append(Guest(compiled, compiled.warm, CAP, calls))
        except WasmtimeError:
            break
    assert 0 < len(taken) <= PLACES
    assert rig.tick(rig.lane(pooled=False), None, 1) == free
    assert isinstance(free, Ran)


NARROW = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
from tallystick.modules.wasm_engine import interrupt, warm_engine
from tests.modules.wasm_world import WasmRig, output, says, wat
rig = WasmRig(wat("(global (mut i32) (i32.const 0))" + says(output(7))))
interrupt()
print(warm_engine(), rig.tick(rig.lane(pooled=False), None, 1).fuel > 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="places are kept on Linux only")
def test_a_process_with_few_addresses_does_without() -> None:
    """AU-22: the engine would end the process if it could not have its places; it is not asked."""
    command = [sys.executable, "-c", NARROW]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "None True\n"


NAMELESS = """
import sys, wasmtime
sys.modules["wasmtime._bindings"] = None
from tallystick.modules.wasm_engine import warm_engine
from tallystick.modules.wasm_raw import calls
from tests.modules.wasm_world import WasmRig, output, says, wat
rig = WasmRig(wat("(global (mut i32) (i32.const 0))" + says(output(7))))
print(calls.__name__, warm_engine(), rig.tick(rig.lane(pooled=False), None, 1).fuel)
"""


def test_without_the_private_names_the_public_ones_serve() -> None:
    """05 section 5: an engine that renames what it keeps to itself costs time and nothing else."""
    rig = WasmRig(wat(HIDDEN + says(output(7))))
    ran = rig.tick(rig.lane(pooled=False), None, 1)
    command = [sys.executable, "-c", NAMELESS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"Plain None {ran.fuel}\n"


@pytest.mark.parametrize("body", BODIES)
def test_the_layers_agree_on_every_end(body: str) -> None:
    """05 section 5: the raw layer gives what the public interface gives, to the unit of fuel."""
    code = wat(body)
    rig = WasmRig(code, fuel=100_000)
    made = [
        run(rig, WasmLane(rig.driver.blobs, GuestSettings(layer=layer, pooled=pooled)), [3, 2])
        for layer in (Raw, Plain)
        for pooled in (True, False)
    ]
    assert all(each == made[0] for each in made)


def test_the_raw_layer_knows_the_shapes_of_the_engine() -> None:
    """05 section 5: two raw values are as far apart as the layer writes them."""
    names: Any = import_module("wasmtime._bindings")
    assert sizeof(names.wasmtime_val_raw) == 16
    assert names.wasmtime_val_raw.i64.offset == 0
