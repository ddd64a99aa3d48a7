"""The write-ahead log of the journal: how long it is, and when it is brought home (ADR 0030).

Theory of operation.
What was committed stands in the log first, and is copied into the file later.
Beside the commits it is copied little by little: who waits for a sync waits for a few pages.
So from `NEAR` on nearly nothing is left to copy, and the log begins anew in the same file: that
takes a moment, and writing over it is quicker than making it longer again.
Over `FULL` it is cut in any case, and those who read are waited for; one who does not end is
waited for again only when some more has come.

Writing over bytes that a file has takes half the time of making it longer, to a disk that syncs.
So the file of a log in use is filled with zeros up to `READY`, and in an idle moment one that is no
longer is brought home and stays as it is. SQLite takes zeros for the end of the log.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from tallystick.journal.blob_files import sync_file
from tallystick.journal.reserve import ROOM_BYTES, room

_MIB: Final = 1024 * 1024
SOME: Final = 16 * _MIB  # is copied whenever it suits
NEAR: Final = 36 * _MIB
LEFT: Final = _MIB // 4  # is not in the file yet: more is copied, and less is a moment's work
STEP: Final = _MIB  # more, before a moment without readers is looked for again
FULL: Final = 48 * _MIB  # so that it stays under 64 while it is cut
AGAIN: Final = 8 * _MIB  # more, before a reader is waited for a second time
READERS_MS: Final = 1000  # as long a full log waits for those who read
MOMENT_MS: Final = 20  # and one that is not full yet
READY: Final = 8 * _MIB  # of the file are there before they are written to
USED: Final = _MIB // 4  # who wrote so much will write more
PIECE: Final = _MIB  # is filled at a time: a commit waits for it


class Cut(NamedTuple):
    """How much of the log is brought home, and how long its readers are waited for."""

    mode: int
    whole: bool
    wait_ms: int = 0


class Log:
    """The bytes of the log, and how many of them are in the file too."""

    def __init__(self, database: Path, page: int) -> None:
        self._path = database.with_name(f"{database.name}-wal")
        self._page = page
        self.bytes = self._home = self._longest = 0
        self._full, self._near = FULL, NEAR
        self.coming = False  # somebody copies it just now, and nobody else can
        self._ready = False

    def grown(self, pages: int) -> None:
        """A commit has left so many pages in the log."""
        self.bytes = pages * self._page
        self._home = min(self._home, self.bytes)
        self._longest = max(self._longest, self.bytes)

    @property
    def short(self) -> bool:
        """True when the file of a log in use is to be made longer ahead of its commits."""
        return self.bytes > USED and not self._ready

    def lengthen(self) -> bool:
        """Fill a piece behind the end of the file; False when it needs no more.

        Nobody may write to the log meanwhile. A disk with little space is left alone.
        """
        handle = os.open(self._path, os.O_WRONLY)
        try:
            size = os.fstat(handle).st_size
            self._ready = True  # also when it fails: nobody needs it so much
            if size >= READY or room(self._path.parent) < ROOM_BYTES + READY:
                return False
            os.pwrite(handle, bytes(min(PIECE, READY - size)), size)
            self._ready = False
        finally:
            os.close(handle)
        return True

    def sync(self) -> None:
        """Have what was added on the disk; somebody may write to the log meanwhile."""
        sync_file(self._path)

    def homed(self, pages: int) -> None:
        """So many of its pages are in the file."""
        self._home = pages * self._page

    @property
    def waits(self) -> bool:
        """True when some of it is to be copied into the file beside the next commits."""
        return self.bytes - self._home > LEFT

    @property
    def due(self) -> bool:
        """True when a commit does not leave the log as it is."""
        return self.bytes > self._full or self._easy

    @property
    def _easy(self) -> bool:
        if self.bytes <= self._near or self.coming:
            return False
        return self.bytes - self._home <= LEFT

    def cut(self, *, idle: bool) -> Cut | None:
        """What is to be done now; None when there is nothing to do."""
        size, easy = self.bytes, self._easy
        if size > self._full:
            return Cut(apsw.SQLITE_CHECKPOINT_TRUNCATE, whole=True, wait_ms=READERS_MS)
        if size > FULL or (idle and size > 0 and self._longest > READY):
            return Cut(apsw.SQLITE_CHECKPOINT_TRUNCATE, whole=True)
        if idle and size > 0:
            return Cut(apsw.SQLITE_CHECKPOINT_PASSIVE, whole=True)
        if easy:
            return Cut(apsw.SQLITE_CHECKPOINT_RESTART, whole=True, wait_ms=MOMENT_MS)
        return Cut(apsw.SQLITE_CHECKPOINT_PASSIVE, whole=False) if size > SOME else None

    def kept(self) -> None:
        """Somebody reads, or there is no room: what was committed stays in the log."""
        if self.bytes > self._full:
            self._full = self.bytes + AGAIN
        self._near = self.bytes + STEP

    def done(self, cut: Cut, pages: int, home: int) -> None:
        """A cut found so many pages, and so many of them are in the file now."""
        if pages == home:
            self.bytes = self._home = 0
        if cut.whole:
            self._full, self._near = FULL, NEAR
        if cut.mode == apsw.SQLITE_CHECKPOINT_TRUNCATE:
            self._ready, self._longest = False, 0
