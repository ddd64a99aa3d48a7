"""The writer: the one thread that owns the journal's writing connection (04 section 1).

While it syncs a commit, the kernel computes the next one.
A commit that has nobody to overlap with, or a disk that syncs in less than a millisecond, is served
on the kernel's own thread instead, which saves two switches; the lock keeps the two from meeting.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple, TypeVar

from tallystick.errors import DiskFull, JournalCorrupt, TallyError
from tallystick.journal.base import Append, Outcome
from tallystick.journal.sqlite import SqliteJournal

T = TypeVar("T")
Told = Callable[[list[Outcome] | TallyError], None]

_IDLE_S: Final = 1.0
_QUICK_S: Final = 0.001
_FORGET: Final = 1.05  # a disk that has become slower is believed after some dozens of commits


class Rhythm(NamedTuple):
    """When a commit is cut, and how often a snapshot is taken.

    A snapshot waits for calm, but not longer than `overdue` times its interval: a start folds what
    it lacks. While more events than `flood` wait in the lane, there is no calm to wait for.
    So many entries of it are `prepared` at a time: fewer are merged and written in a moment.
    """

    max_frames: int = 256
    max_bytes: int = 1024 * 1024
    max_wait_ns: int = 2_000_000
    snapshot_every: int = 10_000
    catchup_rate: int = 1_000
    overdue: int = 4
    flood: int = 64
    prepared: int = 16


class Writer:
    """Commits in order, one at a time, and rare writes between them."""

    def __init__(self, journal: SqliteJournal, timed: Callable[[float, int], None]) -> None:
        self.journal = journal
        self._timed = timed  # seconds and frames of each commit
        self.broken: Callable[[TallyError], None] | None = None  # told of a failure while idle
        self.least_s = 1.0  # what a commit takes when nothing else is in its way, as of late
        self._usual_s = 1.0
        self._homing = False  # asked for, and not begun
        self._lengthening = False
        self._wrote_s = -math.inf  # when a commit ended last
        self._collected_s = -math.inf
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tally-writer", daemon=True)

    def start(self) -> None:
        """Begin to take work."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is queued, then end; the journal stays open."""
        self._queue.put(None)
        self._thread.join()

    def commit(self, batch: Sequence[Append]) -> list[Outcome]:
        """Write a batch on the calling thread."""
        begun = time.perf_counter()
        with self._lock:
            outcomes = self.journal.append(*batch)
        self._wrote_s = time.perf_counter()
        if self.journal.wal_waits and not self._homing:
            self._homing = True
            self._queue.put(self._home)
        if self.journal.wal_short and not self._lengthening:
            self._lengthening = True
            self._queue.put(self._lengthen)
        took = self._wrote_s - begun
        self._usual_s += (took - self._usual_s) / 8
        self.least_s = min(took, self.least_s * _FORGET)
        self._timed(took, sum(len(each.frames) for each in batch))
        return outcomes

    @property
    def is_quick(self) -> bool:
        """True when a commit takes less than waking this thread and being woken by it would save.

        The disk is believed to be slow until some dozens of commits have shown otherwise.
        """
        return self._usual_s < _QUICK_S

    def submit(self, batch: Sequence[Append], told: Told) -> None:
        """Write a batch on this thread; `told` is called there with what became of it."""

        def act() -> None:
            try:
                outcomes: list[Outcome] | TallyError = self.commit(batch)
            except TallyError as why:
                outcomes = why
            except Exception as why:  # noqa: BLE001 - told to the thread that asked
                outcomes = _broken(why)
            told(outcomes)

        self._queue.put(act)

    def alone(self, action: Callable[[SqliteJournal], T]) -> T:
        """Use the journal on the calling thread, between commits."""
        with self._lock:
            return action(self.journal)

    def later(self, action: Callable[[SqliteJournal], T]) -> Future[T]:
        """Use the journal on this thread, between commits; cancelled in time, it never begins."""
        future: Future[T] = Future()

        def act() -> None:
            if not future.set_running_or_notify_cancel():
                return  # a result that nobody may set would end this thread
            try:
                future.set_result(self.alone(action))
            except BaseException as why:  # noqa: BLE001 - carried to the thread that asked
                future.set_exception(why)

        self._queue.put(act)
        return future

    def _run(self) -> None:
        while True:
            try:
                act = self._queue.get(timeout=_IDLE_S)
            except Empty:
                self._tidy()
                continue
            if act is None:
                return
            act()

    def _home(self) -> None:
        """Copy the log into the file beside the commits of the kernel's thread."""
        self._homing = False
        with self._told_if_broken():
            self.journal.bring_home()

    def _lengthen(self) -> None:
        """Make the log longer ahead of its commits; each waits for one piece at most."""
        with self._told_if_broken():
            more = True
            while more:
                more = self.alone(lambda journal: journal.lengthen_wal())
            self.journal.sync_wal()
        self._lengthening = False

    def _tidy(self) -> None:
        """Nothing to write: fold the log into the file, so that opening it again is quick.

        A quick disk is written by the kernel's thread: nothing to do here is not idleness.
        """
        idle = time.perf_counter() - self._wrote_s >= _IDLE_S
        with self._told_if_broken(), self._lock:
            self.journal.wal_checkpoint(idle=idle)
        if idle and self._collected_s < self._wrote_s:
            self._collected_s = time.perf_counter()
            gc.collect(1)  # takes tens of milliseconds, and nobody waits for it now

    @contextmanager
    def _told_if_broken(self) -> Iterator[None]:
        try:
            yield
        except DiskFull:
            return  # it stays in the log; the next commit finds out by itself
        except Exception as why:  # noqa: BLE001 - this thread goes on, and the node ends
            if self.broken is not None:
                self.broken(why if isinstance(why, TallyError) else _broken(why))


def _broken(why: Exception) -> JournalCorrupt:
    """What nobody foresaw of the store: the node stops, as nothing of it can be relied on."""
    return JournalCorrupt(f"the commit broke: {why!r}", code="node.broken")
