"""One suite for every journal: append is fenced and whole, reads are ordered, forks share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tallystick.errors import Conflict, UnknownName
from tallystick.journal.base import Append, Fenced, Head, Journal, Lease, Outcome, SnapshotRow
from tallystick.journal.memory import MemoryJournal
from tallystick.journal.sqlite import SqliteJournal
from tallystick.model.frames import GENESIS, Sealed, seal_frame, verify_chain
from tallystick.model.records import Noted
from tallystick.values import canon

WORLD = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
CHILD = "0b7e4f7a-6b3c-4a57-9f0e-3f1f2a6f9a01"
GRANDCHILD = "0b7e4f7a-6b3c-4a57-9f0e-3f1f2a6f9a02"

Make = Callable[[Path], Journal]

# Every implementation of the port; a new one is a line here.
JOURNALS: dict[str, Make] = {
    "memory": lambda _folder: MemoryJournal(),
    "sqlite": SqliteJournal,
}


@pytest.fixture(params=list(JOURNALS))
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    made = JOURNALS[request.param](tmp_path / "data")
    yield made
    made.close()


def frames(world: str, after: Head, sizes: Sequence[int]) -> list[Sealed]:
    """Frames of so many records each, chained behind a head."""
    made: list[Sealed] = []
    seq, prev = after.seq, after.hash
    for size in sizes:
        records = [Noted("n", {"seq": seq + 1 + i}) for i in range(size)]
        made.append(seal_frame(world, seq + 1, prev, records))
        seq, prev = made[-1].last, made[-1].hash
    return made


def blob(text: str) -> dict[bytes, bytes]:
    data = canon.encode(text)
    return {canon.digest_of(data): data}


def lease_of(journal: Journal, world: str) -> Lease:
    lease = journal.acquire(world)
    assert isinstance(lease, Lease)
    return lease


class Writer:
    """A writer that holds the head it was told."""

    def __init__(self, journal: Journal, world: str = WORLD) -> None:
        self.journal = journal
        self.world = world
        self.lease = lease_of(journal, world)
        self.head = journal.head(world)._replace(epoch=self.lease.epoch)

    def write(self, *sizes: int, **more: object) -> Outcome:
        batch = frames(self.world, self.head, sizes or [1])
        blobs: dict[bytes, bytes] = more.get("blobs", {})  # type: ignore[assignment]
        rows: list[SnapshotRow] = more.get("snapshots", [])  # type: ignore[assignment]
        (outcome,) = self.journal.append(Append(self.world, batch, self.head, blobs, rows))
        if isinstance(outcome, Head):
            self.head = outcome
        return outcome


def spans(journal: Journal, world: str = WORLD, **more: int) -> list[tuple[int, int]]:
    return [(frame.seq, frame.last) for frame in journal.read(world, **more)]


@pytest.mark.clause("X-07")
def test_a_world_begins_at_genesis(journal: Journal) -> None:
    """D9: an acquired world has no frames, and its head is genesis."""
    assert journal.acquire(WORLD) == Lease(WORLD, "", 1)
    assert journal.head(WORLD) == Head(0, GENESIS, 1)
    assert spans(journal) == []
    assert journal.snapshots(WORLD) == []


@pytest.mark.parametrize("call", ["head", "read", "blob", "snapshots", "append", "fork"])
def test_an_unknown_world_is_refused(journal: Journal, call: str) -> None:
    """I40: nothing is read or written under a name that nobody acquired."""
    calls: dict[str, Callable[[], object]] = {
        "head": lambda: journal.head(WORLD),
        "read": lambda: list(journal.read(WORLD)),
        "blob": lambda: journal.blob(WORLD, bytes(32)),
        "snapshots": lambda: journal.snapshots(WORLD),
        "append": lambda: journal.append(Append(WORLD, [], Head(0, GENESIS, 1), {})),
        "fork": lambda: journal.fork(WORLD, Head(0, GENESIS, 0), CHILD),
    }
    with pytest.raises(UnknownName) as caught:
        calls[call]()
    assert caught.value.code == "world.unknown"


@pytest.mark.clause("X-07")
@pytest.mark.invariant("I10")
def test_frames_are_read_as_they_were_written(journal: Journal) -> None:
    """I10: appended frames come back equal, in order, as one chain; the head is the last."""
    writer = Writer(journal)
    writer.write(1, 3)
    writer.write(2)
    assert spans(journal) == [(1, 1), (2, 4), (5, 6)]
    assert verify_chain(journal.read(WORLD), world=WORLD) is None
    last = list(journal.read(WORLD))[-1]
    assert journal.head(WORLD) == writer.head == Head(6, last.hash, 1)


@pytest.mark.parametrize(
    ("after", "upto", "expected"),
    [
        (0, None, [(1, 1), (2, 4), (5, 6), (7, 7)]),
        (1, None, [(2, 4), (5, 6), (7, 7)]),
        (2, None, [(2, 4), (5, 6), (7, 7)]),
        (4, None, [(5, 6), (7, 7)]),
        (7, None, []),
        (99, None, []),
        (0, 1, [(1, 1)]),
        (0, 3, [(1, 1), (2, 4)]),
        (4, 5, [(5, 6)]),
        (0, 0, []),
    ],
)
def test_reading_a_range(
    journal: Journal, after: int, upto: int | None, expected: list[tuple[int, int]]
) -> None:
    """X-08: frames behind a sequence and up to another; a frame is read whole or not at all."""
    Writer(journal).write(1, 3, 2, 1)
    found = [(f.seq, f.last) for f in journal.read(WORLD, after, upto)]
    assert found == expected


@pytest.mark.invariant("I11")
def test_a_deposed_writer_is_fenced(journal: Journal) -> None:
    """I11: after another acquired the world, the old epoch writes nothing, blobs included."""
    old = Writer(journal)
    old.write()
    new = Writer(journal)
    assert new.head.epoch == old.head.epoch + 1
    outcome = old.write(1, blobs=blob("x"))
    assert outcome == Fenced(new.head)
    assert spans(journal) == [(1, 1)]
    assert journal.blob(WORLD, next(iter(blob("x")))) is None
    assert isinstance(new.write(), Head)
    assert spans(journal) == [(1, 1), (2, 2)]


@pytest.mark.invariant("I10", "I11")
def test_an_append_names_the_head_it_builds_on(journal: Journal) -> None:
    """I10: another seq or another hash than the head's is fenced: nothing of the batch is kept."""
    writer = Writer(journal)
    writer.write(2)
    for wrong in (
        writer.head._replace(seq=1),
        writer.head._replace(hash=bytes(32)),
        writer.head._replace(epoch=7),
    ):
        rows = [SnapshotRow(2, bytes(32), bytes(32))]
        batch = Append(WORLD, frames(WORLD, writer.head, [1, 1]), wrong, blob("x"), rows)
        assert journal.append(batch) == [Fenced(writer.head)]
    assert spans(journal) == [(1, 2)]
    assert journal.snapshots(WORLD) == []


@pytest.mark.clause("K-38")
def test_blobs_come_with_their_frames(journal: Journal) -> None:
    """K-38: bytes by digest, there once the append is; writing them again changes nothing."""
    writer = Writer(journal)
    held = {**blob("a"), **blob("b")}
    writer.write(1, blobs=held)
    writer.write(1, blobs=blob("a"))
    for digest, data in held.items():
        assert journal.blob(WORLD, digest) == data
    assert journal.blob(WORLD, bytes(32)) is None


@pytest.mark.clause("K-42")
def test_snapshots_are_kept_in_order(journal: Journal) -> None:
    """K-42: a snapshot is durable with its frame, oldest first."""
    writer = Writer(journal)
    rows = [SnapshotRow(seq, bytes([seq]) * 32, bytes([seq + 1]) * 32) for seq in (1, 2)]
    writer.write(1)
    writer.write(1, snapshots=rows[:1])
    writer.write(1, snapshots=rows[1:])
    assert journal.snapshots(WORLD) == rows


@pytest.mark.invariant("I40")
def test_worlds_do_not_meet(journal: Journal) -> None:
    """I40: frames, blobs, snapshots and epochs of one world are not those of another."""
    one, other = Writer(journal), Writer(journal, CHILD)
    one.write(2, blobs=blob("secret"))
    assert spans(journal, CHILD) == []
    assert journal.blob(CHILD, next(iter(blob("secret")))) is None
    other.write(1)
    assert journal.head(WORLD).seq == 2
    assert journal.head(CHILD).seq == 1


# ---- forks ----------------------------------------------------------------------------------


def forked(journal: Journal, sizes: Sequence[int], at: int) -> Writer:
    """A parent with frames, and the writer of a child forked at the end of its n-th frame."""
    parent = Writer(journal)
    rows = [SnapshotRow(1, bytes(32), b"\x01" * 32)]
    parent.write(sizes[0], blobs=blob("shared"), snapshots=rows)
    parent.write(*sizes[1:])
    frame = list(journal.read(WORLD))[at]
    journal.fork(WORLD, Head(frame.last, frame.hash, 0), CHILD)
    return Writer(journal, CHILD)


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I7")
def test_a_fork_reads_its_parents_prefix(journal: Journal) -> None:
    """X-08: up to the fork point the parent's frames, behind it the child's own."""
    child = forked(journal, [1, 3, 2, 1], at=1)
    assert child.head == Head(4, list(journal.read(WORLD))[1].hash, 1)
    child.write(2)
    assert spans(journal, CHILD) == [(1, 1), (2, 4), (5, 6)]
    assert [f.world for f in journal.read(CHILD)] == [WORLD, WORLD, CHILD]
    assert [(f.seq, f.last) for f in journal.read(CHILD, after=1, upto=4)] == [(2, 4)]
    assert [(f.seq, f.last) for f in journal.read(CHILD, after=4)] == [(5, 6)]
    own = list(journal.read(CHILD))[-1]
    assert own.prev == list(journal.read(WORLD))[1].hash


@pytest.mark.invariant("I7")
def test_forks_are_isolated_both_ways(journal: Journal) -> None:
    """I7: neither side sees what the other writes after the fork; what was before is shared."""
    child = forked(journal, [1, 3, 2], at=1)
    child.write(1, blobs=blob("child"), snapshots=[SnapshotRow(5, bytes(32), bytes(32))])
    parent = Writer(journal)
    parent.write(4, blobs=blob("parent"), snapshots=[SnapshotRow(10, bytes(32), bytes(32))])
    assert spans(journal, WORLD) == [(1, 1), (2, 4), (5, 6), (7, 10)]
    assert spans(journal, CHILD) == [(1, 1), (2, 4), (5, 5)]
    assert [row.seq for row in journal.snapshots(WORLD)] == [1, 10]
    assert [row.seq for row in journal.snapshots(CHILD)] == [1, 5]
    shared, own = next(iter(blob("shared"))), next(iter(blob("child")))
    assert journal.blob(CHILD, shared) == journal.blob(WORLD, shared)
    assert journal.blob(WORLD, own) is None


@pytest.mark.clause("X-08")
def test_a_fork_of_a_fork(journal: Journal) -> None:
    """X-08: lineage is followed: three worlds, one prefix, also when forked inside the prefix."""
    child = forked(journal, [1, 1, 1], at=1)
    child.write(1, 1)
    at = list(journal.read(CHILD))[2]
    journal.fork(CHILD, Head(at.last, at.hash, 0), GRANDCHILD)
    grandchild = Writer(journal, GRANDCHILD)
    grandchild.write(1)
    assert [f.world for f in journal.read(GRANDCHILD)] == [WORLD, WORLD, CHILD, GRANDCHILD]
    assert spans(journal, GRANDCHILD) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert journal.blob(GRANDCHILD, next(iter(blob("shared")))) is not None


@pytest.mark.invariant("I7")
def test_a_fork_takes_no_name_that_is_used(journal: Journal) -> None:
    """I7: forking onto an existing world would replace its history; it is refused."""
    child = forked(journal, [1, 1], at=1)
    child.write(1)
    before = spans(journal, CHILD)
    head = journal.head(WORLD)
    with pytest.raises(Conflict) as caught:
        journal.fork(WORLD, head, CHILD)
    assert caught.value.code == "world.exists"
    assert spans(journal, CHILD) == before
