"""The short way of a loop: the same bytes as the long way, and hardly anything written."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tallystick.model.records import IntentOpened, ReceiptSettled, Ticked
from tallystick.modules import builtin
from tallystick.modules.builtin import Builtin
from tallystick.node.receipts import SHARED_MAX
from tallystick.playbooks.iterate import Live
from tallystick.values import canon
from tallystick.values.seal import seal_batch
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import broken, done
from tests.rig import NODE

RULES = "spec: {mode: %s, max_in_flight: %d}"
LOOP = "loop: {in: '{{ workload.items }}', iterator: loops, " + RULES + "}"
TOOL = "tool: {kind: python, code: x, args: {a: '{{ iter.loops }}', b: '{{ ctx.k }}'}}"
TEXT = HEAD + (
    "workload: {items: []}\nworkflow:\n"
    "  - {step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}\n"
    "  - {step: a, %s, %s, %s}\n"
    "  - {step: b, %s, %s}\n"
)
BEST = "spec: {policy: {failure: {mode: best_effort}}}"


class LongWay(Builtin):
    """A lane that remembers nothing, so every tick goes the long way."""

    def _keep(self, state: bytes, live: Live) -> None:
        """Keep nothing."""


class Counted(Builtin):
    """A lane that counts what it had in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = 0

    def _keep(self, state: bytes, live: Live) -> None:
        self.kept += 1
        super()._keep(state, live)


def result(chance: random.Random) -> Any:
    """The receipt of one unit: mostly well, with values of many kinds."""
    if chance.random() < 0.05:
        return broken()
    values = [None, 1, 2.0, 0.5, "text", "x" * 2000, [1, {"loops": {"r1": 1}}], {"b": 1, "a": [2]}]
    return done(chance.choice(values), patches={"k": 1} if chance.random() < 0.1 else {})


def played(lane: Builtin, seed: int) -> PlayRig:
    """Two loops side by side, their units answered in an order of chance."""
    chance = random.Random(seed)
    mode, width = chance.choice(["parallel", "parallel", "sequential"]), chance.randint(1, 9)
    loop = LOOP % (mode, width)
    text = TEXT % (BEST, loop, TOOL, LOOP % ("parallel", 80), TOOL)
    rig = PlayRig(lane)
    items = [chance.choice([i, f"i{i}", [i], {"i": i}, float(i)]) for i in range(70)]
    rig.request(text, workload={"items": items})
    waiting: list[Any] = []
    while True:
        while (job := rig.next_job()) is not None:
            waiting.append(job)
        if not waiting:
            return rig
        job = waiting.pop(chance.randrange(min(4, len(waiting))))
        if rig.world.intents.get(job.intent) is not None:
            rig.settle(job, result(chance))


@pytest.mark.clause("N-22", "K-19")
@pytest.mark.parametrize("seed", range(5))
def test_the_short_way_writes_the_same_bytes(seed: int) -> None:
    """PB-27, PB-23: the journals of both ways are equal, byte for byte, and every state fits."""
    short, long = Counted(), LongWay()
    one, other = played(short, seed), played(long, seed)
    assert short.kept > 20
    frames = [frame.body for frame in one.journal.read(one.world.id)]
    assert frames == [frame.body for frame in other.journal.read(other.world.id)]
    assert one.net()["status"] == other.net()["status"] is not None
    workflow = one.world.active.catalogue.workflows["sys/playbook@1"]
    states = [record.state for record in one.records(Ticked) if record.state is not None]
    notes = workflow.annotations
    assert notes is not None
    for record in one.records(Ticked):
        if record.ann is not None:
            notes.read(record.ann)
    for state in states:
        assert workflow.state.read(state).bytes == state
    params = one.world.active.catalogue.effects[builtin.STEP].params
    for opened in one.records(IntentOpened):
        if opened.effect == builtin.STEP and opened.params is not None:
            assert params.read(opened.params).bytes == opened.params
    assert one.verify().first is None


@pytest.mark.clause("N-22")
def test_what_an_iteration_writes() -> None:
    """PB-27: three records and at most 2 KiB an iteration, and a state that does not grow."""
    sizes: dict[int, int] = {}
    written: dict[int, int] = {}
    alone = len(canon.encode(NODE.sign(b"s")))
    shared = len(canon.encode(seal_batch(NODE, [b"s"] * SHARED_MAX)[0]))
    for n in (100, 600):
        rig = PlayRig()
        text = HEAD + "workload: {items: []}\nworkflow:\n  - {step: a, %s, %s}\n"
        rig.request(text % (LOOP % ("parallel", 32), TOOL), workload={"items": list(range(n))})
        while (job := rig.next_job()) is not None:
            rig.settle(job, done())
        assert rig.net()["status"] == "success"
        kinds = [type(record) for record in rig.records()]
        assert all(kinds.count(kind) <= n + 1 for kind in (Ticked, IntentOpened, ReceiptSettled))
        assert len(kinds) <= 3 * n + 10
        sizes[n] = max(record.size for record in rig.records(Ticked))
        wrote = sum(len(frame.body) for frame in rig.journal.read(rig.world.id))
        wrote += sum(size for _, size in rig.journal.blobs(rig.world.id))
        written[n] = wrote
    # Here every receipt is sealed alone; in a node sixteen share a signature, and a way to it.
    assert (written[600] - written[100]) / 500 + shared - alone <= 2048
    assert sizes[600] <= 16 * 1024
    assert sizes[600] <= 2 * sizes[100] + 600


@pytest.mark.clause("N-22")
def test_a_long_loop_folds_its_pages() -> None:
    """PB-15: a loop of many pages has every result, in order; no page is lost in folding."""
    n = 64 * 4 * 4 * 4 + 70
    text = (
        HEAD + "workload: {items: []}\nworkflow:\n  - {step: a, loop: {in: '{{ workload.items }}',"
    )
    text += " iterator: i, spec: {mode: parallel, max_in_flight: 50}}, tool: {kind: noop}}\n"
    rig = PlayRig()
    rig.request(text, workload={"items": list(range(n))})
    for _ in range(200):
        rig.pass_time(1)
        if rig.net()["status"] is not None:
            break
    net = rig.net()
    assert net["status"] == "success"
    assert net["counts"]["iterations"] == {"a": n}
    data = rig.driver.blobs.get(canon.raw_of(net["results"]["a"]["v"]["h"]))
    assert data is not None
    assert canon.decode(data)["stats"]["success"] == n


def test_a_step_beside_a_loop_goes_its_own_way() -> None:
    """PB-27: the answer of a single step moves no loop that runs beside it, and the net goes on."""
    loop = LOOP % ("sequential", 1)
    single = "tool: {kind: python, code: y}, next: {arcs: [{step: c}]}"
    text = TEXT % (BEST, loop, TOOL, single, "desc: alone") + "  - {step: c, tool: {kind: noop}}\n"
    journals = []
    for lane in (Builtin(), LongWay()):
        rig = PlayRig(lane)
        rig.request(text, workload={"items": [1, 2, 3]})
        by_step = {canon.decode(job.params)["step"]: job for job in rig.jobs.all}
        assert sorted(by_step) == ["a", "b"]
        rig.settle(by_step["b"], done(7))
        assert rig.net()["counts"]["step_runs"] == {"s": 1, "a": 1, "b": 1, "c": 1}
        while (job := rig.next_job()) is not None:
            if job is not by_step["b"]:
                rig.settle(job, done())
        assert rig.net()["status"] == "success"
        journals.append([frame.body for frame in rig.journal.read(rig.world.id)])
    assert journals[0] == journals[1]
