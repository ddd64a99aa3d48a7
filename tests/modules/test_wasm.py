"""The WASM lane: the ABI, what is refused at load, and what every trap becomes (05 section 5)."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

import pytest
from wasmtime import wat2wasm

from tallystick.errors import BadDefinition
from tallystick.model.abi import Halted, Ran
from tallystick.model.records import Ticked, WorkflowFaulted
from tallystick.modules.wasm import WasmLane
from tallystick.modules.wasm_binary import SIZE_MAX
from tallystick.modules.wasm_engine import ENGINE, Compiled
from tallystick.modules.wasm_plain import Plain
from tallystick.modules.wasm_raw import Raw, calls
from tallystick.modules.wasm_run import GuestSettings
from tallystick.values import canon
from tests.modules.wasm_world import FLOW, STEP, WasmRig, output, says, wat

FINE = wat(says(output(5)))


@pytest.mark.clause("X-11")
def test_a_module_ticks_a_world() -> None:
    """X-11: a module's answer becomes the cell's state, with engine and fuel on record; replays."""
    rig = WasmRig(FINE)
    rig.send(STEP, {"name": "a", "n": 1})
    assert rig.state(FLOW, "a") == {"total": 5}
    (ticked,) = [r for r in rig.records() if isinstance(r, Ticked)]
    assert ticked.engine == ENGINE
    assert ticked.engine.startswith("wasmtime/")
    assert ticked.fuel > 0
    assert rig.verify().first is None


def component() -> bytes:
    return bytes(wat2wasm("(component)"))


def many_functions(count: int) -> bytes:
    return wat("(func)" * count + says(output()))


LOOSE = '(func (export "flow") (param i32 i32) (result i64) i64.const 0)'
IMPORT = '(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))'
REFUSED = [
    ("wasm.import", bytes(wat2wasm(f"(module {IMPORT})"))),
    ("wasm.import", bytes(wat2wasm('(module (import "env" "memory" (memory 1)))'))),
    ("wasm.export", bytes(wat2wasm(f"(module {LOOSE})"))),
    ("wasm.export", bytes(wat2wasm(f'(module (memory (export "memory") 1) {LOOSE})'))),
    ("wasm.export", wat('(func (export "_initialize") (param i32))')),
    ("wasm.feature", bytes(wat2wasm('(module (memory (export "memory") 1 1 shared))'))),
    ("wasm.feature", bytes(wat2wasm('(module (memory (export "memory") i64 1))'))),
    ("wasm.feature", bytes(wat2wasm('(module (memory (export "memory") 1) (memory 1))'))),
    ("wasm.feature", wat("(func $f (return_call $f))")),
    ("wasm.feature", wat("(tag) (func (throw 0))")),
    ("wasm.feature", wat("(type (struct))")),
    ("wasm.too_large", FINE + b"\0" * SIZE_MAX),
    ("wasm.too_large", many_functions(20_001)),
    ("wasm.invalid", b"(module)"),
    ("wasm.invalid", component()),
    ("wasm.invalid", FINE[:40]),
    ("wasm.invalid", b""),
]


@pytest.mark.clause("X-12")
@pytest.mark.parametrize(("code", "data"), REFUSED, ids=lambda each: str(each)[:24])
def test_what_leaves_the_abi_is_refused_at_load(code: str, data: bytes) -> None:
    """AU-19: imports, WASI, threads, memory64, size and other features are refused by code."""
    with pytest.raises(BadDefinition) as caught:
        Compiled(data)
    assert caught.value.code == code
    assert caught.value.hint


def test_a_refused_module_is_a_fault_and_the_world_goes_on() -> None:
    """AU-19: a tick of a module that cannot be loaded faults; another cell is served as before."""
    rig = WasmRig(bytes(wat2wasm(f"(module {IMPORT})")))
    for name in "ab":
        rig.send(STEP, {"name": name, "n": 1})
    faults = [r for r in rig.records() if isinstance(r, WorkflowFaulted)]
    assert [f.code for f in faults] == ["exception", "exception"]
    assert faults[0].message.startswith("wasm.import: ")
    assert rig.verify().first is None


ENTRY = '(func (export "flow") (param i32 i32) (result i64) {})'
DEEP = (
    "(func $f (param i32 i32) (result i64) (call $f (i32.const 1) (i32.const 1)))"
    ' (export "flow" (func $f))'
)
GROW = (
    "(drop (memory.grow (i32.const 4096))) (i32.store (i32.const 70000) (i32.const 1)) i64.const 0"
)
STOPPED = [
    ("fuel", "", ENTRY.format("(loop br 0) i64.const 0")),
    ("fuel", "", "(func $s (loop br 0)) (start $s)" + LOOSE),
    ("fuel", "", '(func (export "_initialize") (loop br 0))' + LOOSE),
    ("trap", "stack_overflow", DEEP),
    ("trap", "memory_out_of_bounds", ENTRY.format(GROW)),
    ("trap", "unreachable", ENTRY.format("unreachable")),
    (
        "trap",
        "integer_division_by_zero",
        ENTRY.format("(i64.div_s (i64.const 1) (i64.const 0))"),
    ),
    ("bad_output", "memory", ENTRY.format("i64.const -1")),
    ("bad_output", "", LOOSE),
    ("bad_output", "", says(b"\xd9\xd9\xf7\xa1")),
    ("bad_output", "", says(canon.encode({"state": None, "status": "asleep"}))),
    ("bad_output", "", says(canon.encode({"state": canon.encode({"total": "many"})}))),
    ("exception", "wasm.export", says(output(), name="other")),
]


@pytest.mark.clause("X-03", "X-04")
@pytest.mark.parametrize(("code", "word", "body"), STOPPED)
def test_every_way_to_misbehave_is_a_fault(code: str, word: str, body: str) -> None:
    """AU-19: loop, recursion, growth, traps and bad answers fault with a code, alike at replay.

    The bound on time is ten times the design's, for a busy machine.
    """
    rig = WasmRig(wat(body), fuel=200_000, memory_bytes=1 << 16)
    begun = perf_counter()
    rig.send(STEP, {"name": "a", "n": 1})
    assert perf_counter() - begun < 2
    (fault,) = [r for r in rig.records() if isinstance(r, WorkflowFaulted)]
    assert fault.code == code
    assert word in fault.message
    assert (fault.limit is not None) == (code == "fuel")
    assert rig.verify().first is None
    assert rig.cell(FLOW, "a") is not None


def test_an_alloc_that_points_nowhere_is_a_fault() -> None:
    """AU-19: memory is written only where the module has some."""
    body = (
        '(memory (export "memory") 1)'
        '(func (export "alloc") (param i32) (result i32) i32.const -8)' + LOOSE
    )
    rig = WasmRig(bytes(wat2wasm(f"(module {body})")))
    rig.send(STEP, {"name": "a", "n": 1})
    (fault,) = [r for r in rig.records() if isinstance(r, WorkflowFaulted)]
    assert fault.code == "bad_output"


def test_memory_stops_at_the_limit() -> None:
    """AU-19: growing is refused at `memory_bytes`, and a module that needs more never starts."""
    wrong = "(i32.ne (memory.size) (i32.const {}))"
    grow = f"(drop (memory.grow (i32.const 1))) (if {wrong} (then unreachable))"
    small = WasmRig(wat(says(output(), grow.format(1))), memory_bytes=1 << 16)
    assert isinstance(small.tick(small.lane(pooled=False), None, 1), Ran)
    large = WasmRig(wat(says(output(), grow.format(2))), memory_bytes=1 << 17)
    assert isinstance(large.tick(large.lane(pooled=False), None, 1), Ran)
    never = WasmRig(wat(says(output()), pages=2), memory_bytes=1 << 16)
    halted = never.tick(never.lane(pooled=True), None, 1)
    assert isinstance(halted, Halted)
    assert (halted.code, halted.fuel) == ("trap", 0)


def test_tables_are_memory_too() -> None:
    """AU-19: a table that grows, or is too large from the start, stops at `memory_bytes`."""
    grown = "(table.grow (ref.null func) (i32.const {}))"
    grow = f"(if (i32.ne {grown} (i32.const {{}})) (then unreachable))"
    table, most = "(table 1 funcref)", (1 << 16) // 8
    for more, before in ((most - 1, 1), (most, -1)):
        rig = WasmRig(wat(table + says(output(), grow.format(more, before))), memory_bytes=1 << 16)
        assert isinstance(rig.tick(rig.lane(pooled=False), None, 1), Ran)
    wide = WasmRig(wat(f"(table {most + 1} funcref)" + says(output())), memory_bytes=1 << 16)
    halted = wide.tick(wide.lane(pooled=True), None, 1)
    assert isinstance(halted, Halted)
    assert (halted.code, halted.fuel) == ("trap", 0)


def test_limits_beyond_the_engine_are_its_own() -> None:
    """X-03: a limit that no engine can count to does not wrap around to a small one."""
    rig = WasmRig(FINE, fuel=2**64 // 100 + 1, memory_bytes=2**64 - 1)
    assert isinstance(rig.tick(rig.lane(pooled=True), None, 1), Ran)


def test_the_engine_has_no_clock_and_one_nan() -> None:
    """X-12, AU-19: NaN has one bit pattern, whatever the machine would have made of it."""
    check = (
        "(if (i32.ne (i32.reinterpret_f32 (f32.div (f32.const 0) (f32.const -0)))"
        " (i32.const 0x7fc00000)) (then unreachable))"
    )
    rig = WasmRig(wat(says(output(), check)))
    assert isinstance(rig.tick(rig.lane(pooled=False), None, 1), Ran)


MISSING = """
import sys
sys.modules["wasmtime"] = None
from tallystick.errors import Unavailable
from tallystick.modules.wasm_door import interrupt_wasm, open_wasm
interrupt_wasm()
try:
    open_wasm({}, {})
except Unavailable as why:
    print(why.code, why.hint)
"""


def test_without_the_engine_the_error_says_what_to_install() -> None:
    """A missing extra is raised by code, so it is never the recorded outcome of a tick."""
    command = [sys.executable, "-c", MISSING]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "wasm.not_installed pip install 'tallystick[wasm]'\n"


def test_the_engine_is_loaded_when_a_module_is_met() -> None:
    """Who uses no WASM does not load the engine."""
    program = "import sys, tallystick.modules.runners; print('wasmtime' in sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_node_starts_without_the_engine() -> None:
    """The engine is an extra: whatever a node imports when it starts does without it."""
    program = "import sys; sys.modules['wasmtime'] = None; import tallystick.cli.here; print('ok')"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "ok\n"


def test_the_raw_layer_and_the_public_one_agree() -> None:
    """05 section 5: without the private names the public wrapper gives the same answers."""
    assert calls is Raw
    for code in (FINE, wat(ENTRY.format("unreachable")), wat(ENTRY.format("i64.const -1"))):
        rig = WasmRig(code)
        made = [
            rig.tick(WasmLane(rig.driver.blobs, GuestSettings(layer=layer)), 3, 2)
            for layer in (Raw, Plain, Raw)
        ]
        assert made[0] == made[1] == made[2]
