"""The file of the log is there before it is written to (ADR 0030)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tallystick.journal.sqlite import TORN, SqliteJournal
from tallystick.journal.sqlite_log import READY, USED
from tests.journal.test_journal import WORLD, Writer, blob, spans

WAL = "tally.db-wal"


def lengthened(folder: Path) -> tuple[SqliteJournal, Writer]:
    """A journal in use, whose log was made longer ahead of its commits."""
    journal = SqliteJournal(folder)
    writer = Writer(journal)
    assert not journal.wal_short, "nobody knows yet whether more comes"
    while not journal.wal_short:
        writer.write(1, blobs=blob(f"{journal.head(WORLD).seq}" * 20_000))
    while journal.lengthen_wal():
        pass
    journal.sync_wal()
    return journal, writer


def killed(folder: Path, journal: SqliteJournal, name: str, wal: bytes | None = None) -> Path:
    """What a kill leaves behind: the files as they are now, or with another log."""
    image = folder / name
    image.mkdir()
    shutil.copy(journal.folder / "tally.db", image)
    (image / WAL).write_bytes((journal.folder / WAL).read_bytes() if wal is None else wal)
    return image


def reopened(image: Path) -> tuple[list[tuple[int, int]], int]:
    """The frames that are there again, and how many bytes were told to be torn."""
    journal = SqliteJournal(image)
    found = spans(journal), int(journal.meta().get(TORN, 0))
    journal.close()
    return found


@pytest.mark.clause("K-26", "X-07")
def test_commits_go_over_what_is_there(tmp_path: Path) -> None:
    """F1, I1: the file stays as long as it is, and a kill behind any commit loses none of them."""
    journal, writer = lengthened(tmp_path / "live")
    wal = tmp_path / "live" / WAL
    assert wal.stat().st_size == READY > USED
    assert not journal.wal_short
    for number in range(20):
        writer.write(1, 2)
        whole = spans(journal)
        assert reopened(killed(tmp_path, journal, f"kill-{number}")) == (whole, 0)
    assert wal.stat().st_size == READY
    journal.close()


@pytest.mark.clause("X-07")
def test_a_commit_that_was_begun_over_zeros_is_left_out_and_told(tmp_path: Path) -> None:
    """F2, AT-18: cut at each part of it, in the middle of its first head too; whole it is there."""
    journal, writer = lengthened(tmp_path / "live")
    before, old = (tmp_path / "live" / WAL).read_bytes(), spans(journal)
    writer.write(1, blobs=blob("torn" * 3000))
    after, new = (tmp_path / "live" / WAL).read_bytes(), spans(journal)
    first = next(at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
    last = len(after.rstrip(b"\0"))
    cuts = [first, first + 5, first + 24, first + 1000, (first + last) // 2, last - 1]
    for cut in cuts:
        image = killed(tmp_path, journal, f"cut-{cut}", after[:cut] + before[cut:])
        found, torn = reopened(image)
        assert found == old, cut
        assert (torn > 0) == (cut > first), cut
    assert reopened(killed(tmp_path, journal, "whole")) == (new, 0)
    lost = after[:first] + bytes(24) + after[first + 24 :]
    assert reopened(killed(tmp_path, journal, "lost", lost))[1] > 0, "its first head is missing"
    journal.close()


def test_an_idle_log_is_brought_home_and_keeps_its_length(tmp_path: Path) -> None:
    """04 section 3: what stands in it is in the file; one that has become longer is cut."""
    journal, writer = lengthened(tmp_path)
    assert journal.wal_checkpoint(idle=True) == 0
    assert (tmp_path / WAL).stat().st_size == READY
    writer.write(1)
    assert 0 < journal.wal_checkpoint() < USED, "it began anew"
    for number in range(10):
        writer.write(1, blobs=blob(f"{number}" * 1_000_000))
    assert (tmp_path / WAL).stat().st_size > READY
    assert journal.wal_checkpoint(idle=True) == 0
    assert (tmp_path / WAL).stat().st_size == 0
    whole = spans(journal)
    journal.close()
    assert reopened(tmp_path) == (whole, 0)
