"""The SQLite journal on a full disk, and content that is already there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.errors import DiskFull
from tallystick.journal.blob_files import write_file
from tallystick.journal.sqlite import SqliteJournal
from tallystick.kernel.roots import root
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import Rig
from tests.worlds import CREATED, FUNCTIONS, created, order_documents


def rig_on(folder: Path) -> Rig:
    rig = Rig(order_documents(), FUNCTIONS, journal=SqliteJournal(folder))  # type: ignore[arg-type]
    rig.send(CREATED, created("o-1"))
    return rig


def fill(rig: Rig) -> None:
    for number in range(200):
        rig.send(CREATED, created(f"o-{number}" + "x" * 2000))


@pytest.mark.clause("X-07")
def test_a_full_disk_writes_nothing_and_poisons_nothing(tmp_path: Path) -> None:
    """F-class, in small: a commit that finds no room leaves the file as it was, and readable."""
    rig = rig_on(tmp_path)
    db = rig.journal._db  # type: ignore[attr-defined]
    before = rig.journal.head(rig.world.id)
    pages = next(db.execute("PRAGMA page_count"))[0]
    db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(DiskFull):
        fill(rig)
    assert not db.in_transaction
    assert rig.journal.head(rig.world.id).seq >= before.seq
    again = SqliteJournal(tmp_path)
    assert len(list(again.read(rig.world.id))) == len(list(rig.journal.read(rig.world.id)))


@pytest.mark.clause("X-08")
def test_a_world_names_its_forks(tmp_path: Path) -> None:
    """X-08: children are listed in the order they were forked, and only under their parent."""
    rig = rig_on(tmp_path)
    assert rig.journal.forks(rig.world.id) == []
    first = child_rig(rig, 1, None)
    child_rig(rig, 2, None)
    assert rig.journal.forks(rig.world.id) == [child_id(1), child_id(2)]
    assert rig.journal.forks(child_id(2)) == []
    assert root(first.folded()) == first.root()


def test_content_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    """D9: a file is named by its content, so one that is there is left alone."""
    path = tmp_path / "ab" / "cd"
    write_file(path, b"content")
    inode = path.stat().st_ino
    write_file(path, b"content")
    assert path.stat().st_ino == inode
    assert [each.name for each in path.parent.iterdir()] == ["cd"]
