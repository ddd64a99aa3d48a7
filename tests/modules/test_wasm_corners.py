"""The corners of the WASM lane: init, pure functions, odd binaries, and what a machine lacks."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from wasmtime import WasmtimeError

from tallystick.errors import BadDefinition, LaneMissing
from tallystick.model.abi import Halted, TickInput
from tallystick.modules.wasm import WasmLane
from tallystick.modules.wasm_binary import MAGIC, PROOF_MAX, read_binary
from tallystick.modules.wasm_door import interrupt_wasm
from tallystick.modules.wasm_engine import Compiled
from tallystick.modules.wasm_plain import Cap, Code, Plain
from tallystick.modules.wasm_raw import Raw
from tallystick.modules.wasm_run import GuestSettings
from tallystick.values import canon
from tests.modules.test_wasm import ENTRY, LOOSE
from tests.modules.test_wasm_pool import keeper, run
from tests.modules.wasm_world import FLOW, STEP, Given, WasmRig, output, says, wat

INITS = [
    (says(output(5), name="init") + LOOSE, canon.encode({"total": 5})),
    (ENTRY.replace("flow", "init").format("unreachable") + LOOSE, "trap"),
    (says(output(5, status="running"), name="init") + LOOSE, "bad_output"),
    (says(canon.encode({"state": None}), name="init") + LOOSE, "bad_output"),
    (says(canon.encode({"state": canon.encode({"total": "x"})}), name="init"), "bad_output"),
    (LOOSE, None),
]


@pytest.mark.clause("X-11")
@pytest.mark.parametrize(("body", "end"), INITS)
def test_an_init_gives_a_state_or_a_fault(body: str, end: Any) -> None:
    """X-11: `{state}` alone and of the right shape; a trap and any other answer are faults."""
    rig = WasmRig(wat(body))
    catalogue = rig.world.active.catalogue
    given = TickInput(None, STEP, Given(1), canon.encode("a"), None)
    made = rig.lane(pooled=True).init(catalogue, catalogue.workflows[FLOW], given)
    assert (made.code if isinstance(made, Halted) else made) == end


PURES = [
    (says(canon.encode({"output": 3})), canon.encode(3)),
    (ENTRY.format("unreachable"), "trap"),
    (says(b"\xff"), "bad_output"),
    (says(canon.encode({"output": 3, "more": 1})), "bad_output"),
    (says(canon.encode([3])), "bad_output"),
]


@pytest.mark.clause("K-02")
@pytest.mark.parametrize("ctx", [None, canon.encode({"now": 1})])
@pytest.mark.parametrize(("body", "end"), PURES)
def test_a_pure_function_gives_an_output_or_a_fault(body: str, end: Any, ctx: Any) -> None:
    """K-02: `{output}` and nothing else, with a context or without."""
    rig = WasmRig(wat(body))
    made = rig.lane(pooled=True).pure(
        rig.world.active.catalogue, "t/code@1", "flow", canon.encode(1), ctx
    )
    assert (made.code if isinstance(made, Halted) else made) == end
    runner: Any = rig.runner
    again = runner.pure(rig.world.active.catalogue, "t/code@1", "flow", canon.encode(1), ctx)
    assert again == made


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x03", "too early"),
        (b"\x03" + b"\x80" * 10 + b"\0", "too long"),
        (b"\x07\x05\x01\x01a\x09\x00", "unknown kind"),
    ],
)
def test_a_binary_that_is_cut_or_strange_is_refused(data: bytes, why: str) -> None:
    """AU-19: what the sections say is read with care, before any engine sees it."""
    with pytest.raises(BadDefinition) as caught:
        read_binary(MAGIC + data)
    assert (caught.value.code, why in caught.value.message) == ("wasm.invalid", True)


def test_what_a_binary_has_none_of_is_no_reason() -> None:
    """AU-20: no imports in their section, and constants, leave nothing behind."""
    assert read_binary(MAGIC + b"\x02\x01\x00").imports == ()
    assert read_binary(wat("(global i32 (i32.const 5))" + LOOSE)).leaks == ()
    # Cut in the middle of a global: nothing to say here, and the engine refuses it.
    cut = MAGIC + b"\x06\x03\x01\x7f\x01"
    assert read_binary(cut).leaks == ("a mutable global that is not exported",)
    with pytest.raises(BadDefinition) as caught:
        Compiled(cut)
    assert caught.value.code == "wasm.feature"


def test_a_proof_over_much_code_is_not_tried() -> None:
    """AU-20: reading more would cost more than a pool saves, so it counts as a reason."""
    size = PROOF_MAX + 1
    head = b"\x0a" + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    assert "bytes of code" in read_binary(MAGIC + head + bytes(size)).leaks[0]


class Shelf(dict[bytes, bytes]):
    """Keeps compiled code, and counts what is put."""

    puts = 0

    def put(self, name: bytes, data: bytes) -> None:
        self.puts += 1
        self[name] = data


def test_compiled_code_is_kept_and_taken_again() -> None:
    """05 section 5: made once; what another engine left there is made anew."""
    shelf, code = Shelf(), wat(says(output()))
    kept: Any = shelf
    for puts in (1, 1):
        assert Compiled(code, kept).entries == {"flow"}
        assert shelf.puts == puts
    shelf.update(dict.fromkeys(shelf, b"of another engine"))
    assert Compiled(code, kept).entries == {"flow"}
    assert shelf.puts == 2


def test_the_public_layer_restores_globals_too() -> None:
    """AU-20: a pool over the public interface gives what fresh instances give."""
    rig = WasmRig(keeper())
    lane = WasmLane(rig.driver.blobs, GuestSettings(layer=Plain))
    assert run(rig, lane, [0, 3, 0]) == run(rig, rig.lane(pooled=False), [0, 3, 0])


class Exhausted(Plain):
    """A machine that has run out of something."""

    def __init__(self, code: Code, cap: Cap) -> None:
        raise WasmtimeError("mmap failed: Cannot allocate memory")


@pytest.mark.parametrize("pooled", [True, False])
def test_a_machine_without_memory_is_no_fault_of_a_module(*, pooled: bool) -> None:
    """05 section 5: it is raised, so that it never is the recorded outcome of a tick."""
    rig = WasmRig(wat(says(output())))
    lane = WasmLane(rig.driver.blobs, GuestSettings(layer=Exhausted, pooled=pooled))
    with pytest.raises(LaneMissing) as caught:
        rig.tick(lane, None, 1)
    assert caught.value.code == "wasm.no_instance"


def test_an_instance_that_was_never_made_holds_nothing() -> None:
    """05 section 5: what failed before it had a store gives none back."""
    nothing: Any = None
    with pytest.raises(AttributeError):
        Raw(nothing, Cap(1, 1))


def test_an_interrupt_reaches_the_engine_that_is_loaded() -> None:
    """05 section 5: nothing runs, so nothing changes: the next tick is as ever."""
    rig = WasmRig(wat(says(output())))
    lane = rig.lane(pooled=True)
    before = rig.tick(lane, None, 1)
    interrupt_wasm()
    assert rig.tick(lane, None, 1) == before


BROKEN = """
import sys
sys.modules["tallystick.modules.wasm_run"] = None
from tallystick.modules.wasm_door import open_wasm
try:
    open_wasm({}, {})
except ModuleNotFoundError as why:
    print(why.name)
"""


def test_a_broken_installation_is_not_taken_for_a_missing_engine() -> None:
    """A part of ours that is gone is told as what it is."""
    command = [sys.executable, "-c", BROKEN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "tallystick.modules.wasm_run\n"
