"""The writer's thread outlives what it cannot do, and a lock is given back once."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tallystick.errors import DiskFull, JournalCorrupt, NotOwner, SyncFailed
from tallystick.journal import sqlite_tables as tables
from tallystick.journal.base import Append
from tallystick.journal.sqlite import SqliteJournal
from tallystick.node import writer as writers
from tallystick.node.files import Files, Lock
from tallystick.node.writer import Writer
from tests.journal import test_journal as other


class Tight:
    """A journal whose disk has no room to fold the log into the file."""

    def __init__(self, folder: Path, why: type[DiskFull | SyncFailed]) -> None:
        self._journal = SqliteJournal(folder)
        self.why = why
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def wal_checkpoint(self, **_options: Any) -> Any:
        self.asked += 1
        raise self.why("no room")


@pytest.mark.parametrize("why", [DiskFull, SyncFailed])
def test_an_idle_checkpoint_that_fails_does_not_end_the_writer(
    tmp_path: Path, why: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ND-27: a disk that fills while nothing is written stops no later commit (found by AT-38)."""
    monkeypatch.setattr(writers, "_IDLE_S", 0.01)
    journal: Any = Tight(tmp_path, why)
    writer = Writer(journal, lambda _seconds, _frames: None)
    writer.start()
    try:
        until = time.monotonic() + 60
        while journal.asked < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert journal.asked >= 2
        assert writer.later(lambda kept: kept.aliases()).result(60) == {}
    finally:
        writer.stop()
        journal.close()


class Asked:
    """A journal that notes whether it was taken for idle."""

    def __init__(self, folder: Path) -> None:
        self._journal = SqliteJournal(folder)
        self.idle = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def wal_checkpoint(self, *, idle: bool = False) -> int:
        self.idle = idle
        return 0


def test_a_writer_beside_which_commits_are_made_is_not_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I40: the log is brought home whole when nobody writes, not amid commits of another thread.

    Control: a moment after the last of them it is.
    """
    now = [100.0]
    monkeypatch.setattr(writers.time, "perf_counter", lambda: now[0])  # type: ignore[attr-defined]
    journal: Any = Asked(tmp_path)
    writer = Writer(journal, lambda _seconds, _frames: None)
    try:
        writer._tidy()
        assert journal.idle, "nothing was written yet"
        writer.commit([])
        writer._tidy()
        assert not journal.idle
        now[0] += writers._IDLE_S
        writer._tidy()
        assert journal.idle
    finally:
        journal.close()


def test_work_that_nobody_waits_for_ends_nothing(tmp_path: Path) -> None:
    """ND-30: cancelled while it waits in the queue it never begins; cancelled later it is done.

    The writer goes on either way: whoever comes next is served.
    """
    journal = SqliteJournal(tmp_path)
    writer = Writer(journal, lambda _seconds, _frames: None)
    writer.start()
    begun, held, seen = threading.Event(), threading.Event(), list[str]()

    def slow(_journal: SqliteJournal) -> None:
        begun.set()
        assert held.wait(60)
        seen.append("running")

    try:
        running = writer.later(slow)
        queued = writer.later(lambda _: seen.append("queued"))
        assert begun.wait(60)
        assert not running.cancel(), "it has begun"
        assert queued.cancel()
        held.set()
        assert writer.later(lambda kept: kept.aliases()).result(60) == {}
        assert seen == ["running"]
    finally:
        held.set()
        writer.stop()
        journal.close()


def test_a_lock_is_given_back_once(tmp_path: Path) -> None:
    """I11: whoever closes twice after a failed start closes nobody else's file (found by AT-39)."""
    files = Files(tmp_path)
    files.make()
    lock = Lock(files)
    with pytest.raises(NotOwner):
        Lock(files)
    lock.release()
    other = Lock(files)
    lock.release()
    with pytest.raises(NotOwner):
        Lock(files)
    other.release()


class Sleepy:
    """A journal whose commits take a given time."""

    wal_waits = wal_short = False

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def append(self, *_batch: Any) -> list[Any]:
        if self.seconds:
            time.sleep(self.seconds)
        return []


def test_a_disk_is_slow_until_it_has_shown_otherwise() -> None:
    """K-26: commits leave the writer's thread only where they take less than a millisecond."""
    quick = Writer(Sleepy(0), lambda *_: None)  # type: ignore[arg-type]
    assert not quick.is_quick
    assert any(quick.commit([]) == [] and quick.is_quick for _ in range(5_000))
    slow = Writer(Sleepy(0.002), lambda *_: None)  # type: ignore[arg-type]
    assert not any(slow.commit([]) == [] and slow.is_quick for _ in range(40))


def test_the_log_is_copied_beside_the_commits(tmp_path: Path) -> None:
    """AT-32: the file follows the log while it is written, so that cutting it is quick."""
    journal = SqliteJournal(tmp_path)
    writer = Writer(journal, lambda _seconds, _frames: None)
    writer.start()
    try:
        head = other.Writer(journal).head
        for turn in range(40):
            data = turn.to_bytes(2, "big") * (1 << 19)
            blobs = {turn.to_bytes(32, "big"): data}
            (head,) = writer.commit([Append(other.WORLD, (), head, blobs)])  # type: ignore[assignment]
        writer.later(lambda _journal: None).result(60)  # what was asked for before is done
        assert (tmp_path / "tally.db").stat().st_size > 30 * 1024 * 1024
    finally:
        writer.stop()
    assert journal._log.bytes > 0, "nothing was cut"
    journal.close()
    again = SqliteJournal(tmp_path)
    assert len(list(again.blobs(other.WORLD))) == 40
    again.close()


@pytest.mark.clause("X-07")
@pytest.mark.invariant("I10")
def test_a_commit_that_breaks_is_told(tmp_path: Path) -> None:
    """F4: a row that damage has left where the next frame belongs ended the writer's thread without
    a word: nobody was answered any more, and the node did not stop.
    """
    journal = SqliteJournal(tmp_path)
    head = other.lease_of(journal, other.WORLD) and journal.head(other.WORLD)
    (frame,) = other.frames(other.WORLD, head, [1])
    row = (journal._id(other.WORLD), frame.seq, frame.last, 0, 0, frame.hash, b"")
    journal._db.execute(tables.FRAME, row)
    told: SimpleQueue[Any] = SimpleQueue()
    writer = Writer(journal, lambda _seconds, _frames: None)
    writer.start()
    try:
        writer.submit([Append(other.WORLD, [frame], head, {})], told.put)
        assert isinstance(told.get(timeout=10), JournalCorrupt)
        assert writer.later(lambda kept: kept.head(other.WORLD)).result(10) == head
    finally:
        writer.stop()
        journal.close()
