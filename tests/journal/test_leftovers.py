"""What a commit leaves behind that never was: no byte of it stays on the disk."""

from __future__ import annotations

import errno
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tallystick.errors import DiskFull, Rejected
from tallystick.journal.base import Append, Full, Head
from tallystick.journal.blob_files import write_file
from tallystick.journal.collect import Trim
from tallystick.journal.sqlite import SqliteJournal
from tallystick.values import canon
from tests.journal.damage import grown
from tests.journal.test_faults import after
from tests.journal.test_journal import WORLD, Writer, blob
from tests.journal.watched import watched
from tests.rig import NODE
from tests.sweeps import keep_only, trim


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """Let the system refuse every byte of a file behind a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "blobs").rglob("*") if path.is_file())


def test_half_a_file_is_taken_away(tmp_path: Path) -> None:
    """ND-27: a large blob for which there is no room does not keep the room there was."""
    with no_file_over(1 << 20), pytest.raises(OSError, match="File too large") as caught:
        write_file(tmp_path / "one" / "large", bytes(3 << 20))
    assert caught.value.errno == errno.EFBIG
    assert list((tmp_path / "one").iterdir()) == []


@pytest.mark.clause("X-07")
def test_files_of_a_commit_that_never_was_are_taken_away(tmp_path: Path) -> None:
    """ND-27: a full disk undoes the commit, and the large blobs that only it named."""
    with watched() as vfs:
        journal = SqliteJournal(tmp_path, vfs=vfs.name, spill_bytes=10)
        writer = Writer(journal)
        assert isinstance(writer.write(1, blobs=blob("a large one")), Head)
        kept = files_of(tmp_path)
        assert len(kept) == 1
        vfs.judge = after(0, lambda: apsw.FullError("no space left"))
        both = {**blob("a large one"), **blob("another large one")}
        assert writer.write(1, blobs=both) == Full(writer.head)
        with pytest.raises(DiskFull):
            journal.alias("no-room", WORLD)
        vfs.judge = lambda _deed: None
        assert files_of(tmp_path) == kept, "what an earlier commit named stays"
        assert isinstance(writer.write(1, blobs=both), Head)
        assert len(files_of(tmp_path)) == 2
        journal.close()


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_a_sweep_takes_files_that_no_row_names(tmp_path: Path) -> None:
    """K-44: what a crash left between a file and its commit, or between a sweep and its files."""
    journal = SqliteJournal(tmp_path, spill_bytes=10)
    writer = Writer(journal)
    named = blob("a large one")
    writer.write(1, blobs=named)
    (digest,) = named
    lost = next(iter(blob("nobody ever heard of me")))
    journal.files.write(WORLD, lost, b"what was written before the commit")
    half = journal.files.path(WORLD, lost)
    half.with_name(half.name + ".new").write_bytes(b"half")
    bad = half.with_name(half.name + ".bad")
    bad.write_bytes(b"kept for whoever wants to look")
    keep_only(journal, WORLD, frozenset(named))
    for shelf in journal.files.shelves(WORLD):
        journal.tidy(WORLD, shelf)
    assert files_of(tmp_path) == sorted([digest.hex(), bad.name])
    assert journal.blob(WORLD, digest) == named[digest]
    journal.close()


def test_half_an_archive_is_taken_away(tmp_path: Path) -> None:
    """ND-27: a trim whose archive finds no room is refused in our own words and leaves nothing."""
    rig = grown(tmp_path / "data")
    assert isinstance(rig.journal, SqliteJournal)
    data = bytes(3 << 20)
    head = rig.journal.head(WORLD)
    rig.journal.append(Append(WORLD, [], head, {canon.digest_of(data): data}))
    order = Trim(WORLD, rig.world.seq, tmp_path / "archive", NODE, 77)
    with no_file_over(2 << 20), pytest.raises(Rejected) as caught:
        trim(rig.journal, order)
    assert caught.value.code == "trim.unwritable"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert trim(rig.journal, order).frames > 0
    rig.journal.close()


@pytest.mark.invariant("I1")
def test_a_file_that_is_there_is_not_taken_for_durable(tmp_path: Path) -> None:
    """F1 then F2: killed between the renaming of a file and the sync of its folder: whoever brings
    the same bytes again has the name made durable before a commit rests on it.
    """
    opened: list[object] = []
    path = tmp_path / "one"
    assert write_file(path, b"whole")
    with audited(opened):
        assert not write_file(path, b"whole")
    assert opened == [str(tmp_path)], "a folder is opened to be synced"


@contextmanager
def audited(opened: list[object]) -> Iterator[None]:
    """What is opened meanwhile; a hook stays for ever, and does nothing afterwards."""
    looks = [True]

    def hook(event: str, args: tuple[object, ...]) -> None:
        if looks and event == "open":
            opened.append(args[0])

    sys.addaudithook(hook)
    try:
        yield
    finally:
        looks.clear()
