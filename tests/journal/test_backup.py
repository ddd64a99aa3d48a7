"""Backup while others write, restore elsewhere; the reserve on a full disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tallystick.errors import Conflict, JournalCorrupt, Rejected
from tallystick.journal.backup import (
    LISTING,
    RESTORED,
    backup,
    check_backup,
    read_backup,
    restore,
)
from tallystick.journal.base import Append, Fenced, Head, WorkRow
from tallystick.journal.checkpoints import note
from tallystick.journal.reserve import RESERVE_BYTES, Reserve, room
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.journal.verify import verify
from tallystick.kernel.roots import root
from tallystick.node.worlds import world_at
from tests.journal.damage import grown
from tests.journal.test_journal import frames
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import WORLD, Rig
from tests.worlds import CREATED, created


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = grown(tmp_path / "data")
    journal = made.journal
    assert isinstance(journal, SqliteJournal)
    journal.alias("main", WORLD)
    note(journal.folder, WORLD, journal.checkpoints(WORLD)[-1])
    yield made
    journal.close()


def backed_up(rig: Rig, into: Path):
    reader = SqliteReader(rig.journal.folder)  # type: ignore[attr-defined]
    try:
        return backup(reader, into)
    finally:
        reader.close()


@pytest.mark.clause("X-07")
@pytest.mark.invariant("I43")
def test_a_backup_restores_to_its_root(rig: Rig, tmp_path: Path) -> None:
    """ND-25, AT-37 at the journal: the root of the stated seq, under a new epoch and node."""
    child = child_rig(rig, 1, 20)
    wanted, forked = rig.root(), child.root()
    lease = WorkRow(bytes(32), "e", "gpu", "leased", 1, "w", "l", 5, 3)
    rig.journal.put_work(WORLD, lease)
    made = backed_up(rig, tmp_path / "kept")
    rig.send(CREATED, created("after the backup"))
    epoch = rig.driver.head.epoch
    assert [(row.name, row.world) for row in made.worlds] == [("main", WORLD), (None, child_id(1))]
    assert made.worlds[0].root == "sha256:" + wanted.hex()
    restored = restore(tmp_path / "kept", tmp_path / "there")
    assert restored == made
    journal = SqliteJournal(tmp_path / "there")
    assert root(world_at(journal, WORLD, rig.runner)) == wanted
    assert root(world_at(journal, child_id(1), rig.runner)) == forked
    assert all(verify(journal, row.world).ok for row in made.worlds)
    assert journal.head(WORLD).epoch > made.worlds[0].epoch
    assert [row.state for row in journal.worlds()] == [RESTORED, RESTORED]
    assert journal.meta()["restored_from"] == made.id
    assert journal.meta()["node_id"] != rig.journal.meta()["node_id"]  # type: ignore[attr-defined]
    freed = lease._replace(state="ready", owner=None, lease_id=None, lease_until=None)
    assert journal.work(WORLD) == [freed]
    stale = Head(made.worlds[0].seq, bytes.fromhex(made.worlds[0].head[7:]), epoch)
    batch = Append(WORLD, frames(WORLD, stale, [1]), stale, {})
    assert isinstance(journal.append(batch)[0], Fenced), "the old writer's epoch is over"
    journal.close()


def test_a_place_that_cannot_be_written_is_refused(rig: Rig, tmp_path: Path) -> None:
    """04 section 13: the caller named it, so it is no failure of the node; nothing is made."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Rejected) as caught:
        backed_up(rig, tmp_path / "file" / "kept")
    assert (caught.value.code, caught.value.status) == ("backup.unwritable", 400)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("kept")] == []


def test_nothing_secret_is_in_a_backup(rig: Rig, tmp_path: Path) -> None:
    """04 section 13: files of the journal only; every one is listed with its hash, 0600."""
    folder = rig.journal.folder  # type: ignore[attr-defined]
    (folder / "keys").mkdir()
    (folder / "keys" / "k.key").write_text("secret")
    (folder / "vault.bin").write_text("secret")
    made = backed_up(rig, tmp_path / "kept")
    tops = {name.split("/")[0] for name in made.files}
    assert tops == {"tally.db", "blobs", "checkpoints.jsonl"}
    modes = [(tmp_path / "kept" / name).stat().st_mode & 0o777 for name in [*made.files, LISTING]]
    assert set(modes) == {0o600}
    listed = json.loads((tmp_path / "kept" / LISTING).read_text())
    assert listed["files"] == made.files
    assert set(listed["worlds"][0]) == {"world", "name", "seq", "head", "root", "epoch"}


@pytest.mark.invariant("I43")
def test_a_backup_under_load_is_one_moment(rig: Rig, tmp_path: Path) -> None:
    """ND-25: while another thread makes copies, the writer goes on; each copy is sound and at a
    sequence that the world had.
    """
    roots = {rig.driver.head.seq: rig.root()}
    copies = []

    def copy() -> None:
        copies.extend(backed_up(rig, tmp_path / f"kept-{n}") for n in range(3))

    thread = Thread(target=copy)
    thread.start()
    number = 0
    while thread.is_alive():
        rig.send(CREATED, created(f"load-{number}"))
        roots[rig.driver.head.seq] = rig.root()
        number += 1
    thread.join()
    assert len(copies) == 3
    for n, made in enumerate(copies):
        assert check_backup(tmp_path / f"kept-{n}") == made
        (row,) = made.worlds
        at = row.seq if row.seq in roots else None
        if at is not None:
            assert row.root == "sha256:" + roots[at].hex()
        else:
            past = world_at(rig.journal, WORLD, rig.runner, seq=row.seq)
            assert row.root == "sha256:" + root(past).hex()


def test_a_target_with_something_in_it_is_refused(rig: Rig, tmp_path: Path) -> None:
    """04 section 13: neither a backup nor a restore writes over anything."""
    backed_up(rig, tmp_path / "kept")
    with pytest.raises(Conflict) as caught:
        backed_up(rig, tmp_path / "kept")
    assert caught.value.code == "backup.not_empty"
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("x")
    with pytest.raises(Conflict) as caught:
        restore(tmp_path / "kept", full)
    assert caught.value.code == "restore.not_empty"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert restore(tmp_path / "kept", empty).worlds


def test_a_damaged_backup_is_not_restored(rig: Rig, tmp_path: Path) -> None:
    """I43: any file changed, gone, or a listing that is cut: refused, and no target is there."""
    made = backed_up(rig, tmp_path / "kept")
    for name in made.files:
        path = tmp_path / "kept" / name
        whole = path.read_bytes()
        for changed in (whole[:-1] + bytes([whole[-1] ^ 1]), None):
            path.unlink()
            if changed is not None:
                path.write_bytes(changed)
            with pytest.raises(JournalCorrupt) as caught:
                restore(tmp_path / "kept", tmp_path / "there")
            assert caught.value.code == "backup.damaged"
            assert not (tmp_path / "there").exists()
            path.unlink(missing_ok=True)
            path.write_bytes(whole)
    listing = tmp_path / "kept" / LISTING
    listing.write_bytes(listing.read_bytes()[:-20])
    with pytest.raises(Rejected) as refused:
        read_backup(tmp_path / "kept")
    assert refused.value.code == "backup.malformed"


def test_a_listing_of_changed_worlds_is_found(rig: Rig, tmp_path: Path) -> None:
    """I43: hashes of files made right again do not help: the worlds are verified too."""
    made = backed_up(rig, tmp_path / "kept")
    listing = tmp_path / "kept" / LISTING
    text = listing.read_text()
    listing.write_text(text.replace(made.worlds[0].root, "sha256:" + "0" * 64))
    with pytest.raises(JournalCorrupt) as caught:
        check_backup(tmp_path / "kept")
    assert caught.value.code == "backup.damaged"


# ---- the reserve --------------------------------------------------------------------------------


def test_the_reserve_takes_real_space(tmp_path: Path) -> None:
    """ND-27: 16 MiB of blocks, not a hole; freed and made again."""
    reserve = Reserve(tmp_path)
    assert not reserve.free()
    assert reserve.make()
    assert reserve.whole
    stat = (tmp_path / "reserve").stat()
    assert stat.st_size == RESERVE_BYTES
    assert stat.st_blocks * 512 >= RESERVE_BYTES
    assert stat.st_mode & 0o777 == 0o600
    assert reserve.make(), "it is there already"
    assert reserve.free()
    assert not reserve.whole
    assert reserve.make()
    assert room(tmp_path) > 0
