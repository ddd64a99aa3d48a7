"""Backups that find no room, meet a collection or a world in its making, and large ones."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tallystick.errors import Rejected
from tallystick.journal.backup import backup, check_backup, restore
from tallystick.journal.base import Append
from tallystick.journal.checkpoints import FILE, note, read_file
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.journal.verify import verify
from tallystick.values import canon
from tests.journal.damage import checkpoint, grown
from tests.journal.test_leftovers import no_file_over
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import WORLD, Rig
from tests.worlds import CREATED, created

MIB = 1 << 20


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = grown(tmp_path / "data")
    yield made
    made.journal.close()


def store(rig: Rig) -> SqliteJournal:
    assert isinstance(rig.journal, SqliteJournal)
    return rig.journal


def put(journal: SqliteJournal, data: bytes) -> bytes:
    """Keep a blob that nothing names."""
    digest = canon.digest_of(data)
    journal.append(Append(WORLD, [], journal.head(WORLD), {digest: data}))
    return digest


def backed_up(rig: Rig, into: Path) -> None:
    reader = SqliteReader(store(rig).folder)
    try:
        backup(reader, into)
    finally:
        reader.close()


def test_a_backup_without_room_leaves_the_room_there_was(rig: Rig, tmp_path: Path) -> None:
    """04 section 13, F3: refused in our own words, whatever file it was that did not fit, and
    nothing of it stays: the same words work once there is room.
    """
    put(store(rig), bytes(3 * MIB))
    with no_file_over(2 * MIB), pytest.raises(Rejected) as caught:
        backed_up(rig, tmp_path / "kept")
    assert caught.value.code == "backup.unwritable"
    assert not (tmp_path / "kept").exists()
    (tmp_path / "kept").mkdir()
    with no_file_over(2 * MIB), pytest.raises(Rejected):
        backed_up(rig, tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []
    backed_up(rig, tmp_path / "kept")
    assert check_backup(tmp_path / "kept").worlds


def test_a_restore_without_room_leaves_the_room_there_was(rig: Rig, tmp_path: Path) -> None:
    """04 section 13, F3: neither a target nor what was written beside it."""
    put(store(rig), bytes(3 * MIB))
    backed_up(rig, tmp_path / "kept")
    before = sorted(path.name for path in tmp_path.iterdir())
    with no_file_over(2 * MIB), pytest.raises(Rejected) as caught:
        restore(tmp_path / "kept", tmp_path / "there")
    assert caught.value.code == "restore.unwritable"
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert restore(tmp_path / "kept", tmp_path / "there").worlds


@pytest.mark.invariant("I43")
def test_a_world_in_its_making_is_not_restored(rig: Rig, tmp_path: Path) -> None:
    """I43: a copy that is made while a world is being forked, imported or supposed does not make a
    world of it.
    """
    child_rig(rig, 1, 20).send(CREATED, created("half of a what-if"))
    store(rig).set_state(child_id(1), "unfinished")
    store(rig).acquire(child_id(2))  # nothing of it is written yet
    backed_up(rig, tmp_path / "kept")
    assert [row.world for row in check_backup(tmp_path / "kept").worlds] == [WORLD]
    restore(tmp_path / "kept", tmp_path / "there")
    there = SqliteJournal(tmp_path / "there")
    assert [(row.world, row.state) for row in there.worlds()] == [(WORLD, "restored")]
    there.close()


class Collected(SqliteReader):
    """A reader that is overtaken by a collection, once it has copied the rows."""

    journal: SqliteJournal
    times = 1

    def copy_to(self, path: Path) -> None:
        super().copy_to(path)
        if self.times:
            self.times -= 1
            self.journal.discard(WORLD, [ORPHAN])


ORPHAN = canon.digest_of(b"nobody wants me" * 100)


def test_a_collection_beside_a_backup_is_no_damage(rig: Rig, tmp_path: Path) -> None:
    """ND-25: a file that was collected while it was about to be copied makes it begin again."""
    assert put(store(rig), b"nobody wants me" * 100) == ORPHAN
    reader = Collected(store(rig).folder)
    reader.journal = store(rig)
    made = backup(reader, tmp_path / "kept")
    reader.close()
    assert store(rig).added(WORLD, ORPHAN) == -1
    assert check_backup(tmp_path / "kept") == made


@pytest.mark.invariant("I42")
def test_a_large_journal_is_restored_in_pieces(rig: Rig, tmp_path: Path) -> None:
    """I42: memory does not grow with the length of a history."""
    for number in range(24):
        put(store(rig), number.to_bytes(2, "big") * (MIB // 8))
    journal = SqliteJournal(store(rig).folder)
    for number in range(24):
        put(journal, number.to_bytes(2, "big") * (MIB // 4))
    journal.close()
    backed_up(rig, tmp_path / "kept")
    assert (tmp_path / "kept" / "tally.db").stat().st_size > 10 * MIB
    tracemalloc.start()
    try:
        restore(tmp_path / "kept", tmp_path / "there")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8 * MIB


class Busy(SqliteReader):
    """A reader of a node that signs a checkpoint as soon as the file is copied."""

    sign: Callable[[], object]

    def copy_to(self, path: Path) -> None:
        super().copy_to(path)
        self.sign()


@pytest.mark.invariant("I43")
def test_a_backup_holds_no_checkpoint_of_what_it_does_not_hold(rig: Rig, tmp_path: Path) -> None:
    """04 section 4: what a busy node signed while its file was copied stood in the backup: against
    its own checkpoints, what was restored seemed to be cut.
    """

    def sign() -> None:
        rig.send(CREATED, created("behind the backup"))
        note(store(rig).folder, WORLD, checkpoint(rig))

    sign()
    reader = Busy(store(rig).folder)
    reader.sign = sign
    backup(reader, tmp_path / "kept")
    reader.close()
    restore(tmp_path / "kept", tmp_path / "there")
    there = SqliteReader(tmp_path / "there")
    rows = list(read_file(tmp_path / "there" / FILE, WORLD))
    verdict = verify(there, WORLD, checkpoints=rows)
    there.close()
    assert len(rows) == 1
    assert verdict.first_bad is None
