"""The watchdog reaches into WASM code, which never comes back to the interpreter by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic, perf_counter, sleep
from typing import Any

from tallystick.model.abi import Halted, Ran
from tallystick.modules.wasm import WasmLane
from tallystick.node.wasm_workers import Worker, Workers
from tallystick.node.watchdog import TickStopped, Watchdog, uncounted
from tests.modules.test_wasm import FINE
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


# ---- what is not counted ----------------------------------------------------------------------


class Stepped:
    """Time that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now_s = 1.0

    def __call__(self) -> float:
        return self.now_s

    def pass_limit(self, look_s: float = 0.2) -> None:
        """More than any limit passes, and the watchdog has occasion to see it."""
        self.now_s += 100
        until = monotonic() + look_s  # it looks every 10 ms
        while monotonic() < until:
            sleep(0.001)  # an exception of the watchdog arrives between two of these

    def pass_until_stopped(self) -> None:
        """The same, for as long as a busy machine takes to see it."""
        self.pass_limit(look_s=60)


def guarded(clock: Stepped, act: Callable[[], Any]) -> object:
    """What a block gives under a watchdog of that clock, or "stopped"."""
    watchdog = Watchdog(limit_s=0.04, clock=clock)
    seen: list[object] = []

    def run() -> None:
        try:
            with watchdog:
                seen.append(act())
        except TickStopped:
            seen.append("stopped")

    thread = threading.Thread(target=run)
    thread.start()
    watchdog.start(thread)
    try:
        thread.join()
    finally:
        watchdog.stop()
    return seen[0]


class Nobody:
    """Vouches for nothing."""

    def has(self, artifact: str) -> bool:
        return False


def test_a_worker_that_starts_inside_a_tick_is_not_counted() -> None:
    """AU-19: a start that takes longer than a tick may take leaves the tick its own time."""
    clock, rig, workers = Stepped(), WasmRig(FINE), Workers(Nobody())

    class Slow(Worker):
        def greet(self, waiting: Any) -> None:
            clock.pass_limit()
            super().greet(waiting)

    workers._new = Slow  # type: ignore[method-assign]  # a machine under load
    lane = WasmLane(rig.driver.blobs, elsewhere=workers)
    try:
        assert isinstance(guarded(clock, lambda: rig.tick(lane, None, 1)), Ran)
        assert clock.now_s > 100
    finally:
        workers.close()


def test_a_worker_that_is_slow_to_answer_is_counted() -> None:
    """AU-19 control: the same delay in the run itself is the module's, and stops the tick."""
    clock, rig, workers = Stepped(), WasmRig(FINE), Workers(Nobody())

    class Slow(Worker):
        def ask(self, *said: Any) -> Any:
            clock.pass_until_stopped()
            return super().ask(*said)

    workers._new = Slow  # type: ignore[method-assign]  # a module that takes its time
    lane = WasmLane(rig.driver.blobs, elsewhere=workers)
    try:
        assert guarded(clock, lambda: rig.tick(lane, None, 1)) == "stopped"
    finally:
        workers.close()


def test_time_goes_on_after_what_was_not_counted() -> None:
    """AU-19: a block that is not counted stops no watching: what follows it is counted."""
    clock = Stepped()

    def act() -> str:
        with uncounted():
            clock.pass_limit()
        clock.now_s += 0.01  # less than the limit, though much has passed since the beginning
        return "went on"

    assert guarded(clock, act) == "went on"

    def slow() -> None:
        with uncounted():
            clock.pass_limit()
        clock.pass_until_stopped()

    assert guarded(clock, slow) == "stopped"


def test_where_nobody_watches_nothing_is_kept_apart() -> None:
    """The block is the same without a watchdog."""
    with uncounted():
        pass
