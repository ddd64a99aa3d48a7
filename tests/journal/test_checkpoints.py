"""Checkpoints: what a copy kept elsewhere can tell, and how strictly one is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.errors import Rejected, Unavailable
from tallystick.journal import checkpoints
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import verify
from tests.journal.damage import checkpoint, grown
from tests.kernel.test_fork import child_id
from tests.rig import NODE, WORLD, Rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = grown(tmp_path_factory.mktemp("data"))
    yield made
    made.journal.close()


@pytest.mark.clause("K-12")
def test_a_copy_of_checkpoints_finds_a_rollback(tmp_path: Path) -> None:
    """04 section 4: rolled back with its checkpoints and all, a copy kept elsewhere still tells."""
    rig = grown(tmp_path / "data")
    for row in rig.journal.checkpoints(WORLD):
        checkpoints.note(tmp_path, WORLD, row)
    checkpoints.note(tmp_path, child_id(1), row)
    copies = list(checkpoints.read_file(tmp_path / checkpoints.FILE, WORLD))
    assert copies == rig.journal.checkpoints(WORLD)
    journal = rig.journal
    assert isinstance(journal, SqliteJournal)
    assert verify(journal, WORLD, checkpoints=copies).ok
    cut = copies[-1].seq - 3
    at = next(f for f in journal.read(WORLD) if f.last >= cut)
    journal._db.execute("DELETE FROM frame WHERE seq>?", (at.seq,))
    journal._db.execute("DELETE FROM checkpoint WHERE seq>?", (at.last,))
    journal._db.execute("DELETE FROM snapshot WHERE seq>=?", (at.last,))
    journal._db.execute("UPDATE world SET head_seq=?, head_hash=?", (at.last, at.hash))
    assert verify(journal, WORLD).ok, "alone it is a sound journal"
    found = verify(journal, WORLD, checkpoints=copies).first_bad
    assert found is not None
    assert (found.seq, found.where) == (at.last + 1, f"checkpoint {copies[-1].seq}")
    journal.close()


def test_the_file_of_checkpoints_is_read_strictly(tmp_path: Path, rig: Rig) -> None:
    """04 section 4: a line cut by a crash is left out; a bad line in the middle is refused."""
    row = checkpoint(rig)
    path = tmp_path / checkpoints.FILE
    checkpoints.note(tmp_path, WORLD, row)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    assert list(checkpoints.read_file(path, WORLD)) == [row]
    path.write_bytes(whole[:50] + b"\n" + whole)
    with pytest.raises(Rejected) as caught:
        list(checkpoints.read_file(path, WORLD))
    assert caught.value.code == "checkpoint.malformed"
    assert caught.value.where["line"] == 1


def test_a_checkpoint_of_an_unknown_key_does_not_count(rig: Rig) -> None:
    """04 section 4: who signed must be known; a key may be given from elsewhere."""
    row = checkpoint(rig)
    journal = rig.journal
    fault = checkpoints.fault_of(journal, WORLD, row, {})
    assert fault == "nobody knows the key of its seal"
    assert checkpoints.fault_of(journal, WORLD, row, {NODE.key_id: NODE.public}) is None


def test_a_cut_line_does_not_spoil_the_next(tmp_path: Path, rig: Rig) -> None:
    """04 section 4: what a crash left of a line is taken off before the next one is written, so
    that the file stays one that can be compared.
    """
    row = checkpoint(rig)
    path = tmp_path / checkpoints.FILE
    checkpoints.note(tmp_path, WORLD, row)
    whole = path.read_bytes()
    for cut in (whole[:50], whole + whole[:50], whole + whole[:-1]):
        path.write_bytes(cut)
        checkpoints.note(tmp_path, WORLD, row)
        assert path.read_bytes() == whole * (2 if cut.startswith(whole) else 1)
        assert set(checkpoints.read_file(path, WORLD)) == {row}


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, rig: Rig) -> None:
    """F3: whoever signs is told in our own words; nobody ends with a trace of Python over it."""
    (tmp_path / checkpoints.FILE).mkdir()
    with pytest.raises(Unavailable) as caught:
        checkpoints.note(tmp_path, WORLD, checkpoint(rig))
    assert caught.value.code == "checkpoint.unwritable"
