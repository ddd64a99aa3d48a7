"""Folding and verifying what no healthy run writes: forged frames, odd records, full tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tallystick.errors import JournalCorrupt
from tallystick.kernel import replay
from tallystick.kernel.fold import fold
from tallystick.kernel.inputs import Operate
from tallystick.kernel.reach import Marks
from tallystick.kernel.replay import Found, fold_frames, open_world, verify
from tallystick.kernel.world import RECENT_MAX
from tallystick.model import records
from tallystick.model.frames import Sealed, open_frame, seal_frame
from tallystick.model.records import EventAdmitted, ReceiptSettled, SnapshotTaken, Ticked
from tallystick.values import canon
from tests import worlds
from tests.kernel import mixed
from tests.kernel.test_fork import child_rig
from tests.rig import START_NS, Rig, check

STAMP = records.Stamp(START_NS, START_NS + 10**15, b"e" * 64)
Forge = Callable[[list[Any]], Sequence[Any]]


def forged(rig: Rig, kind: type, forge: Forge) -> Found:
    """The first difference when the last frame that begins with that record is forged."""
    frames = list(rig.journal.read(rig.world.id))
    at = max(i for i, frame in enumerate(frames) if isinstance(open_frame(frame.body)[3][0], kind))
    name, seq, prev, held = open_frame(frames[at].body)
    frames[at] = seal_frame(name, seq, prev, list(forge(held)))
    world = open_world(rig.world.id, [], rig.driver.blobs, rig.runner)
    found = verify(world, frames[: at + 1]).first
    assert found is not None
    assert found.seq >= seq
    assert found.error().code == "replay.diverged"
    return found


def played() -> Rig:
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask", 1))
    rig.settle(rig.jobs.all[0], {"a": "yes"})
    rig.send(worlds.GO, worlds.go("b", "ask", 2))
    rig.driver.snapshot()
    return rig


@pytest.mark.clause("K-19")
@pytest.mark.invariant("I2")
@pytest.mark.parametrize(
    ("kind", "forge", "field"),
    [
        (EventAdmitted, lambda held: [held[0]._replace(value=b"\x00"), *held[1:]], "record"),
        (EventAdmitted, lambda held: [held[0]._replace(to=()), *held[1:]], "to"),
        (Ticked, lambda held: [held[0]._replace(events=7), *held[1:]], "events"),
        (Ticked, lambda held: held[:1], "record"),
        (Ticked, lambda held: [*held, held[0]], "record"),
        (Ticked, lambda held: [held[0], held[0], *held[2:]], "record"),
        (SnapshotTaken, lambda held: [held[0]._replace(state_root=b"r" * 32)], "state_root"),
        (SnapshotTaken, lambda held: [held[0]._replace(root=b"r" * 32)], "root"),
    ],
)
def test_a_forged_frame_is_found_where_it_differs(kind: type, forge: Forge, field: str):
    """KN-03: verification names the sequence and the field of the first difference."""
    rig = played()
    assert rig.verify().first is None
    assert forged(rig, kind, forge).field == field


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("damage", ["bytes", "gap", "order"])
def test_a_frame_out_of_its_place_is_damage(damage: str):
    """I10: changed bytes, a missing frame and two that changed places are found before use."""
    rig = played()
    frames = list(rig.journal.read(rig.world.id))
    if damage == "bytes":
        frames[2] = Sealed(*[frames[3].body if v == frames[2].body else v for v in frames[2]])  # type: ignore[arg-type]
    elif damage == "gap":
        del frames[2]
    else:
        frames[2], frames[3] = frames[3], frames[2]
    world = open_world(rig.world.id, [], rig.driver.blobs, rig.runner)
    with pytest.raises(JournalCorrupt) as caught:
        fold_frames(world, frames)
    assert caught.value.where == {"world": rig.world.id, "seq": world.seq + 1}
    assert world.seq == open_frame(frames[1].body)[1] + len(open_frame(frames[1].body)[3]) - 1


@pytest.mark.clause("X-08")
def test_a_restored_world_holds_what_was_open():
    """KN-14: after a restore every open intent is held, and no timer fires by itself."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask", 1))
    rig.send(worlds.GO, worlds.go("b", "timer", 1))
    world = rig.folded()
    assert world.timers.first() is not None
    fold(world, records.WorldRestored("backup", bytes(32), "alice", STAMP))
    held = [intent.hold for _, intent in world.intents.entries()]
    assert [hold and hold["kind"] for hold in held] == ["restore", "restore"]
    assert world.timers.first() is None
    assert world.logical_ns == STAMP.logical_ns


@pytest.mark.clause("X-08")
def test_a_released_timer_fires_in_the_fork():
    """I7: a timer that the fork holds waits for ever, and fires once it is released."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "timer", 1))
    child = child_rig(rig, 1, None)
    (held,) = [path for path, _ in child.world.intents.entries()]
    child.pass_time(50 * mixed.HOUR_NS)
    assert not child.records(ReceiptSettled)
    child.do(Operate(child.clock.sample(), "release", "alice", "go on", intent=held))
    child.pass_time(1)
    assert [record.intent for record in child.records(ReceiptSettled)] == [held]


def test_a_revocation_of_an_unknown_key_changes_no_trust():
    """D1: fold never refuses; a record about a key that is not there leaves the keys alone."""
    world = played().folded()
    before = dict(world.keys)
    fold(world, records.KeyRevoked("0" * 16, "alice", "lost", STAMP))
    assert world.keys == before


@pytest.mark.invariant("I20")
def test_the_memory_of_settled_intents_is_bounded():
    """I20: when it is full the oldest is forgotten, together with its evidence."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask", 1))
    rig.send(worlds.GO, worlds.go("b", "ask", 1))
    world = rig.world
    for number in range(RECENT_MAX - 1):
        world.recent[number.to_bytes(32)] = "ok"
    oldest, second = bytes(32), (1).to_bytes(32)
    world.drops[oldest] = {"duplicate": 3}
    world.drops[second] = {"duplicate": 4}
    first, job = rig.jobs.all
    rig.settle(first, {"a": "yes"})
    assert len(world.recent) == RECENT_MAX
    assert world.drops[oldest] == {"duplicate": 3}
    rig.settle(job, {"a": "yes"})
    assert len(world.recent) == RECENT_MAX
    assert oldest not in world.recent
    assert oldest not in world.drops
    assert world.recent[job.intent] == "ok"
    assert world.drops[second] == {"duplicate": 4}


@pytest.mark.clause("K-44")
def test_marks_are_set_once_and_follow_waiting_mail():
    """KN-13: a second look at a snapshot adds nothing; waiting mail keeps what it names."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "note"))
    rig.operate("suspend", worlds.LAB, "a")
    rig.send(worlds.GO, worlds.go("a", "later"))
    rig.driver.snapshot()
    (row,) = rig.journal.snapshots(rig.world.id)
    marks = Marks(rig.driver.blobs, rig.world.catalogue)
    marks.snapshot(row.document)
    once = marks.digests()
    marks.snapshot(row.document)
    assert marks.digests() == once
    assert rig.world.manifest in once
    whole = rig.reopened()
    whole.operate("resume", worlds.LAB, "a")
    assert whole.state(worlds.LAB, "a")["log"] == ["note", "later"]


@pytest.mark.clause("K-44")
def test_bytes_that_only_look_like_documents_name_nothing():
    """KN-13: content of users may begin like a document; it is kept and not followed."""
    rig = mixed.mixed_rig()
    odd = canon.PREFIX + b"\xff\xff"
    rig.driver.blobs.put(canon.digest_of(odd), odd)
    marks = Marks(rig.driver.blobs, rig.world.catalogue)
    fields: dict[str, Any] = dict.fromkeys(records.ProgressNoted._fields)
    marks.record(records.ProgressNoted(**{**fields, "payload": b"\xff not canonical"}))
    assert marks.digests() == frozenset()
    text = canon.encode({"see": canon.hash_of(odd)})
    marks.record(records.ProgressNoted(**{**fields, "payload": text}))
    assert marks.digests() == frozenset({canon.digest_of(odd)})


@pytest.mark.clause("K-35")
def test_mail_beyond_the_first_is_counted():
    """KN-19: a cell that ends with much mail leaves sixteen records and one count."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "note"))
    rig.operate("suspend", worlds.LAB, "a")
    for _ in range(20):
        rig.send(worlds.GO, worlds.go("a", "note"))
    rig.operate("cancel", worlds.LAB, "a", force=True)
    dropped = [record for record in rig.records(records.Dropped) if record.what == "mail"]
    (noted,) = [r for r in rig.records(records.Noted) if r.topic == "mail.dropped"]
    assert len(dropped) == 16
    assert noted.data["count"] + len(dropped) in (20, 21)
    check(rig)


@pytest.mark.clause("K-19")
@pytest.mark.invariant("I17")
def test_a_tick_while_nothing_is_ready_is_a_difference() -> None:
    """KN-03: a frame that says a cell ran, where none was ready, is named by its seq."""
    rig = played()
    frames = list(rig.journal.read(rig.world.id))
    at = next(i for i, f in enumerate(frames) if isinstance(open_frame(f.body)[3][0], Ticked))
    world = open_world(rig.world.id, frames[: at + 1], rig.driver.blobs, rig.runner)
    assert not world.ring, "the one delivery was handled"
    verified = verify(world, [frames[at]])
    assert verified.first is not None
    assert verified.first.seq == world.seq + 1
    assert verified.first.field == "record"
    assert verified.ticks == 0


@pytest.mark.clause("K-19")
def test_what_another_engine_version_counted_is_taken_over() -> None:
    """AU-21: a tick and a fault are compared under the fuel and the engine of their record."""
    rig = played()
    ticked = next(each for each in rig.records() if isinstance(each, Ticked))
    names = ("workflow", "key", "input_seq", "input_index")
    place = {name: getattr(ticked, name) for name in names}
    fault = records.WorkflowFaulted(
        **place, code="trap", message="m", limit=None, fuel=5, engine="wasmtime/2", action="failed"
    )
    first = ticked._replace(fuel=7, engine="wasmtime/1")
    for made in (ticked._replace(fuel=5, engine="wasmtime/2"), fault):
        assert replay._is_elsewhere(first, made)
        counted: Any = replay._counted_as(first, made)
        assert counted == made._replace(fuel=7, engine="wasmtime/1")
