"""The watchdog reaches into WASM code, which never comes back to the interpreter by itself."""

from __future__ import annotations

import threading
from time import perf_counter

from tallystick.model.abi import Halted
from tallystick.node.watchdog import TickStopped, Watchdog
from tests.modules.wasm_world import WasmRig, wat

# Fuel for minutes: what ends this tick soon is not its budget.
FUEL = 10_000_000_000
LOOP = wat('(func (export "flow") (param i32 i32) (result i64) (loop br 0) i64.const 0)')


def test_a_wasm_tick_without_end_is_stopped() -> None:
    """AU-19: the deadline stops the tick, leaves no outcome, and the lane serves on."""
    rig = WasmRig(LOOP, fuel=FUEL)
    watchdog, lane = Watchdog(limit_s=0.2), rig.lane(pooled=True)
    seen: list[object] = []

    def guarded() -> None:
        try:
            with watchdog:
                seen.append(rig.tick(lane, None, 1))
        except TickStopped:
            seen.append("stopped")

    thread = threading.Thread(target=guarded)
    begun = perf_counter()
    thread.start()
    watchdog.start(thread)
    try:
        thread.join()
    finally:
        watchdog.stop()
    assert seen == ["stopped"]
    assert perf_counter() - begun < 30
    assert not lane.here.idle


def test_without_a_watchdog_fuel_ends_it() -> None:
    """AU-19 control: the same loop under a small budget is a fault on record."""
    rig = WasmRig(LOOP, fuel=1000)
    halted = rig.tick(rig.lane(pooled=True), None, 1)
    assert isinstance(halted, Halted)
    assert halted.code == "fuel"
