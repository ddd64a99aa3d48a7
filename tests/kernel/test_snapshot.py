"""Snapshots: what is pinned, what it costs, and when entries become clean."""

# tidy: plan, promotion, opening and evidence are one story of what a snapshot pins.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import JournalCorrupt, NotQuiescent
from tallystick.kernel import snapshot
from tallystick.kernel.inputs import Settle, Submit, TakeSnapshot
from tallystick.kernel.replay import open_world
from tallystick.kernel.roots import root, state_root
from tallystick.kernel.snapshot import plan_of
from tallystick.kernel.world import Settings, World
from tallystick.model.cells import CellId
from tallystick.model.records import Dropped, Noted, SnapshotTaken
from tallystick.values import canon
from tests import worlds
from tests.kernel import mixed
from tests.rig import OUTSIDER, Rig


class Forbidden:
    """A runner whose every call is a failure: opening a world runs no module code (D2)."""

    def _fail(self, *_: Any) -> Any:
        raise AssertionError("module code ran while opening")

    tick = init = pure = _fail


def test_it_refuses_while_cells_are_ready() -> None:
    """K-42: a snapshot needs an idle ring, and says so."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a"), run=False)
    with pytest.raises(NotQuiescent) as caught:
        rig.do(TakeSnapshot(rig.clock.sample()))
    assert caught.value.code == "snapshot.busy"


@pytest.mark.clause("K-42", "K-19")
def test_open_intents_and_waiting_mail_are_in_it() -> None:
    """K-42: intents, keys, timers, suspended mail and fence are there after opening from it."""
    rig = mixed.mixed_rig()
    for do in ("ask", "keyed", "timer", "hurry"):
        rig.send(worlds.GO, worlds.go("a", do, 3), idem_key=do.encode())
    rig.operate("suspend", worlds.LAB, "a")
    rig.send(worlds.GO, worlds.go("a", "note"))
    rig.driver.snapshot()
    taken = rig.records(SnapshotTaken)[-1]
    again = rig.reopened()
    assert again.root() == rig.root()
    assert taken.cells == 1
    cell = again.cell(worlds.LAB, "a")
    assert (len(cell.inflight), len(cell.keyed), len(cell.mailbox)) == (4, 1, 1)
    answer = again.send(worlds.GO, worlds.go("a", "ask", 3), idem_key=b"ask")
    assert answer.kind == "seen"
    again.operate("resume", worlds.LAB, "a")
    again.pass_time(9 * mixed.HOUR_NS)
    log = again.state(worlds.LAB, "a")["log"]
    assert log[4] == "note"
    assert sorted(log[5:]) == ["ok:", "timeout:"]


@pytest.mark.clause("K-43")
@pytest.mark.invariant("I2")
def test_opening_is_lazy_and_runs_no_code() -> None:
    """K-43, D2: opening from a snapshot loads no cell until one is asked for."""
    rig = mixed.mixed_rig()
    for i in range(50):
        rig.send(worlds.GO, worlds.go(f"c{i}"))
    rig.driver.snapshot()
    row = rig.journal.snapshots(rig.world.id)[-1]
    world = snapshot.load(row.document, rig.driver.blobs, Forbidden())
    store = world.cells[worlds.LAB]
    assert (len(store.delta), len(store._hot)) == (0, 0)
    assert state_root(world) == rig.records(SnapshotTaken)[-1].state_root
    assert world.cell_count == 50


@pytest.mark.clause("K-42")
def test_the_record_pins_both_roots_as_of_the_record_before() -> None:
    """03 section 9: `root` and `state_root` of SnapshotTaken are those just before it."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask"))
    before = (rig.root(), rig.state_root())
    rig.driver.snapshot()
    taken = rig.records(SnapshotTaken)[-1]
    assert (taken.root, taken.state_root) == before
    assert rig.state_root() == before[1], "taking one moves no state"
    assert rig.root() != before[0], "but the journal is longer"
    assert rig.verify().first is None


@pytest.mark.clause("K-42")
def test_cost_grows_with_what_is_dirty() -> None:
    """KN-12: 20,000 cells, 200 dirty: under 3 % of a full materialisation, in nodes written."""
    rig = Rig(worlds.order_documents(), worlds.FUNCTIONS, settings=Settings(cell_cache=64))
    for i in range(20_000):
        rig.driver.offer(Submit(rig.clock.sample(), worlds.CREATED, worlds.created(f"o-{i}")))
    rig.run()
    whole = plan_of(rig.world, {}).written
    rig.driver.snapshot()
    jobs = rig.jobs.all[::100]
    for job in jobs:
        rig.driver.offer(Settle(rig.clock.sample(), rig.receipt(job, {"ref": "x"}), seal_ok=True))
    rig.run()
    store = rig.world.cells[worlds.ORDER]
    assert len(store.delta) == 200
    part = plan_of(rig.world, {}).written
    assert 200 <= part < 0.03 * whole
    rig.driver.snapshot()
    assert not store.delta
    assert plan_of(rig.world, {}).written == 0


@pytest.mark.invariant("I20")
@pytest.mark.parametrize("late", ["gone", "done", "ask", "note"])
def test_frames_behind_an_undurable_snapshot_stay_dirty(late: str) -> None:
    """I20: what a commit holds behind a snapshot is not undone when the snapshot is promoted."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask"))
    rig.send(worlds.GO, worlds.go("b", "keyed"))
    (job, *_) = rig.jobs.all
    for _ in range(2):
        rig.driver.offer(TakeSnapshot(rig.clock.sample()))
        rig.driver.step()
        rig.driver.offer(Settle(rig.clock.sample(), rig.receipt(job, {"a": "yes"})))
        rig.driver.step()
        rig.driver.offer(Submit(rig.clock.sample(), worlds.GO, worlds.go("b", late)))
        while rig.driver.step():
            pass
    rig.driver.flush()
    assert rig.root() == root(rig.folded())
    assert rig.world.intents.get(job.intent) is None
    assert rig.reopened().root() == rig.root()


@pytest.mark.invariant("I20")
def test_nothing_is_clean_before_the_commit() -> None:
    """I20: a staged snapshot leaves the delta as it was; the commit clears it."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a"))
    store = rig.world.cells[worlds.LAB]
    rig.driver.offer(TakeSnapshot(rig.clock.sample()))
    rig.driver.step()
    assert len(store.delta) == 1
    rig.driver.flush()
    assert len(store.delta) == 0


def played(settings: Settings, *, snapshots: bool) -> Rig:
    rig = mixed.mixed_rig(settings)
    mixed.play(rig)
    if snapshots:
        rig.driver.snapshot()
        for i in range(20):
            rig.send(worlds.GO, worlds.go(f"c{i}", "note"))
    return rig


@pytest.mark.clause("K-40", "K-41", "K-43")
@pytest.mark.invariant("I20")
@pytest.mark.parametrize("cache", [1, 64, 4096, 10**9])
@pytest.mark.parametrize("resident", [0, 300, 10**9])
def test_cache_and_spill_change_nothing(cache: int, resident: int) -> None:
    """KN-11: cache size 1, 64, 4096, unlimited, and any spill bound give the same roots."""
    plain = played(Settings(), snapshots=True)
    rig = played(Settings(cell_cache=cache, resident_bytes_max=resident), snapshots=True)
    assert rig.root() == plain.root()
    assert rig.reopened(Settings(cell_cache=2, resident_bytes_max=10)).root() == plain.root()


@pytest.mark.clause("K-41")
def test_a_cell_counts_once_however_often_it_ticks() -> None:
    """K-41: what is resident is the state a dirty cell has now, not every state it has had."""
    rig = mixed.mixed_rig()
    for i in range(40):
        rig.send(worlds.GO, worlds.go(f"c{i % 2}"))
    held = [cell for cell in rig.world.cells[worlds.LAB].delta.values() if cell is not None]
    assert len(rig.world.resident) == len(held) == 2
    assert rig.world.resident_bytes == sum(cell.size for cell in held)


@pytest.mark.clause("K-41")
def test_spilled_states_leave_memory_and_stay_dirty() -> None:
    """K-41: over the bound the oldest dirty states go to the blob store; the cells stay dirty."""
    rig = mixed.mixed_rig(Settings(resident_bytes_max=100))
    for i in range(30):
        rig.send(worlds.GO, worlds.go(f"c{i}"))
    store = rig.world.cells[worlds.LAB]
    held = [cell for cell in store.delta.values() if cell is not None and cell.state is not None]
    assert len(store.delta) == 30
    assert sum(cell.size for cell in held) <= 100
    assert rig.state(worlds.LAB, "c0") == {"id": "c0", "log": ["note"]}
    assert root(rig.folded()) == rig.root()


@pytest.mark.clause("K-43")
@pytest.mark.invariant("I20")
@pytest.mark.parametrize("resident", [0, 10**9], ids=["spilled", "in memory"])
def test_a_cold_cell_is_one_read(resident: int) -> None:
    """ADR 0009: behind warm branches, a cell with a small state costs one blob, spilled or not."""
    rig = mixed.mixed_rig(Settings(cell_cache=1, resident_bytes_max=resident))
    for i in range(40):
        rig.send(worlds.GO, worlds.go(f"c{i}"))
    rig.driver.snapshot()
    read: list[bytes] = []
    blobs = rig.world.blobs
    rig.world.rehouse(Watched(blobs, read))
    for i in range(40):
        cell = rig.world.cell(CellId(worlds.LAB, canon.encode(f"c{i}")))
        assert cell is not None
        assert rig.world.state_of(cell) is not None
    assert 39 <= len(read) <= 40, "one for each but the one that is still in the cache"
    assert root(rig.folded()) == rig.root()


class Watched:
    """A blob store that notes what is read."""

    def __init__(self, blobs: Any, read: list[bytes]) -> None:
        self._blobs = blobs
        self._read = read

    def get(self, digest: bytes) -> bytes | None:
        self._read.append(digest)
        found: bytes | None = self._blobs.get(digest)
        return found

    def put(self, digest: bytes, data: bytes) -> None:
        self._blobs.put(digest, data)

    def place(self) -> bytes:
        place: bytes = self._blobs.place()
        return place


@pytest.mark.parametrize("damage", ["gone", "changed", "other"])
def test_a_damaged_snapshot_is_not_read(damage: str) -> None:
    """F4: a snapshot document that is missing, changed or something else stops the opening."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a"))
    rig.driver.snapshot()
    row = rig.journal.snapshots(rig.world.id)[-1]
    blobs = rig.journal._books[rig.world.id].blobs
    digest = row.document
    if damage == "gone":
        del blobs[digest]
    elif damage == "changed":
        blobs[digest] += b"\x00"
    else:
        other = canon.encode({"$type": "snapshot@9"})
        digest = canon.digest_of(other)
        blobs[digest] = other
    with pytest.raises(JournalCorrupt) as caught:
        open_world(rig.world.id, [], rig.driver.blobs, rig.runner, pinned=digest)
    assert caught.value.exit_code == 4


# ---- evidence is bounded --------------------------------------------------------------------


@pytest.mark.clause("K-18")
@pytest.mark.invariant("I3", "I22")
def test_ten_thousand_forgeries_leave_sixteen_records() -> None:  # tidy: one long story
    """MO-22: at most 16 drops per reason, one count at the next snapshot, the state root equal."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask"))
    (job,) = rig.jobs.all
    state = rig.state_root()
    forged = rig.receipt(job, {"a": "no"}, pair=OUTSIDER)
    broken = rig.receipt(job, {"a": "no"})._replace(payload=canon.encode({"a": "other"}))
    unknown = rig.receipt(job._replace(intent=bytes(32)), {"a": "no"})
    for _ in range(3_334):
        for receipt in (forged, broken, unknown):
            rig.driver.offer(Settle(rig.clock.sample(), receipt))
    rig.run()
    reasons = [record.reason for record in rig.records(Dropped)]
    assert {reason: reasons.count(reason) for reason in reasons} == {
        "untrusted_key": 16,
        "bad_seal": 16,
        "unknown": 16,
    }
    assert rig.state_root() == state
    rig.driver.snapshot()
    (noted,) = rig.records(Noted)
    rest = 3_334 - 16
    assert noted.topic == "dropped.more"
    assert noted.data == {"untrusted_key": rest, "bad_seal": rest, "unknown": rest}
    rig.driver.snapshot()
    assert len(rig.records(Noted)) == 1, "a count is told once"
    again = rig.reopened()
    again.do(Settle(again.clock.sample(), forged))
    assert len(again.records(Dropped)) == 48, "the bound survives a restart"
    again.settle(job, {"a": "yes"})
    assert again.state(worlds.LAB, "a")["log"] == ["ask", "ok:r0"]


# ---- no module code on opening --------------------------------------------------------------

OLD, NEW = "t/Old@1", "t/Old@2"


def pure_documents() -> list[dict[str, Any]]:  # tidy: a table of definitions
    """A world whose routing calls module code: key function, init function and upcast."""
    return [
        worlds.schema("t/Bucket@1", worlds.NAT),
        worlds.schema(OLD, worlds.record(n=worlds.NAT)),
        worlds.schema(NEW, worlds.record(n=worlds.NAT, twice=worlds.NAT)),
        worlds.schema("t/Sum@1", worlds.record(sum=worlds.NAT)),
        worlds.module(),
        worlds.module(
            "t/pure@1",
            pure={
                "bucket": {"input": NEW, "output": "t/Bucket@1"},
                "start": {"input": NEW, "output": "t/Sum@1"},
                "up": {"input": OLD, "output": NEW},
            },
        ),
        worlds.workflow("t/sums@1", "t/Sum@1", NEW, key_schema="t/Bucket@1"),
        {
            "$kind": "defupcast",
            "name": "t/old-1-2@1",
            "from": OLD,
            "to": NEW,
            "impl": {"module": "t/pure@1", "entrypoint": "up"},
        },
        worlds.manifest(
            [
                {
                    "event": NEW,
                    "workflow": "t/sums@1",
                    "key_fn": {"module": "t/pure@1", "entrypoint": "bucket"},
                    "init_fn": {"module": "t/pure@1", "entrypoint": "start"},
                }
            ]
        ),
    ]


PURE = {
    ("t/code@1", "sums"): lambda state, event, ctx: {"sum": state["sum"] + event["twice"]},
    ("t/pure@1", "bucket"): lambda given: {"output": given["input"]["n"] % 2},
    ("t/pure@1", "start"): lambda given: {"output": {"sum": 1000}},
    ("t/pure@1", "up"): lambda given: {
        "output": {"n": given["input"]["n"], "twice": 2 * given["input"]["n"]}
    },
}


@pytest.mark.clause("X-20", "X-01")
@pytest.mark.invariant("I28")
def test_opening_calls_no_module_code() -> None:
    """MO-21: keys, first states and upcast values are on record: opening asks no function."""
    rig = Rig(pure_documents(), PURE)  # type: ignore[arg-type]
    for n in range(6):
        rig.send(OLD, {"n": n})
    assert rig.state("t/sums@1", 0) == {"sum": 1000 + 2 * (0 + 2 + 4)}
    assert rig.state("t/sums@1", 1) == {"sum": 1000 + 2 * (1 + 3 + 5)}
    opened: World = rig.folded(runner=Forbidden())
    assert root(opened) == rig.root()
    verified = rig.verify()
    assert verified.first is None
    assert verified.ticks == 6
    with pytest.raises(AssertionError, match="module code ran"):
        rig.verify(runner=Forbidden())
