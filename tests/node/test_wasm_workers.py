"""WASM that nobody vouches for runs in a process of its own, with the same outcomes (AU-19).

`TALLY_WASM_WORKER=1000` asks for as many ticks of the speed test as make its figure worth reading.
"""

# tidy: everything that can happen to a worker.
from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from tallystick.cli.here import modules_of
from tallystick.errors import LaneMissing
from tallystick.kernel.inputs import Submit
from tallystick.model.abi import Halted, Ran, TickInput
from tallystick.model.bundle import Bundle
from tallystick.model.records import WorkflowFaulted
from tallystick.modules.runners import Library, Runners
from tallystick.modules.wasm import WasmLane
from tallystick.modules.wasm_run import GuestSettings
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.node.wasm_cache import Vouched
from tallystick.node.wasm_workers import Workers
from tallystick.node.watchdog import TickStopped, Watchdog
from tallystick.values import canon
from tallystick.values.seal import KeyPair, bundle_statement
from tests.conformance.abi_lanes import app_of, world_of
from tests.modules.test_wasm import FINE, REFUSED, STOPPED
from tests.modules.wasm_world import STEP, WasmRig, wat
from tests.node.rig import config

COUNTER, ADD = "counter/counter@1", "counter/Add@1"
LOOP = wat('(func (export "flow") (param i32 i32) (result i64) (loop br 0) i64.const 0)')
TICKS = int(os.environ.get("TALLY_WASM_WORKER", "50"))


class Nobody:
    """Vouches for nothing."""

    def has(self, artifact: str) -> bool:
        return False


@pytest.fixture(scope="module")
def shared() -> Iterator[Workers]:
    """Workers for the tests that leave them as they were."""
    workers = Workers(Nobody())
    yield workers
    workers.close()


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Workers that a test may do harm to."""
    made = Workers(Nobody())
    yield made
    made.close()


def lane_of(rig: WasmRig, workers: Workers) -> WasmLane:
    return WasmLane(rig.driver.blobs, elsewhere=workers)


@pytest.mark.clause("X-03", "X-04")
@pytest.mark.parametrize(
    ("body", "code"),
    [(body, code) for code, _, body in STOPPED] + [("", code) for code, _ in REFUSED[:1]],
)
def test_every_fault_is_the_same_fault_there(body: str, code: str, shared: Workers) -> None:
    """AU-19: same code, message, fuel and limit as in this process; at replay by either, the same.

    The journal that a worker made is verified without one, and the other way round.
    """
    made = wat(body) if body else REFUSED[0][1]
    limits = {"fuel": 200_000, "memory_bytes": 1 << 16}
    rigs = [WasmRig(made, **limits) for _ in range(2)]
    rigs[1].world.runner = Runners(rigs[1].driver.blobs, library=Library(None, shared))
    for rig in rigs:
        for name in "ab":
            rig.send(STEP, {"name": name, "n": 1})
    here, there = (
        [(r.code, r.message, r.fuel, r.limit, r.engine) for r in faults(rig)] for rig in rigs
    )
    assert here == there
    assert len(here) == 2
    assert rigs[0].records() == rigs[1].records()
    assert rigs[1].verify().first is None
    assert (
        rigs[0].verify(Runners(rigs[0].driver.blobs, library=Library(None, shared))).first is None
    )


def faults(rig: WasmRig) -> list[WorkflowFaulted]:
    return [each for each in rig.records() if isinstance(each, WorkflowFaulted)]


def test_one_process_serves_many_runs(shared: Workers) -> None:
    """05 section 5: init, ticks and pooled instances there give the bytes and the fuel of here."""
    world = world_of("wat")
    catalogue = world.driver.world.active.catalogue
    flow = catalogue.workflows[COUNTER]
    lanes = [
        WasmLane(world.driver.blobs, GuestSettings(pooled=False)),
        WasmLane(world.driver.blobs, elsewhere=shared),
    ]
    state = canon.encode({"total": 3, "phase": {"$tag": "open"}})
    given = TickInput(state, "counter/counter.event@1", Added(), canon.encode("a"), None)
    before = shared.started
    made = [lane.tick(catalogue, flow, given, None) for lane in lanes for _ in range(3)]
    assert (
        len({(each.envelope, each.fuel, each.engine) for each in made if isinstance(each, Ran)})
        == 1
    )
    assert all(isinstance(each, Ran) for each in made)
    assert (
        lanes[0].init(catalogue, flow, given) == lanes[1].init(catalogue, flow, given) is not None
    )
    assert shared.started - before <= 1
    assert not lanes[1].here.idle


class Added:
    """An event of the counter."""

    def value(self) -> bytes:
        return canon.encode({"$tag": "Add", "$value": {"n": 1, "name": "a"}})

    def plain(self) -> Any:
        return canon.decode(self.value())

    def receipt(self) -> None:
        return None


def test_a_killed_worker_is_replaced(workers: Workers) -> None:
    """10 section 6: killed between two runs or in the middle of one, the answer is the same."""
    rig = WasmRig(FINE)
    lane = lane_of(rig, workers)
    first = rig.tick(lane, None, 1)
    victim = workers._idle[0]
    os.kill(victim.process.pid, signal.SIGKILL)
    victim.process.wait()
    assert rig.tick(lane, None, 1) == first
    # In the middle: stopped, so that it takes the question and never answers, then killed.
    victim = workers._idle[0]
    os.kill(victim.process.pid, signal.SIGSTOP)
    killer = threading.Timer(0.3, victim.process.kill)
    killer.start()
    try:
        assert rig.tick(lane, None, 1) == first
    finally:
        killer.join()
    assert workers.started == 3


def test_a_module_that_kills_every_worker_is_no_outcome(workers: Workers) -> None:
    """10 section 6: two workers lost over one run are raised by code; the next run is served.

    Control: what ends the process is a planted defect of the worker, and without it all is well.
    """
    rig = WasmRig(FINE)
    lane = lane_of(rig, workers)
    before = workers._new

    def dying() -> Any:
        made = before()
        made.process.kill()
        made.process.wait()
        return made

    workers._new = dying  # type: ignore[method-assign]  # the planted defect
    with pytest.raises(LaneMissing) as caught:
        rig.tick(lane, None, 1)
    assert caught.value.code == "wasm.worker_lost"
    assert caught.value.hint
    workers._new = before  # type: ignore[method-assign]  # and its cure
    assert isinstance(rig.tick(lane, None, 1), Ran)


def test_a_worker_that_says_nonsense_is_not_believed(workers: Workers) -> None:
    """10 section 6: an answer of no known shape costs the worker its place, and no more."""
    rig = WasmRig(FINE)
    lane = lane_of(rig, workers)
    assert isinstance(rig.tick(lane, None, 1), Ran)
    worker = workers._idle[0]
    answers = iter([({"halted": "everything"}, b""), ({"fuel": -1}, b"")])
    worker.ask = lambda *_: next(answers)  # type: ignore[assignment, method-assign]  # a planted liar
    assert isinstance(rig.tick(lane, None, 1), Ran)
    assert not worker.is_there()


def test_the_watchdog_stops_a_worker(workers: Workers) -> None:
    """AU-19: a loop with fuel for minutes is stopped by time; its process is gone, others serve."""
    rig = WasmRig(LOOP, fuel=10_000_000_000)
    watchdog, lane = Watchdog(limit_s=0.3), lane_of(rig, workers)
    workers.warm()
    process = workers._idle[0].process
    seen: list[object] = []

    def guarded() -> None:
        try:
            with watchdog:
                seen.append(rig.tick(lane, None, 1))
        except TickStopped:
            seen.append("stopped")

    thread = threading.Thread(target=guarded)
    thread.start()
    watchdog.start(thread)
    try:
        thread.join()
    finally:
        watchdog.stop()
    assert seen == ["stopped"]
    assert process.poll() is not None
    fine = WasmRig(FINE)
    assert isinstance(fine.tick(lane_of(fine, workers), None, 1), Ran)


def test_a_worker_has_nothing_to_take(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """10 section 6: no environment of the node, no handle but its socket."""
    monkeypatch.setenv("TALLY_CANARY", "secret")
    workers.warm()
    place = Path("/proc") / str(workers._idle[0].process.pid)
    assert b"secret" not in (place / "environ").read_bytes()
    held = {str(each.readlink()) for each in (place / "fd").iterdir()}
    assert {each for each in held if not each.startswith(("socket:", "/dev/null"))} == set()


def test_threads_have_workers_of_their_own(workers: Workers) -> None:
    """04 section 1: a verification beside the kernel's thread neither waits nor mixes answers."""
    rig = WasmRig(FINE)
    seen: list[object] = []

    def ask() -> None:
        lane = lane_of(rig, workers)
        seen.extend(rig.tick(lane, None, 1) for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 30
    assert len({each.envelope for each in seen if isinstance(each, Ran)}) == 1
    assert workers.started <= 3


def test_ticks_of_a_worker_are_quick(shared: Workers) -> None:
    """10 section 7: a run costs a way there and back: no process is started for it.

    Asked for by TALLY_WASM_WORKER, also a tenth of the floor of 3,000 a second.
    """
    rig = WasmRig(FINE)
    lane = lane_of(rig, shared)
    assert isinstance(rig.tick(lane, None, 1), Ran)
    started, begun = shared.started, perf_counter()
    for _ in range(TICKS):
        assert not isinstance(rig.tick(lane, None, 1), Halted)
    rate = TICKS / (perf_counter() - begun)
    print(f"{rate:.0f} ticks/s in a worker")
    assert shared.started == started
    if "TALLY_WASM_WORKER" in os.environ:
        assert rate > 300


# ---- who is vouched for -----------------------------------------------------------------------


def sealed(bundle: Bundle, key: KeyPair) -> Bundle:
    return bundle.sealed(canon.encode([key.sign(bundle_statement(bundle=bundle.root))]))


async def used(node: Node, name: str, bundle: Bundle) -> int:
    """Make a world, send it something; how many workers there are then."""
    world = await node.create(name, bundle)
    value = {"name": "a", "n": 1}
    await node.offer(world, Submit(node.clock.sample(), ADD, value))
    await node.quiet(world, 60_000)
    found = await node.ops.replay(world)
    assert found["ok"]
    assert found["ticks"] == 1
    started: int = node.modules._workers.started  # type: ignore[attr-defined]  # as the CLI makes it
    return started


def test_only_what_this_node_sealed_runs_in_it(tmp_path: Path) -> None:
    """AU-23: unsealed, or sealed by a key that the bundle itself brings: a worker; ours: here.

    A note that vouches counts only with the node's signature.
    """
    settings = config(tmp_path)
    bundle = app_of("wat").bundle
    (artifact,) = bundle.artifacts

    async def run() -> None:
        node = await open_node(settings, modules_of(settings))
        try:
            own = Vouched(settings.data, lambda: node.key.pair)
            assert await used(node, "ours", sealed(bundle, node.key.pair)) == 0
            assert own.has(artifact)
            (note,) = (settings.data / "cache" / "vouched").iterdir()
            note.write_bytes(bytes(64))
            assert not own.has(artifact)
            mallory = KeyPair(bytes(31) + b"m")
            assert await used(node, "theirs", sealed(bundle, mallory)) > 0
            assert not own.has(artifact)
        finally:
            await close_node(node)

    asyncio.run(run())
