"""Growth: a tick costs what it touches, not what the world holds."""

from __future__ import annotations

import gc
from time import process_time_ns
from typing import Any

import pytest

from tallystick.kernel.inputs import Submit
from tallystick.kernel.world import Settings
from tallystick.model.records import ReceiptSettled
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests import worlds
from tests.rig import Rig

CHILDREN = 1000


def parked(cells: int) -> Rig:
    """A world of resting cells, promoted to the index so that memory holds only a cache."""
    functions = {("t/code@1", "lab"): worlds.lab_function()}
    settings = Settings(cell_cache=256, node_cache=400 * 1024)
    rig = Rig(worlds.lab_documents(), functions, settings=settings)
    for start in range(0, cells, 5_000):
        for i in range(start, min(start + 5_000, cells)):
            rig.driver.offer(Submit(rig.clock.sample(), worlds.GO, worlds.go(f"c{i}")))
        rig.driver.snapshot()
    return rig


def tick_ns(rig: Rig, cells: int, ticks: int = 400) -> float:
    """The cheapest of some rounds of ticks on cells that lie scattered in the index."""
    best = float("inf")
    for turn in range(5):
        begin = process_time_ns()
        for i in range(ticks):
            ident = f"c{(i * 7919 + turn) % cells}"
            rig.driver.offer(Submit(rig.clock.sample(), worlds.GO, worlds.go(ident)))
        rig.run()
        best = min(best, (process_time_ns() - begin) / ticks)
        rig.driver.snapshot()
    return best


@pytest.mark.slow
@pytest.mark.clause("K-39", "K-41")
def test_a_tick_costs_the_same_in_a_world_thirty_times_as_large() -> None:
    """K-39..K-43: 1,000 against 30,000 parked cells: within a factor that linear cost would break.

    An index read grows by about one level; anything linear in cells would grow thirty times.
    """
    small, large = parked(1_000), parked(30_000)
    costs = tick_ns(small, 1_000), tick_ns(large, 30_000)
    assert costs[1] < 4 * costs[0]
    store = large.world.cells[worlds.LAB]
    assert len(store._hot) <= 256
    assert not store.delta
    assert large.world.cell_count == 30_000


# ---- join -----------------------------------------------------------------------------------


def joining() -> Rig:
    """A parent that calls fifty children per event and counts their receipts."""

    def run(state: Any, event: Any, ctx: Any) -> Outcome:
        value = event["$value"]
        if event["$tag"] == "Receipt":
            assert value["status"] == {"$tag": "ok"}
            return Outcome({**state, "log": [str(int(state["log"][0]) + 1)]})
        kept = state or {"id": value["id"], "log": ["0"]}
        if value["do"] == "done":
            return Outcome(kept, status="completed", result=value["n"])
        calls = [_call(f"{value['id']}/{value['n'] * 50 + i}") for i in range(50)]
        return Outcome(kept, effects=calls)

    flow = {"limits": {"inflight_max": 1024}}
    return Rig(worlds.lab_documents(flow=flow), {("t/code@1", "lab"): run})


def _call(ident: str) -> dict[str, object]:
    event = {"schema": worlds.GO, "value": canon.encode(worlds.go(ident, "done"))}
    params = {
        "workflow": worlds.LAB,
        "key": canon.encode(ident),
        "payload": event,
        "caps": None,
    }
    return {"effect": worlds.CALL, "params": params, "cap_slot": "flow"}


def joined_ns(rig: Rig, children: int) -> float:
    """Processor time per child of a join of so many.

    Without the collector, which walks all that the tests before have left, now or then.
    """
    gc.collect()
    gc.disable()
    try:
        begin = process_time_ns()
        for n in range(children // 50):
            given = Submit(rig.clock.sample(), worlds.GO, worlds.go("parent", "call", n))
            rig.driver.offer(given)
        rig.run()
        return (process_time_ns() - begin) / children
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.clause("X-17", "X-18")
def test_a_parent_joins_a_thousand_children() -> None:
    """KN-16: 1,000 called children end, and the parent gets each one's receipt, once.

    A child of a thousand costs at most three times a child of a hundred: a coarse bound, which
    only finds a linear cost that outweighs the rest; bench/fanout.py measures flatness.
    """
    few = min(joined_ns(joining(), 100) for _ in range(3))
    rig = joining()
    many = min(joined_ns(joining(), CHILDREN), joined_ns(rig, CHILDREN))
    assert rig.state(worlds.LAB, "parent")["log"] == [str(CHILDREN)]
    settled = rig.records(ReceiptSettled)
    assert len({record.intent for record in settled}) == len(settled) == CHILDREN
    results = [canon.decode(record.payload or b"")["status"] for record in settled]
    assert results == [{"$tag": "completed"}] * CHILDREN
    assert rig.world.cell_count == CHILDREN + 1
    assert not rig.cell(worlds.LAB, "parent").inflight
    assert many < 3 * few
    assert rig.reopened().root() == rig.root()
