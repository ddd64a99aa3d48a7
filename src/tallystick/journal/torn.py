"""The end of the write-ahead log as a crash left it, and how much of it counts for nothing.

Theory of operation.
SQLite takes the log up to its last whole commit and passes over the rest without a word.
How far it came it says itself; how long the file was is looked at before it is opened.
What lies between is left over from an earlier round of the log, which has other salts, or zeros
that were put there ahead of the commits, or the beginning of a commit that was never finished: then
a reader of the log of the node is told.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import apsw

_HEADER: Final = 32  # of the file: magic, version, page size, round, salts, sum
_FRAME: Final = 24  # before each page: number, size after commit, salts, sum
_PIECE: Final = 1024 * 1024
_SALTS: Final = 8  # bytes, at 16 in the header of the file and at 8 in that of a frame


class Log(NamedTuple):
    """The log as it lay there before it was opened."""

    path: Path
    size: int
    page: int
    salts: bytes


def log_of(database: Path) -> Log | None:
    """The log beside a database; None when there is none that holds anything."""
    path = database.with_name(f"{database.name}-wal")
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None
    if len(head) < _HEADER:
        return None
    return Log(path, size, int.from_bytes(head[8:12]), head[16 : 16 + _SALTS])


def torn_bytes(log: Log, db: apsw.Connection) -> int:
    """How many bytes after the last whole commit were on their way when the writer ended."""
    frames, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    end = _HEADER + max(frames, 0) * (_FRAME + log.page)
    if end >= log.size:
        return 0
    with log.path.open("rb") as file:
        file.seek(end)
        head = file.read(_FRAME)
        if not any(head) and not _any_behind(file):
            return 0
    salts = head[8 : 8 + _SALTS]
    # Cut within its head, or of this round, as far as it came: all else is an earlier round.
    begun = len(head) < _FRAME or log.salts.startswith(salts.rstrip(b"\0"))
    return log.size - end if begun else 0


def _any_behind(file: BinaryIO) -> bool:
    """True when the rest of a file holds anything but zeros."""
    return any(piece.strip(b"\0") for piece in iter(lambda: file.read(_PIECE), b""))
