"""Disks that lose, fill up and fail, below the real SQLite journal."""

# tidy: one list of what a disk may do.
from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event

import apsw
import pytest

from tallystick.errors import DiskFull, SyncFailed
from tallystick.journal.base import Append, Full, Head, WorkRow
from tallystick.journal.sqlite import SqliteJournal
from tallystick.model.frames import verify_chain
from tests.journal.crash import Run, crash_everywhere
from tests.journal.test_journal import WORLD, Writer, blob, frames, spans
from tests.journal.watched import Deed, watched

# `python -m tests.journal.crash` takes every write of 200 events; here is one in fifteen of 30.
EVENTS, EVERY = 30, 15


@pytest.mark.clause("K-26", "X-07")
@pytest.mark.invariant("I1", "I10")
def test_crash_at_every_write() -> None:
    """ND-04, AT-03, in small: kill, lost, reordered and torn writes lose nothing acknowledged."""
    report = crash_everywhere(Run(EVENTS), EVERY)
    assert report["violations"] == 0, report
    assert report["images"] > 150
    assert set(report["modes"]) == {"kill", "lose", "subset", "torn"}


@pytest.mark.invariant("I1")
def test_crash_finds_a_weak_sync() -> None:
    """ND-04, control: the same program finds lost acknowledged frames under synchronous=NORMAL."""
    report = crash_everywhere(Run(EVENTS, weak=True), EVERY)
    assert report["violations"] > 20
    assert any(
        "acknowledged" in each["fault"] or "lost" in each["fault"] for each in report["first"]
    )


def after(writes: int, why: Callable[[], Exception]) -> Callable[[Deed], None]:
    """A judge that lets so many writes pass and refuses all that follow."""
    left = [writes]

    def judge(deed: Deed) -> None:
        if deed.what == "write":
            left[0] -= 1
            if left[0] < 0:
                raise why()

    return judge


@pytest.mark.clause("X-07")
@pytest.mark.invariant("I1")
def test_a_full_disk_recovers_by_itself(tmp_path: Path) -> None:
    """ND-27, AT-38 at the journal: full at 20 random writes; nothing is half there, all goes on."""
    chance = Random("full")
    with watched() as vfs:
        journal = SqliteJournal(tmp_path, vfs=vfs.name)
        writer = Writer(journal)
        for turn in range(20):
            assert isinstance(writer.write(2, blobs=blob(f"b{turn}")), Head)
            before = spans(journal)
            vfs.judge = after(chance.randrange(6), lambda: apsw.FullError("no space left"))
            text = "x" * 30_000
            assert writer.write(1, 1, blobs=blob(text)) == Full(writer.head)
            assert spans(journal) == before
            assert journal.head(WORLD) == writer.head
            with pytest.raises(DiskFull):
                journal.alias("no-room", WORLD)
            vfs.judge = lambda _deed: None
        assert isinstance(writer.write(1), Head)
        journal.close()
        again = SqliteJournal(tmp_path)
        assert verify_chain(again.read(WORLD), world=WORLD) is None
        assert again.head(WORLD).seq == 41
        again.close()


def test_a_full_disk_for_a_large_blob(tmp_path: Path) -> None:
    """ND-27: a file that finds no room is a full disk; the commit that names it never begins."""
    journal = SqliteJournal(tmp_path, spill_bytes=10)
    writer = Writer(journal)

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    journal.files = type("NoRoom", (), {"write": no_room})()
    assert writer.write(1, blobs=blob("a large one")) == Full(writer.head)
    assert spans(journal) == []
    journal.close()


def write_for_ever(writer: Writer) -> None:
    while True:
        assert isinstance(writer.write(1), Head)


@pytest.mark.clause("X-07")
@pytest.mark.invariant("I5")
def test_the_nth_sync_fails(tmp_path: Path) -> None:
    """ND-05, AT-04 at the journal, n = 1..12: no ack after it, no second try, a clean reopen."""
    for nth in range(1, 13):
        with watched() as vfs:
            journal = SqliteJournal(tmp_path / str(nth), vfs=vfs.name)
            writer = Writer(journal)
            syncs = [0]

            def judge(deed: Deed, syncs: list[int] = syncs, nth: int = nth) -> None:
                syncs[0] += deed.what == "sync"
                if deed.what == "sync" and syncs[0] >= nth:
                    raise apsw.IOError("EIO")

            vfs.judge = judge
            with pytest.raises(SyncFailed):
                write_for_ever(writer)
            acked = writer.head.seq
            assert acked == nth - 1, "each commit syncs once"
            tried = len(vfs.log)
            for call in (lambda j=journal: Writer(j), lambda w=writer: w.write(1)):
                with pytest.raises(SyncFailed) as caught:
                    call()
                assert caught.value.exit_code == 3
            journal.close()
            assert [d for d in vfs.log[tried:] if d.what in ("write", "sync")] == []
        again = SqliteJournal(tmp_path / str(nth))
        assert again.head(WORLD).seq >= acked
        assert verify_chain(again.read(WORLD), world=WORLD) is None
        again.close()


@pytest.mark.clause("X-07")
@pytest.mark.invariant("I1", "I10")
def test_a_torn_tail_is_left_out(tmp_path: Path) -> None:
    """AT-18, RL-18: the WAL cut at every 797th byte of the last commit, or garbled there: it opens
    without that commit, sound, and goes on; a whole one is all there.
    """
    journal = SqliteJournal(tmp_path / "data")
    writer = Writer(journal)
    writer.write(1, blobs=blob("kept"))
    wal = tmp_path / "data" / "tally.db-wal"
    begin = wal.stat().st_size
    writer.write(2, 1, blobs=blob("torn" * 3000))
    whole = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    journal.close()
    data = whole["tally.db-wal"]
    garbled = [
        data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        for at in range(begin, len(data), 1999)
    ]
    cuts = [data[:at] for at in range(begin, len(data), 797)]
    for number, torn in enumerate([*cuts, *garbled, data]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "tally.db").write_bytes(whole["tally.db"])
        (folder / "tally.db-wal").write_bytes(torn)
        again = SqliteJournal(folder)
        assert spans(again) == ([(1, 1), (2, 3), (4, 4)] if torn is data else [(1, 1)])
        assert verify_chain(again.read(WORLD), world=WORLD) is None
        assert isinstance(Writer(again).write(1), Head)
        again.close()


def test_the_wal_is_brought_home(tmp_path: Path) -> None:
    """04 section 3: passive above 16 MiB, whole when idle; for a reader it is tried later."""
    journal = SqliteJournal(tmp_path)
    writer = Writer(journal)
    wal = tmp_path / "tally.db-wal"
    writer.write(1)
    small = wal.stat().st_size
    assert 0 < journal.wal_checkpoint() <= small
    assert wal.stat().st_size == small
    for turn in range(18):
        batch = frames(WORLD, writer.head, [1])
        data = bytes([turn]) * 1_000_000
        journal.append(Append(WORLD, batch, writer.head, {bytes([turn]) * 32: data}))
        writer.head = journal.head(WORLD)
    assert wal.stat().st_size > 16 * 1024 * 1024
    assert journal.wal_checkpoint() == 0
    grown = wal.stat().st_size
    assert grown > 16 * 1024 * 1024, "a passive checkpoint leaves the file for reuse"
    reader = journal.reader()
    pages = reader.read(WORLD)
    next(pages)  # a read transaction is open now
    writer.write(1)
    assert journal.wal_checkpoint(idle=True) > 0
    assert wal.stat().st_size == grown
    pages.close()  # type: ignore[attr-defined]  # reads are generators
    reader.close()
    assert journal.wal_checkpoint(idle=True) == 0
    assert wal.stat().st_size == 0
    journal.close()


def _long(journal: SqliteJournal, mib: int) -> Writer:
    """A log of so many megabytes."""
    writer = Writer(journal)
    for turn in range(mib):
        data = turn.to_bytes(2, "big") * (1 << 19)
        batch = frames(WORLD, writer.head, [1])
        journal.append(Append(WORLD, batch, writer.head, {turn.to_bytes(32, "big"): data}))
        writer.head = journal.head(WORLD)
    return writer


@pytest.mark.invariant("I42")
def test_a_full_log_waits_for_those_who_read(tmp_path: Path) -> None:
    """AT-32: somebody who reads at every commit, for a moment, does not let the log grow."""
    journal = SqliteJournal(tmp_path)
    Writer(journal).write(1)
    over = Event()

    def reads() -> int:
        reader, seen = journal.reader(), 0
        while not over.is_set():
            for number, _ in enumerate(reader.read(WORLD)):
                if number < 20:
                    time.sleep(0.002)
            seen += 1
        reader.close()
        return seen

    with ThreadPoolExecutor() as pool:
        others = [pool.submit(reads) for _ in range(3)]
        try:
            _long(journal, 130)
        finally:
            over.set()
        assert all(other.result() for other in others)
    assert (tmp_path / "tally.db-wal").stat().st_size < 64 * 1024 * 1024
    journal.close()


@pytest.mark.invariant("I42")
def test_a_log_that_is_in_the_file_begins_anew_before_it_is_full(tmp_path: Path) -> None:
    """AT-32: cutting finds nearly nothing to copy, and what is written over stays readable."""
    journal = SqliteJournal(tmp_path)
    Writer(journal).write(1)
    wal, largest, sizes = tmp_path / "tally.db-wal", 0, []
    for turn in range(500):
        data = turn.to_bytes(2, "big") * (1 << 16)
        head = journal.head(WORLD)
        name = turn.to_bytes(32, "big")
        journal.append(Append(WORLD, frames(WORLD, head, [1]), head, {name: data}))
        if journal.wal_waits:
            journal.bring_home()
        largest = max(largest, wal.stat().st_size)
        sizes.append(journal.wal_checkpoint())
    assert largest < 40 * 1024 * 1024
    assert sum(later < sooner for sooner, later in pairwise(sizes)) >= 1, "it began anew"
    journal.close()
    again = SqliteJournal(tmp_path)
    reader = again.reader()
    assert len(list(reader.read(WORLD))) == 501
    reader.close()
    again.close()


@pytest.mark.invariant("I42")
def test_a_reader_that_does_not_end_is_waited_for_now_and_then(tmp_path: Path) -> None:
    """A backup of minutes lets the log grow instead of stopping every commit; then it is cut."""
    journal = SqliteJournal(tmp_path)
    Writer(journal).write(1)
    reader = journal.reader()
    endless = reader.read(WORLD)
    next(endless)
    began = time.monotonic()
    writer = _long(journal, 90)
    assert time.monotonic() - began < 30, "six waits of a second, not forty"
    wal = tmp_path / "tally.db-wal"
    assert wal.stat().st_size > 90 * 1024 * 1024
    endless.close()  # type: ignore[attr-defined]  # reads are generators
    reader.close()
    assert journal.wal_checkpoint() == 0
    writer.write(1)
    assert wal.stat().st_size < 1024 * 1024
    journal.close()


@pytest.mark.clause("X-07")
@pytest.mark.invariant("I1")
def test_a_disk_that_fills_amid_a_large_change_is_no_failure(tmp_path: Path) -> None:
    """ND-27: SQLite undoes a change by itself when it finds no room before the end of it; that is a
    full disk like any other, and the journal takes the change later.
    """
    rows = [WorkRow(n.to_bytes(32, "big"), "e" * 500, "p", "ready", 1) for n in range(10_000)]
    with watched() as vfs:
        journal = SqliteJournal(tmp_path, vfs=vfs.name)
        writer = Writer(journal)
        writer.write(1)
        vfs.judge = after(0, lambda: apsw.FullError("no space left"))
        with pytest.raises(DiskFull):
            journal.put_work(WORLD, *rows)
        vfs.judge = lambda _deed: None
        assert journal.work(WORLD) == []
        assert isinstance(writer.write(1), Head)
        journal.put_work(WORLD, *rows)
        assert len(journal.work(WORLD)) == len(rows)
        journal.close()
