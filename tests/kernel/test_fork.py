"""Forks and time travel: equal there, isolated both ways, nothing copied."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tallystick.errors import Rejected, UnknownName
from tallystick.journal.memory import MemoryJournal
from tallystick.kernel.inputs import Operate
from tallystick.kernel.replay import fold_frames, open_world
from tallystick.kernel.roots import root, state_root
from tallystick.model.records import ReceiptSettled, WorldForked
from tallystick.node.driver import Driver
from tallystick.node.worlds import ForkOrder, fork_world, world_at
from tests import worlds
from tests.kernel import mixed
from tests.rig import Jobs, Rig

FORKS = 100


def child_id(n: int) -> str:
    return f"0b7e4f7a-6b3c-4a57-9f0e-{n:012x}"


def child_rig(rig: Rig, n: int, seq: int | None, **order: Any) -> Rig:
    """A fork of a rig's world as a rig of its own, with its own outbox."""
    other = object.__new__(Rig)
    other.__dict__.update(rig.__dict__)
    other.jobs = Jobs()
    made = ForkOrder(rig.world.id, child_id(n), seq, **order)
    driver: Driver = fork_world(other.ports(), made, rig.runner, rig.settings)
    other.driver = driver
    return other


def histories(rig: Rig) -> dict[int, tuple[bytes, bytes]]:
    """The state root and root at the end of every frame."""
    world = open_world(rig.world.id, [], rig.driver.blobs, rig.runner)
    found: dict[int, tuple[bytes, bytes]] = {}
    for frame in rig.journal.read(rig.world.id):
        fold_frames(world, [frame])
        found[world.seq] = (state_root(world), root(world))
    return found


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I7")
def test_forks_at_a_hundred_sequences() -> None:
    """KN-14, AG-29: at 100 random seqs the parent pointer is the root there, both worlds have one
    state root as of it, and neither side sees the other; the one frame it writes does not grow
    with the world.
    """
    rig = mixed.mixed_rig()
    mixed.play(rig)
    known = histories(rig)
    ends = sorted(known)
    parent = (rig.root(), list(rig.journal.read(rig.world.id)))
    random = Random(7)
    for n in range(FORKS):
        seq = random.randint(1, ends[-1])
        end = next(e for e in ends if e >= seq)
        child = child_rig(rig, n, seq)
        own = [f for f in rig.journal.read(child.world.id) if f.world == child.world.id]
        (forked,) = [r for r in child.records(WorldForked) if r.world == child.world.id]
        assert (forked.at_seq, forked.root) == (end, known[end][1])
        assert len(own) == 1
        assert len(rig.journal._books[child.world.id].blobs) == 0
        child.send(worlds.GO, worlds.go("fork", "ask", n % 4))
        assert child.state(worlds.LAB, "fork") is not None
        assert root(child.folded()) == child.root()
        then = world_at(rig.journal, child.world.id, rig.runner, seq=end)
        assert state_root(then) == known[end][0]
    assert (rig.root(), list(rig.journal.read(rig.world.id))) == parent
    assert rig.state(worlds.LAB, "fork") is None


@pytest.mark.clause("X-08")
def test_at_the_fork_point_both_have_one_state_root() -> None:
    """KN-14, AG-29: with nothing pending the fork's state root is the parent's at that sequence."""
    rig = mixed.mixed_rig()
    for n in range(20):
        rig.send(worlds.GO, worlds.go(f"c{n % 5}", "note"))
    known = histories(rig)
    for n, seq in enumerate(sorted(known)[2:]):
        child = child_rig(rig, n, seq)
        assert child.state_root() == known[seq][0]
        assert child.root() != known[seq][1], "another world, another place"


@pytest.mark.clause("X-08")
def test_the_parent_goes_on_unseen() -> None:
    """I7: what the parent writes after the fork is not in the fork, also after reopening it."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "note"))
    child = child_rig(rig, 1, None)
    before = child.root()
    rig.send(worlds.GO, worlds.go("a", "ask"))
    rig.driver.snapshot()
    assert child.state(worlds.LAB, "a")["log"] == ["note"]
    again = child.reopened()
    assert again.world.id == child_id(1)
    assert again.root() == before
    again.driver.snapshot()
    assert again.reopened().root() == again.root()
    assert again.verify().first is None


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I7")
@pytest.mark.parametrize("pending", ["suspend", "cancel", "reissue"])
def test_open_intents_follow_the_pending_policy(pending: str) -> None:
    """I7, AG-30: an inherited intent is held, cancelled or, only when asked for, published."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask", 1))
    rig.send(worlds.GO, worlds.go("b", "timer", 1))
    (job,) = rig.jobs.all
    child = child_rig(rig, 1, None, pending=pending)
    child.run()
    published = [each.intent for each in child.jobs.all]
    assert published == ([job.intent] if pending == "reissue" else [])
    assert all(each.dispatch_key != job.dispatch_key for each in child.jobs.all)
    child.pass_time(5 * mixed.HOUR_NS)
    ended = {"suspend": [], "cancel": ["cancelled", "cancelled"], "reissue": ["ok"]}[pending]
    own = [r for r in child.records(ReceiptSettled) if r.source == "kernel"]
    assert [r.status for r in own] == ended
    assert root(child.folded()) == child.root()
    rig.settle(job, {"a": "yes"})
    assert rig.state(worlds.LAB, "a")["log"] == ["ask", "ok:r1"]
    assert "ok:r1" not in child.state(worlds.LAB, "a")["log"]


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I7")
@pytest.mark.parametrize("other", ["suspend", "cancel", "reissue"])
@pytest.mark.parametrize("rule", ["suspend", "cancel", "reissue"])
def test_a_star_among_the_effects_is_the_rule(rule: str, other: str) -> None:
    """06 section 11: `--pending-for *=cancel` says for all effects what `--pending` says."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask", 1))
    child = child_rig(rig, 1, None, pending=other, pending_for={"*": rule})
    child.run()
    still = [None if each.hold is None else "held" for _, each in child.world.intents.entries()]
    assert still == {"suspend": ["held"], "cancel": [], "reissue": [None]}[rule]
    assert len(child.jobs.all) == (rule == "reissue")
    settled = [record.status for record in child.records(ReceiptSettled)]
    assert settled == (["cancelled"] if rule == "cancel" else [])


@pytest.mark.invariant("I7", "I22")
def test_a_receipt_of_the_parent_is_foreign() -> None:
    """I22: a receipt sealed for the parent changes nothing in the fork."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask", 1))
    (job,) = rig.jobs.all
    child = child_rig(rig, 1, None, pending="reissue")
    before = child.state_root()
    answer = child.settle(job, {"a": "yes"})
    assert (answer.kind, answer.detail) == ("dropped", "foreign_world")
    assert child.state_root() == before


@pytest.mark.clause("X-08")
def test_a_released_intent_runs_in_the_fork() -> None:
    """I7: held by the fork, an intent is published when an operator releases it, once."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask", 1))
    child = child_rig(rig, 1, None)
    (held,) = [i for i, _ in child.world.intents.entries()]
    child.do(Operate(child.clock.sample(), "release", "alice", "go on", intent=held))
    (job,) = child.jobs.all
    child.settle(job, {"a": "yes"})
    assert child.state(worlds.LAB, "a")["log"] == ["ask", "ok:r1"]


@pytest.mark.clause("X-08")
def test_a_fork_of_a_fork_keeps_its_lineage() -> None:
    """X-08: three generations, each its own history from its own fork point."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "note"))
    child = child_rig(rig, 1, None)
    child.send(worlds.GO, worlds.go("b", "note"))
    child.driver.snapshot()
    grandchild = child_rig(child, 2, None)
    grandchild.send(worlds.GO, worlds.go("c", "note"))
    for name in "abc":
        assert grandchild.state(worlds.LAB, name) is not None
    assert child.state(worlds.LAB, "c") is None
    assert grandchild.reopened().root() == grandchild.root() == root(grandchild.folded())


@pytest.mark.clause("X-08")
def test_creating_a_fork_writes_one_frame_whatever_the_size() -> None:
    """KN-14: a fork of 10 and of 500 cells write equally many bytes."""
    sizes = []
    for cells in (10, 500):
        rig = mixed.mixed_rig()
        for n in range(cells):
            rig.send(worlds.GO, worlds.go(f"c{n}", "note"))
        rig.driver.snapshot()
        child = child_rig(rig, 1, None)
        book = rig.journal._books[child.world.id]
        assert (len(book.frames), len(book.blobs), len(book.snapshots)) == (1, 0, 0)
        sizes.append(len(book.frames[0].body))
    assert abs(sizes[0] - sizes[1]) < 16, "a longer number is all that differs"


def test_what_a_fork_refuses() -> None:
    """X-08: an unknown policy and a sequence that is not there."""
    rig = mixed.mixed_rig()
    with pytest.raises(Rejected) as caught:
        child_rig(rig, 1, None, pending="forget")
    assert caught.value.code == "fork.bad_pending"
    with pytest.raises(UnknownName) as missing:
        child_rig(rig, 2, 99)
    assert missing.value.code == "journal.no_seq"
    journal = rig.journal
    assert isinstance(journal, MemoryJournal)
    assert child_id(2) not in journal._books


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I2")
def test_any_sequence_can_be_looked_at() -> None:
    """X-08: `at(seq)` is the world as it was at the end of that frame, and takes no event."""
    rig = mixed.mixed_rig()
    mixed.play(rig)
    known = histories(rig)
    for seq in range(1, rig.world.seq + 1):
        world = world_at(rig.journal, rig.world.id, rig.runner, seq=seq)
        end = next(e for e in sorted(known) if e >= seq)
        assert (world.seq, state_root(world)) == (end, known[end][0])
        assert world.read_only
