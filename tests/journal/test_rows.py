"""The same suite, second part: one commit for many worlds, and what a node keeps beside frames."""

# tidy: the second half of one suite.
from __future__ import annotations

import asyncio
from threading import Thread

import pytest

from tallystick.errors import Conflict, UnknownName
from tallystick.journal.base import (
    Append,
    CheckpointRow,
    Fenced,
    Head,
    Journal,
    Lease,
    SnapshotRow,
    Swept,
    TokenRow,
    WorkRow,
)
from tallystick.values import canon
from tests.journal.test_journal import (
    CHILD,
    GRANDCHILD,
    WORLD,
    Writer,
    blob,
    forked,
    frames,
    journal,
    spans,
)
from tests.sweeps import keep_only

__all__ = ["journal"]  # the fixture over every implementation


def digest(text: str) -> bytes:
    return next(iter(blob(text)))


# ---- one commit, many worlds ------------------------------------------------------------------


@pytest.mark.clause("K-25")
def test_worlds_share_a_commit(journal: Journal) -> None:
    """ND-07: one append takes frames of two worlds; each world gets its own outcome."""
    one, other = Writer(journal), Writer(journal, CHILD)
    outcomes = journal.append(
        Append(WORLD, frames(WORLD, one.head, [2]), one.head, blob("a")),
        Append(CHILD, frames(CHILD, other.head, [1, 1]), other.head, blob("b")),
    )
    assert outcomes == [journal.head(WORLD), journal.head(CHILD)]
    assert spans(journal, WORLD) == [(1, 2)]
    assert spans(journal, CHILD) == [(1, 1), (2, 2)]


@pytest.mark.invariant("I11")
def test_a_fenced_world_does_not_stop_the_others(journal: Journal) -> None:
    """I11: in one commit the deposed writer's world writes nothing, its neighbour's is whole."""
    old, other = Writer(journal), Writer(journal, CHILD)
    new = Writer(journal)
    outcomes = journal.append(
        Append(WORLD, frames(WORLD, old.head, [1]), old.head, blob("a")),
        Append(CHILD, frames(CHILD, other.head, [1]), other.head, blob("b")),
    )
    assert outcomes == [Fenced(new.head), journal.head(CHILD)]
    assert spans(journal, WORLD) == []
    assert journal.blob(WORLD, digest("a")) is None
    assert journal.blob(CHILD, digest("b")) is not None


def test_an_unknown_world_stops_the_whole_append(journal: Journal) -> None:
    """I40: a name that nobody acquired is the caller's mistake; nothing is written for anyone."""
    one = Writer(journal)
    with pytest.raises(UnknownName) as caught:
        journal.append(
            Append(WORLD, frames(WORLD, one.head, [1]), one.head, {}),
            Append(CHILD, [], one.head, {}),
        )
    assert caught.value.code == "world.unknown"
    assert spans(journal) == []


def test_a_lease_ends_with_the_next_epoch(journal: Journal) -> None:
    """K-19: a lease is renewed until another writer acquires; releasing leaves the epoch."""
    first = journal.acquire(WORLD, "node-a")
    assert first == Lease(WORLD, "node-a", 1)
    assert journal.renew(first)
    second = journal.acquire(WORLD, "node-b")
    assert isinstance(second, Lease)
    assert not journal.renew(first)
    journal.release(first)
    assert journal.renew(second)
    assert journal.head(WORLD).epoch == 2


def test_headers_say_who_wrote(journal: Journal) -> None:
    """MO-20: a header has place, hash and epoch of its frame; the body is not read for it."""
    Writer(journal).write(1, 3)
    Writer(journal).write(2)
    shown = [(h.first_seq, h.last_seq, h.records, h.epoch) for h in journal.headers(WORLD)]
    assert shown == [(1, 1, 1, 1), (2, 4, 3, 1), (5, 6, 2, 2)]
    chain = list(journal.read(WORLD, after=1))
    headers = list(journal.headers(WORLD, after=1))
    assert [(h.prev_hash, h.hash) for h in headers] == [(f.prev, f.hash) for f in chain]


# ---- forks ------------------------------------------------------------------------------------


@pytest.mark.invariant("I7", "I40")
def test_a_fork_sees_no_later_blob_of_its_parent(journal: Journal) -> None:
    """I7: blobs that the parent got behind the fork point are not the child's."""
    forked(journal, [1, 1], at=1)
    parent = Writer(journal)
    parent.write(1)
    parent.write(1, blobs=blob("later"))
    assert journal.blob(WORLD, digest("later")) is not None
    assert journal.blob(CHILD, digest("later")) is None
    assert journal.blob(CHILD, digest("shared")) is not None


def test_a_fork_sees_the_snapshot_at_its_point_whole(journal: Journal) -> None:
    """X-08: the record of a snapshot is written behind it; a fork just there must be able to
    read what the snapshot names.
    """
    parent = Writer(journal)
    parent.write(1)
    row = SnapshotRow(1, bytes(32), digest("document"))
    parent.write(1, blobs=blob("document"), snapshots=[row])
    first = next(iter(journal.read(WORLD)))
    journal.fork(WORLD, Head(1, first.hash, 0), CHILD)
    assert journal.snapshots(CHILD) == [row]
    assert journal.blob(CHILD, row.document) is not None


def test_lineage_leads_to_the_first_world(journal: Journal) -> None:
    """X-08: a world knows its parents, its fork points and its floor."""
    child = forked(journal, [1, 1, 1], at=1)
    child.write(1)
    journal.fork(CHILD, child.head, GRANDCHILD)
    rows = journal.lineage(GRANDCHILD)
    assert [(row.world, row.parent, row.fork_seq) for row in rows] == [
        (GRANDCHILD, CHILD, 3),
        (CHILD, WORLD, 2),
        (WORLD, None, None),
    ]
    assert [row.base.seq for row in rows] == [3, 2, 0]
    assert rows[1].head == child.head
    assert [row.world for row in journal.worlds()] == [WORLD, CHILD, GRANDCHILD]


# ---- rows -------------------------------------------------------------------------------------


def test_names_of_worlds(journal: Journal) -> None:
    """04 section 3: a world is found by alias or id; the first alias is its name."""
    Writer(journal)
    Writer(journal, CHILD)
    journal.alias("main", WORLD)
    journal.alias("try", CHILD)
    journal.alias("prod", WORLD)
    assert list(journal.aliases().items()) == [("main", WORLD), ("try", CHILD), ("prod", WORLD)]
    assert journal.resolve("prod") == journal.resolve(WORLD) == WORLD
    journal.alias("prod", CHILD)
    assert journal.resolve("prod") == CHILD
    journal.unalias("prod")
    journal.unalias("prod")
    for call in (lambda: journal.resolve("prod"), lambda: journal.alias("x", GRANDCHILD)):
        with pytest.raises(UnknownName) as caught:
            call()
        assert caught.value.code == "world.unknown"


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I11")
def test_a_name_moves_in_one_commit(journal: Journal) -> None:
    """AG-32: both journals and the name change together, and who loses the name is fenced."""
    old, new = Writer(journal), Writer(journal, CHILD)
    journal.alias("prod", WORLD)
    outcomes = journal.move_alias("prod", CHILD, moves(old, new))
    assert outcomes == [journal.head(WORLD), journal.head(CHILD)]
    assert journal.aliases() == {"prod": CHILD}
    assert journal.head(WORLD).epoch == old.head.epoch + 1
    assert journal.head(CHILD).epoch == new.head.epoch
    assert (spans(journal, WORLD), spans(journal, CHILD)) == ([(1, 1)], [(1, 1)])
    old.head = journal.head(WORLD)._replace(epoch=old.head.epoch)
    assert isinstance(old.write(1), Fenced)
    new.head = journal.head(CHILD)
    assert isinstance(new.write(1), Head)


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I11")
@pytest.mark.parametrize("deposed", [WORLD, CHILD])
def test_a_name_that_cannot_move_leaves_all_as_it_was(journal: Journal, deposed: str) -> None:
    """AG-32: one fenced world undoes the whole; a world that nobody knows is refused, and the
    journal takes frames as before.
    """
    old, new = Writer(journal), Writer(journal, CHILD)
    journal.alias("prod", WORLD)
    newest = Writer(journal, deposed)
    outcomes = journal.move_alias("prod", CHILD, moves(old, new))
    assert [type(outcome) for outcome in outcomes] == [Fenced, Fenced]
    with pytest.raises(UnknownName) as caught:
        journal.move_alias("prod", GRANDCHILD, [])
    assert caught.value.code == "world.unknown"
    assert journal.aliases() == {"prod": WORLD}
    assert spans(journal, WORLD) == spans(journal, CHILD) == []
    assert isinstance(newest.write(1), Head)


def moves(*writers: Writer) -> list[Append]:
    """One frame of each writer."""
    return [Append(w.world, frames(w.world, w.head, [1]), w.head, {}) for w in writers]


def test_tokens_are_kept_and_revoked(journal: Journal) -> None:
    """04 section 11: a token's row comes back as it was; a revoked one says since when."""
    plain = TokenRow("a1", bytes(32), "alice", ("read", "send"), ("main",), 5, None)
    other = TokenRow("b2", b"\x01" * 32, "bob", (), ())
    journal.put_token(plain)
    journal.put_token(other)
    assert journal.revoke_token("b2", 77)
    assert not journal.revoke_token("c3", 77)
    assert sorted(journal.tokens()) == [plain, other._replace(revoked_ns=77)]


def test_work_moves_with_frames_and_without(journal: Journal) -> None:
    """04 section 10: work rows share the commit, leases change them alone, settling removes."""
    writer = Writer(journal)
    early = WorkRow(b"\x02" * 32, "sys/http.request@1", "gpu", "ready", 1, opened_seq=1)
    late = WorkRow(b"\x01" * 32, "sys/http.request@1", "gpu", "ready", 1, opened_seq=2)
    batch = Append(WORLD, frames(WORLD, writer.head, [2]), writer.head, {}, work=[late, early])
    journal.append(batch)
    assert journal.work(WORLD) == [early, late]
    leased = early._replace(state="leased", owner="w", lease_id="l-1", lease_until=9)
    journal.put_work(WORLD, leased)
    assert journal.work(WORLD) == [leased, late]
    head = journal.head(WORLD)
    done = leased._replace(state="settled")
    journal.append(Append(WORLD, frames(WORLD, head, [1]), head, {}, work=[done]))
    assert journal.work(WORLD) == [late]
    fenced = Append(WORLD, frames(WORLD, head, [1]), head, {}, work=[early])
    assert isinstance(journal.append(fenced)[0], Fenced)
    assert journal.work(WORLD) == [late]


def test_checkpoints_are_kept(journal: Journal) -> None:
    """04 section 4: signed statements, with a commit or alone, oldest first."""
    writer = Writer(journal)
    made = [CheckpointRow(n, bytes(32), bytes(32), bytes(32), 1, n, b"seal") for n in (1, 2)]
    journal.append(
        Append(WORLD, frames(WORLD, writer.head, [1]), writer.head, {}, checkpoints=made[1:])
    )
    journal.add_checkpoint(WORLD, made[0])
    assert journal.checkpoints(WORLD) == made


def test_a_snapshot_is_pinned(journal: Journal) -> None:
    """04 section 13: a pin stays until it is taken away; only a snapshot has one."""
    writer = Writer(journal)
    writer.write(1, snapshots=[SnapshotRow(1, bytes(32), bytes(32), at_ns=3)])
    journal.pin(WORLD, 1)
    assert [row.pinned for row in journal.snapshots(WORLD)] == [True]
    journal.pin(WORLD, 1, pinned=False)
    assert journal.snapshots(WORLD) == [SnapshotRow(1, bytes(32), bytes(32), at_ns=3)]
    with pytest.raises(UnknownName) as caught:
        journal.pin(WORLD, 2)
    assert caught.value.code == "journal.no_snapshot"


def test_a_world_says_that_it_is_read_only(journal: Journal) -> None:
    """04 section 13: the state of a world outlives the process."""
    Writer(journal)
    journal.set_state(WORLD, "read_only")
    assert [row.state for row in journal.worlds()] == ["read_only"]


@pytest.mark.invariant("I7")
def test_a_world_is_dropped_with_all_it_owns(journal: Journal) -> None:
    """I7: a parent stays while a fork reads it; a dropped world leaves nothing behind."""
    child = forked(journal, [1, 1], at=1)
    child.write(1, blobs=blob("own"))
    journal.alias("try", CHILD)
    with pytest.raises(Conflict) as caught:
        journal.drop_world(WORLD)
    assert caught.value.code == "world.has_forks"
    journal.drop_world(CHILD)
    assert [row.world for row in journal.worlds()] == [WORLD]
    assert journal.aliases() == {}
    assert spans(journal) == [(1, 1), (2, 2)]
    again = Writer(journal, CHILD)
    assert again.head.seq == 0
    assert journal.blob(CHILD, digest("own")) is None


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_a_sweep_keeps_what_it_must_and_what_is_young(journal: Journal) -> None:
    """ND-26: neither a marked blob nor one added behind the grace goes."""
    writer = Writer(journal)
    writer.write(1, blobs={**blob("old"), **blob("kept")})
    writer.write(1, blobs=blob("young"))
    keep = frozenset({digest("kept")})
    assert keep_only(journal, WORLD, keep, before=1) == Swept(1, len(canon.encode("old")))
    assert dict(journal.blobs(WORLD)).keys() == {digest("kept"), digest("young")}
    assert keep_only(journal, WORLD, keep).blobs == 1
    assert [name for name, _ in journal.blobs(WORLD)] == [digest("kept")]


# ---- other threads ----------------------------------------------------------------------------


def test_a_reader_sees_commits_from_another_thread(journal: Journal) -> None:
    """Section 2: a reader has its own connection and sees durable frames, at once."""
    writer = Writer(journal)
    writer.write(1, blobs=blob("a"))
    seen: list[object] = []

    def look() -> None:
        reader = journal.reader()
        seen.extend([reader.head(WORLD), reader.blob(WORLD, digest("a"))])
        seen.append([frame.seq for frame in reader.read(WORLD)])
        reader.close()

    thread = Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [journal.head(WORLD), canon.encode("a"), [1]]


@pytest.mark.clause("K-45")
def test_a_tail_gives_each_frame_once(journal: Journal) -> None:
    """ND-29, in small: what was there, then what comes, without a gap and without a repeat."""
    writer = Writer(journal)
    writer.write(1, 2, 1)

    async def follow() -> list[int]:
        found: list[int] = []
        tail = journal.tail(WORLD, 1)
        async for frame in tail:
            found.append(frame.seq)
            if len(found) in (2, 4):  # at the end of what is there: the tail must wait for more
                await asyncio.to_thread(writer.write, 1, 1)
            if len(found) == 6:
                break
        await tail.aclose()  # type: ignore[attr-defined]  # tails are generators
        return found

    assert asyncio.run(asyncio.wait_for(follow(), 60)) == [2, 4, 5, 6, 7, 8]
