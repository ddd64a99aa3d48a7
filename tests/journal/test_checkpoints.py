"""Checkpoints: what a copy kept elsewhere can tell, and how strictly one is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.errors import Rejected
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
