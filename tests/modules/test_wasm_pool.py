"""A pooled instance is as good as a fresh one, and only a module that proves it is pooled."""

from __future__ import annotations

import os
from random import Random

import pytest

from tallystick.model.abi import Halted, Ran, TickInput
from tallystick.modules.wasm import WasmLane
from tallystick.modules.wasm_binary import read_binary
from tallystick.modules.wasm_engine import Compiled, interrupt
from tallystick.modules.wasm_raw import Raw, calls
from tallystick.modules.wasm_run import GuestSettings, Instances
from tallystick.values import canon
from tests.conformance.abi_lanes import wasm
from tests.modules.wasm_world import STEP, Given, WasmRig, output, says, wat

SEQUENCES = int(os.environ.get("TALLY_WASM_SEQUENCES", "40"))  # the design's count is 500

# Adds up its own calls in memory, in a global and in what it may grow: all that a module can keep.
KEEPS = """
(global $calls (export "calls") (mut i64) (i64.const 0))
(func $leave
  (global.set $calls (i64.add (global.get $calls) (i64.const 1)))
  (i64.store (i32.const 2048) (i64.add (i64.load (i32.const 2048)) (i64.const 1))))
(func $seen (result i64) (i64.add (global.get $calls) (i64.load (i32.const 2048))))
"""
# One digit of the state is what it found; the event's number decides what else it does.
ANSWER = """
(func (export "flow") (param $in i32) (param $len i32) (result i64)
  (local $n i32)
  (local.set $n (i32.and (i32.load8_u (i32.add (local.get $in) (i32.const {at}))) (i32.const 7)))
  (i32.store8 (i32.const {digit}) (i32.wrap_i64 (call $seen)))
  (call $leave)
  (if (i32.eq (local.get $n) (i32.const 1)) (then (drop (memory.grow (i32.const 1)))))
  (if (i32.eq (local.get $n) (i32.const 2)) (then unreachable))
  (loop $spin (br_if $spin (i32.ne
    (local.tee $n (i32.sub (local.get $n) (i32.const 1))) (i32.const -1))))
  i64.const {answer})
"""


def keeper() -> bytes:
    """A module that would tell if anything of an earlier tick were left."""
    said = output(0)
    text = "".join(f"\\{byte:02x}" for byte in said)
    body = ANSWER.format(at=_place_of_n(), digit=16 + len(said) - 1, answer=16 << 32 | len(said))
    return wat(f'(data (i32.const 16) "{text}") {KEEPS} {body}')


def _place_of_n() -> int:
    """Where the number of the event stands in the input."""
    one, two = (TickInput(None, STEP, Given(n), canon.encode("a"), None).envelope() for n in (1, 2))
    return next(at for at, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1])


def run(rig: WasmRig, lane: WasmLane, numbers: list[int]) -> list[Ran | Halted]:
    return [rig.tick(lane, total, total) for total in numbers]


@pytest.mark.clause("X-02")
def test_pooled_is_fresh() -> None:
    """AU-20: equal output and fuel over random sequences with growth and traps among them."""
    rig = WasmRig(keeper())
    assert Compiled(keeper()).pooled
    chance = Random(20)
    seen = set()
    for _ in range(SEQUENCES):
        numbers = [chance.randrange(8) for _ in range(8)]
        fresh = run(rig, rig.lane(pooled=False), numbers)
        assert run(rig, rig.lane(pooled=True), numbers) == fresh
        seen |= {type(each) for each in fresh}
    assert seen == {Ran, Halted}


class Forgetful(Raw):
    """Puts nothing back: what restores memory writes from 0 on."""

    def write(self, at: int, data: bytes) -> None:
        if at:
            super().write(at, data)


def test_a_pool_that_restores_nothing_is_found() -> None:
    """AU-20 control: without the restored memory the same sequence gives other answers."""
    rig = WasmRig(keeper())
    fresh = run(rig, rig.lane(pooled=False), [0, 0, 0])
    assert run(rig, WasmLane(rig.driver.blobs, GuestSettings(layer=Forgetful)), [0, 0, 0]) != fresh


INIT = "(table.init $e (i32.const 0) (i32.const 0) (i32.const 1))"
LEAKY = [
    ("not exported", "(global (mut i32) (i32.const 0))"),
    ("reference", '(global (export "r") (mut funcref) (ref.null func))'),
    ("table.set", "(table 1 funcref) (func (table.set (i32.const 0) (ref.null func)))"),
    (
        "table.grow",
        "(table 1 funcref) (func (drop (table.grow (ref.null func) (i32.const 1))))",
    ),
    (
        "table.fill",
        "(table 1 funcref) (func (table.fill (i32.const 0) (ref.null func) (i32.const 1)))",
    ),
    (
        "table.copy",
        "(table 1 funcref) (func (table.copy (i32.const 0) (i32.const 0) (i32.const 1)))",
    ),
    ("table.init", f"(table 1 funcref) (elem $e func 0) (func {INIT})"),
    ("elem.drop", "(elem $e func 0) (func (elem.drop $e))"),
    ("data.drop", '(data $d "a") (func (data.drop $d))'),
    ("not known", "(func (drop (v128.const i64x2 0 0)))"),
]


@pytest.mark.parametrize(("reason", "body"), LEAKY)
def test_a_leaky_module_is_never_pooled(reason: str, body: str) -> None:
    """AU-20: whatever could stay behind is a reason, and the lane keeps no such instance."""
    code = wat(body + says(output()))
    assert any(reason in each for each in Compiled(code).binary.leaks)
    rig = WasmRig(code)
    lane = rig.lane(pooled=True)
    assert isinstance(rig.tick(lane, None, 1), Ran)
    assert not lane.here.idle


def test_a_safe_module_is_pooled() -> None:
    """AU-20 control: the same lane keeps the instance of a module without such code."""
    rig = WasmRig(wat(says(output())))
    lane = rig.lane(pooled=True)
    assert isinstance(rig.tick(lane, None, 1), Ran)
    assert len(lane.here.idle) == 1


PLAIN_CODE = """
(table 2 funcref) (elem (i32.const 0) func 0) (type $t (func (param i32) (result i32)))
(func (param i32) (result i32) (local i64 f32 f64)
  (drop (select (result i32) (i32.const 1) (i32.const -1) (local.get 0)))
  (drop (call_indirect (type $t) (local.get 0) (i32.const 0)))
  (drop (f64.const 0x1.26p3)) (drop (f32.const 2.6)) (drop (i64.const 0x2626262626))
  (drop (i32.trunc_sat_f32_s (f32.const 38)))
  (memory.fill (i32.const 0) (i32.const 38) (i32.const 0))
  (drop (ref.func 1)) (drop (table.get (i32.const 0))) (drop (table.size))
  (block (block (br_table 0 1 0 (i32.const 38))))
  (local.get 0))
(elem declare func 1)
"""


def test_code_is_read_by_instruction() -> None:
    """AU-20: numbers that look like an opcode are not taken for one; the C counter is clean."""
    assert Compiled(wat(PLAIN_CODE)).binary.leaks == ()
    assert read_binary(wasm("wat")).leaks == ()
    assert read_binary(wasm("wat")).globals == ("val", "end")


def test_a_large_memory_is_not_copied() -> None:
    """05 section 5: a fresh instance is cheaper than restoring megabytes."""
    rig = WasmRig(wat(says(output()), pages=17))
    lane = rig.lane(pooled=True)
    assert isinstance(rig.tick(lane, None, 1), Ran)
    assert not lane.here.idle


class Counted(Instances):
    """Counts how often a run was begun."""

    begun = 0

    def attempt(self, compiled, call):
        self.begun += 1
        return super().attempt(compiled, call)


@pytest.mark.parametrize("pooled", [True, False])
def test_an_interrupt_that_was_not_meant_changes_nothing(*, pooled: bool) -> None:
    """05 section 5: the deadline is a safety net and never an outcome; the tick is run again.

    The interrupt falls between the deadline that a run is given and its first instruction.
    """
    rig = WasmRig(wat(says(output())))
    quiet = rig.tick(rig.lane(pooled=False), None, 1)
    left = [4]  # a guest is refilled when it is made and when it runs

    class Disturbed(calls):  # type: ignore[valid-type,misc]  # whichever layer there is
        def refill(self, fuel: int) -> None:
            super().refill(fuel)
            if left[0]:
                left[0] -= 1
                interrupt()

    lane = rig.lane(pooled=pooled)
    settings = GuestSettings(pooled=pooled, layer=Disturbed)
    lane.here = counted = Counted(rig.driver.blobs, settings)
    assert rig.tick(lane, None, 1) == quiet
    assert counted.begun > 1
    assert left == [0]


def test_a_start_function_is_not_part_of_the_tick() -> None:
    """AU-20: what runs before the image is taken costs a tick nothing, pooled or fresh."""
    start = '(func (export "_initialize") (i32.store8 (i32.const 3000) (i32.const 7)))'
    check = "(if (i32.ne (i32.load8_u (i32.const 3000)) (i32.const 7)) (then unreachable))"
    with_start = WasmRig(wat(start + says(output(), check)))
    pooled = with_start.lane(pooled=True)
    ticks = [with_start.tick(pooled, None, 1) for _ in range(3)]
    ticks.append(with_start.tick(with_start.lane(pooled=False), None, 1))
    assert len({each.fuel for each in ticks if isinstance(each, Ran)}) == 1
    assert all(isinstance(each, Ran) for each in ticks)
