"""The SQLite journal on a full disk, files it refuses, and content that is already there."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tallystick.errors import DiskFull, JournalCorrupt, Rejected, Unavailable, UnknownName
from tallystick.journal.base import CheckpointRow, Head
from tallystick.journal.blob_files import write_file
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.journal.sqlite_tables import FORMAT, check_library
from tallystick.kernel.roots import root
from tests.journal.test_journal import WORLD, Writer, blob
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


# ---- files that are refused -----------------------------------------------------------------


def test_a_library_that_can_lose_a_wal_is_refused() -> None:
    """10 section 4: a SQLite older than 3.51.3 is refused by name; the bundled one is not."""
    with pytest.raises(Rejected) as caught:
        check_library("3.51.2")
    assert caught.value.code == "journal.sqlite_too_old"
    assert caught.value.where == {"found": "3.51.2", "want": "3.51.3"}
    check_library("3.52.0")
    check_library()


@pytest.mark.clause("X-07")
def test_a_newer_format_in_the_wal_is_left_untouched(tmp_path: Path) -> None:
    """F7: a newer file whose last commits stand in its WAL is refused; both files stay as they
    were, and by a reader too.
    """
    journal = SqliteJournal(tmp_path)
    Writer(journal).write(1)
    journal._db.execute("UPDATE meta SET value=value + 1 WHERE key='format'")
    journal._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    journal.close()
    names = ("tally.db", "tally.db-wal")
    before = [(tmp_path / name).read_bytes() for name in names]
    for opened in (SqliteJournal, SqliteReader):
        with pytest.raises(Rejected) as caught:
            opened(tmp_path)
        assert caught.value.code == "journal.format"
    assert [(tmp_path / name).read_bytes() for name in names] == before


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"no database at all, but long enough" * 40, "journal.corrupt"),
        (None, "journal.unreadable"),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, content: bytes | None, code: str) -> None:
    """F4: other content is damage, a missing file is nothing to read; neither is a traceback."""
    if content is not None:
        (tmp_path / "tally.db").write_bytes(content)
    with pytest.raises((JournalCorrupt, Unavailable)) as caught:
        SqliteReader(tmp_path)
    assert caught.value.code == code
    assert caught.value.where["file"].endswith("tally.db")


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    """04 section 2: a reader's connection cannot write, and closing it leaves the file alone."""
    journal = SqliteJournal(tmp_path)
    Writer(journal).write(1)
    journal.close()
    before = (tmp_path / "tally.db").read_bytes()
    reader = SqliteReader(tmp_path)
    with pytest.raises(apsw.ReadOnlyError):
        reader._db.execute("DELETE FROM frame")
    assert len(list(reader.read(WORLD))) == 1
    assert reader.meta()["format"] == FORMAT
    reader.close()
    assert (tmp_path / "tally.db").read_bytes() == before


def test_a_long_read_is_many_short_ones(tmp_path: Path) -> None:
    """A walk over a whole journal holds up no trim, and says so when one has overtaken it."""
    journal = SqliteJournal(tmp_path)
    writer = Writer(journal)
    writer.write(*([1] * 1500))
    reader = journal.reader()
    assert [frame.seq for frame in reader.read(WORLD)] == list(range(1, 1501))
    frames = list(reader.read(WORLD))
    walk = reader.read(WORLD)
    seen = [next(walk).seq]
    writer.write(*([1] * 300))
    assert len([*seen, *walk]) == 1500, "what comes meanwhile is not chased"
    for upto in (frames[699], frames[1499]):
        walk = reader.read(WORLD, after=journal.lineage(WORLD)[0].base.seq)
        begun = next(walk).seq
        base = Head(upto.seq, upto.hash, 1)
        journal.trim(
            WORLD, base, CheckpointRow(upto.seq, upto.hash, bytes(32), bytes(32), 1, 0, b"")
        )
        while journal.drop_below(WORLD, 500):
            pass
        with pytest.raises(UnknownName, match=f"begins behind seq {upto.seq}"):
            list(walk)
        assert begun < upto.seq
    reader.close()
    journal.close()


@pytest.mark.invariant("I42")
def test_a_walk_over_blobs_holds_up_no_log(tmp_path: Path) -> None:
    """04 section 3: whoever writes an export to a slow disk reads in stretches, like all others:
    the log is cut meanwhile.
    """
    journal = SqliteJournal(tmp_path)
    writer = Writer(journal)
    wanted = {name: data for number in range(600) for name, data in blob(f"b{number}").items()}
    writer.write(1, blobs=wanted)
    reader = journal.reader()
    walk = reader.blobs(WORLD)
    found = [next(walk)]
    writer.write(1)
    assert journal.wal_checkpoint(idle=True) == 0
    found += walk
    assert found == sorted((name, len(data)) for name, data in wanted.items())
    reader.close()
    journal.close()
