"""Garbage collection: what can still be opened loses nothing; what nothing names goes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tallystick.kernel.inputs import Activate, Settle
from tallystick.kernel.reach import Marks
from tallystick.kernel.roots import root
from tallystick.kernel.world import Settings
from tallystick.model.cells import CellId
from tallystick.model.records import EventAdmitted
from tallystick.modules.python import Outcome
from tallystick.node.worlds import ForkOrder, fork_world, marks_of, world_at
from tallystick.values import canon
from tests import worlds
from tests.kernel import mixed
from tests.kernel.parcels import planned
from tests.rig import Rig, bundle_of
from tests.sweeps import keep_only
from tests.worlds import CREATED, FUNCTIONS, ORDER, created, order_documents

FILE = "t/File@1"
KEEP = "t/keep@1"
HASH: dict[str, Any] = {"hash": {}}


def collect(rig: Rig) -> tuple[int, int]:
    """Mark from the live world and sweep; how many blobs went, and their bytes."""
    return keep_only(rig.journal, rig.world.id, marks_of(rig.journal, rig.world))


def held(rig: Rig) -> dict[bytes, bytes]:
    return rig.journal._books[rig.world.id].blobs


def check_whole(rig: Rig) -> None:
    """Everything that can be opened still can, to the same root."""
    assert root(rig.folded()) == rig.root()
    assert rig.reopened().root() == rig.root()
    assert rig.verify().first is None


@pytest.mark.slow
@pytest.mark.clause("K-38", "K-44")
@pytest.mark.invariant("I21")
@pytest.mark.parametrize("settings", [Settings(), Settings(cell_cache=1, resident_bytes_max=100)])
def test_collecting_during_load(settings: Settings) -> None:
    """KN-13: sweeps between random work, snapshots, spills and restarts lose nothing."""
    random = Random(13)
    rig = mixed.mixed_rig(settings)
    gone = 0
    for turn in range(30):
        for _ in range(6):
            do = random.choice(["note", "large", "ask", "keyed", "timer", "spawn", "call", "gone"])
            rig.send(worlds.GO, worlds.go(f"c{random.randrange(8)}", do, random.randrange(4)))
        for job in rig.jobs.all[::3]:
            rig.driver.offer(Settle(rig.clock.sample(), rig.receipt(job, {"a": "yes"})))
        rig.run()
        if turn % 3 == 0:
            rig.driver.snapshot()
        gone += collect(rig)[1]
        if turn % 5 == 4:
            check_whole(rig)
            rig = rig.reopened()
    rig.driver.snapshot()
    gone += collect(rig)[1]
    check_whole(rig)
    assert gone > 0, "older snapshots' nodes are unreachable"


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_every_sequence_can_still_be_looked_at() -> None:
    """I21: the journal tail reaches back to genesis, so every past world opens after a sweep."""
    rig = mixed.mixed_rig()
    mixed.play(rig)
    rig.driver.snapshot()
    roots = [root(world_at(rig.journal, rig.world.id, rig.runner, seq=s)) for s in range(1, 60)]
    collect(rig)
    again = [root(world_at(rig.journal, rig.world.id, rig.runner, seq=s)) for s in range(50, 60)]
    assert again == roots[49:]


@pytest.mark.clause("K-44")
def test_unreachable_bytes_go() -> None:
    """KN-13: a blob that nothing names, and the nodes of a forgotten snapshot, are removed."""
    rig = mixed.mixed_rig()
    stray = b"nobody asked for this"
    rig.driver.blobs.put(canon.digest_of(stray), stray)
    rig.send(worlds.GO, worlds.go("a"))
    assert canon.digest_of(stray) in held(rig)
    count, size = collect(rig)
    assert (count, size) == (1, len(stray))
    assert collect(rig) == (0, 0), "a second sweep finds nothing"
    check_whole(rig)


# tidy: one world is one literal.
def filing_documents(version: int = 1) -> list[Any]:
    """A workflow that keeps the hash it was sent; an effect that is asked and answered by hash.

    In the second version its state has another shape.
    """
    file = worlds.record(id=worlds.TEXT, content=HASH, ask={"bool": {}})
    return [
        worlds.schema("t/Id@1", worlds.TEXT),
        worlds.schema(FILE, file),
        worlds.schema("t/Filing@1", worlds.arms(File=FILE, Receipt=worlds.RECEIPT)),
        worlds.schema("t/Kept@1", worlds.record(content=HASH)),
        worlds.schema("t/Kept@2", worlds.record(files={"list": HASH})),
        worlds.schema("t/Look@1", worlds.record(content=HASH, pad=worlds.TEXT)),
        worlds.schema("t/Seen@1", worlds.record(copy=HASH, pad=worlds.TEXT)),
        worlds.module(),
        worlds.outside(),
        worlds.effect("t/look@1", "t/Look@1", "t/Seen@1"),
        worlds.workflow(
            KEEP,
            f"t/Kept@{version}",
            "t/Filing@1",
            key_schema="t/Id@1",
            state_version=version,
            effects_emitted=["t/look@1"],
            cap_slots={"any": "effect"},
        ),
        worlds.ALLOW,
        worlds.manifest(
            [{"event": FILE, "workflow": KEEP, "key_field": "id"}],
            **worlds.allow_all("sys/effect@1", bindings={KEEP: {"any": "effect"}}),
        ),
    ]


def filing_rig(function: Any = None) -> Rig:
    """A world that files."""
    return Rig(filing_documents(), {("t/code@1", "keep"): function or keep})


OWN = b"a file that no event names"


def own_files(_state: Any, _event: Any, _ctx: Any) -> Any:
    return Outcome({"content": canon.hash_of(OWN)})


SERIES = (b"the first file", b"the second file")


def one_by_one(state: Any, _event: Any, _ctx: Any) -> Any:
    return Outcome({"content": canon.hash_of(SERIES[0 if state is None else 1])})


def keep(state: Any, event: Any, ctx: Any) -> Any:
    value = event["$value"]
    if event["$tag"] != "File":
        return Outcome(state)
    kept = {"content": value["content"]}
    if not value["ask"]:
        return Outcome(kept)
    params = {"content": value["content"], "pad": "x" * 70_000}
    return Outcome(kept, effects=[{"effect": "t/look@1", "params": params, "cap_slot": "any"}])


def put(rig: Rig, data: bytes) -> str:
    rig.driver.blobs.put(canon.digest_of(data), data)
    return canon.hash_of(data)


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_typed_hashes_are_followed() -> None:
    """I21: a blob named by a typed `hash` of state or event stays, with what its edges name."""
    rig = filing_rig()
    inner = put(rig, b"inner")
    edge = put(rig, canon.encode({"$type": "blob_edge@1", "refs": [inner]}))
    rig.send(FILE, {"id": "a", "content": edge, "ask": False})
    rig.driver.snapshot()
    stray = put(rig, b"stray")
    rig.send(FILE, {"id": "b", "content": edge, "ask": False})
    assert collect(rig)[0] >= 1
    assert canon.raw_of(inner) in held(rig)
    assert canon.raw_of(edge) in held(rig)
    assert canon.raw_of(stray) not in held(rig)


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
@pytest.mark.parametrize("parked", [False, True], ids=["in a record", "in a leaf"])
def test_a_hash_that_only_a_small_state_names(parked: bool) -> None:
    """I21: a state inline in its record, or in its leaf, keeps what it names all the same."""
    rig = filing_rig(own_files)
    kept = put(rig, OWN)
    rig.send(FILE, {"id": "a", "content": canon.hash_of(b"never stored"), "ask": False})
    if parked:
        rig.driver.snapshot()
    stray = put(rig, b"stray")
    rig.send(FILE, {"id": "b", "content": canon.hash_of(b"never stored"), "ask": False})
    assert collect(rig)[0] >= 1
    assert canon.raw_of(kept) in held(rig)
    assert canon.raw_of(stray) not in held(rig)


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_large_params_and_payloads_are_followed() -> None:
    """I21: hashes inside parameters and payloads too large to stand inline are followed too."""
    rig = filing_rig()
    content, copy = put(rig, b"content"), put(rig, b"copy")
    rig.send(FILE, {"id": "a", "content": content, "ask": True})
    (job,) = rig.jobs.all
    collect(rig)
    assert canon.raw_of(content) in held(rig)
    copy = put(rig, b"copy")
    rig.settle(job, {"copy": copy, "pad": "y" * 70_000})
    collect(rig)
    assert canon.raw_of(copy) in held(rig)
    check_whole(rig)


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_what_a_pinned_cell_names_is_kept() -> None:
    """I21: a state of before an upgrade is not of the active schema; what it names stays."""
    rig = filing_rig(one_by_one)
    for data in SERIES:
        put(rig, data)
    nothing = canon.hash_of(b"never stored")
    rig.send(FILE, {"id": "a", "content": nothing, "ask": False})
    manifest, blobs = bundle_of(filing_documents(2))
    sample, plan = rig.clock.sample(), planned(rig, "pin")
    rig.do(Activate(sample, manifest, manifest, rig.manifest, blobs, "alice", plan))
    stray = put(rig, b"stray")
    rig.send(FILE, {"id": "a", "content": nothing, "ask": False})
    assert rig.state(KEEP, "a") == {"content": canon.hash_of(SERIES[1])}
    assert collect(rig)[0] >= 1
    assert {canon.digest_of(data) for data in SERIES} <= held(rig).keys()
    assert canon.raw_of(stray) not in held(rig)
    check_whole(rig)


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_a_snapshot_alone_keeps_the_definitions_of_its_manifest() -> None:
    """I21: where the frames before a snapshot are gone, it still opens: its definitions stay."""
    rig = filing_rig()
    rig.send(FILE, {"id": "a", "content": canon.hash_of(b"never stored"), "ask": False})
    rig.driver.snapshot()
    (row,) = rig.journal.snapshots(rig.world.id)
    marks = Marks(rig.driver.blobs, rig.world.catalogue)
    marks.snapshot(row.document)
    assert bundle_of(filing_documents())[1].keys() <= marks.digests()


@pytest.mark.clause("K-44")
def test_lost_bytes_do_not_hinder_a_collection() -> None:
    """K-44: an event whose bytes a disk has lost names nothing any more; the rest is collected.

    What others name stays: `verify` and not the collector says what is missing.
    """
    rig = Rig(order_documents(), FUNCTIONS)
    rig.send(CREATED, {**created("o-1"), "note": "x" * 70_000})
    (event,) = [each for each in rig.records(EventAdmitted) if each.schema == CREATED]
    assert event.value is None
    stray = put(rig, b"stray")
    rig.send(CREATED, created("o-2"))
    del held(rig)[event.value_hash]
    assert collect(rig)[0] == 1
    assert canon.raw_of(stray) not in held(rig)
    assert rig.reopened().root() == rig.root()


@pytest.mark.clause("K-44", "X-08")
@pytest.mark.invariant("I7", "I21")
def test_a_parent_keeps_what_its_forks_read() -> None:
    """KN-13: a sweep of the parent leaves a fork's snapshot readable, and its past too."""
    rig = Rig(order_documents(), FUNCTIONS)
    for i in range(40):
        rig.send(CREATED, created(f"o-{i}"))
    rig.driver.snapshot()
    order = ForkOrder(rig.world.id, "11111111-1111-4111-8111-111111111111")
    forked = fork_world(rig.ports(), order, rig.runner)
    forked.snapshot()
    wanted = root(forked.world)
    for i in range(40):
        rig.settle(rig.jobs.all[i], {"ref": "r"})
    rig.driver.snapshot()
    gone, _ = collect(rig)
    assert gone > 0, "the parent's older index is no longer pinned by itself"
    again = world_at(rig.journal, forked.world.id, rig.runner)
    assert root(again) == wanted
    for i in range(40):
        cell = again.cell(CellId(ORDER, canon.encode(f"o-{i}")))
        assert cell is not None
        assert again.state_of(cell) is not None
    for seq in (10, 60, 100):
        assert world_at(rig.journal, rig.world.id, rig.runner, seq=seq).seq >= seq
