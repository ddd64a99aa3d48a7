"""A journal on disk for measuring memory: what the kernel holds, and nothing that storage holds.

It keeps the contract of `journal/base.py` as far as one world and its forks need it.
It is not for use: it trades durability for time, as no figure taken with it is about commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw

from tallystick.journal.base import Append, Fenced, Head, Lease, Outcome, SnapshotRow
from tallystick.model.frames import GENESIS, Sealed

TABLES = """
create table if not exists blobs (digest blob primary key, data blob) without rowid;
create table if not exists frames (
  world text, seq int, last int, prev blob, hash blob, body blob, primary key (world, seq));
create table if not exists snapshots (world text, seq int, root blob, document blob);
create table if not exists worlds (
  world text primary key, parent text, seq int, hash blob, epoch int);
"""
CACHE_KIB = 8192


class DiskJournal:
    """Frames, blobs and snapshots in one SQLite file with a small page cache."""

    def __init__(self, path: Path) -> None:
        self._base = apsw.Connection(str(path))
        self._base.pragma("journal_mode", "off")
        self._base.pragma("synchronous", "off")
        self._base.pragma("cache_size", -CACHE_KIB)
        self._base.execute(TABLES)

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()

    def append(self, *batch: Append) -> list[Outcome]:
        """Write all frames of each world with their blobs."""
        return [self._append(each) for each in batch]

    def _append(self, batch: Append) -> Outcome:
        head = self.head(batch.world)
        if head != batch.expect:
            return Fenced(head)
        with self._base as base:
            # In order of digest the tree of the table is walked once.
            blobs = sorted(batch.blobs.items())
            base.executemany("insert or ignore into blobs values (?, ?)", blobs)
            base.executemany("insert into frames values (?, ?, ?, ?, ?, ?)", batch.frames)
            rows = [(batch.world, *row[:3]) for row in batch.snapshots]
            base.executemany("insert into snapshots values (?, ?, ?, ?)", rows)
            for row in batch.snapshots:
                # The worlds measured here open from a snapshot; what is before it only fills disk.
                covered = (batch.world, row.seq)
                base.execute("delete from frames where world = ? and last <= ?", covered)
            last = batch.frames[-1]
            moved = (last.last, last.hash, batch.world)
            base.execute("update worlds set seq = ?, hash = ? where world = ?", moved)
        return self.head(batch.world)

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Own frames behind a sequence; the worlds measured here are opened from a snapshot."""
        most = 2**62 if upto is None else upto
        order = "select * from frames where world = ? and last > ? and seq <= ? order by seq"
        for row in self._base.execute(order, (world, after, most)):
            yield Sealed(*row)

    def head(self, world: str) -> Head:
        """Where the world's journal ends."""
        order = "select seq, hash, epoch from worlds where world = ?"
        return Head(*next(self._base.execute(order, (world,))))

    def blob(self, _world: str, digest: bytes) -> bytes | None:
        """The bytes behind a digest; content is shared by all worlds of the file."""
        found = self._base.execute("select data from blobs where digest = ?", (digest,)).fetchone()
        return None if found is None else found[0]

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """The snapshots of a world, oldest first."""
        order = "select seq, root, document from snapshots where world = ? order by seq"
        return [SnapshotRow(*row) for row in self._base.execute(order, (world,))]

    def acquire(self, world: str, node: str = "") -> Lease:
        """A new epoch; an unknown world begins here."""
        fresh = (world, None, 0, GENESIS, 0)
        self._base.execute("insert or ignore into worlds values (?, ?, ?, ?, ?)", fresh)
        self._base.execute("update worlds set epoch = epoch + 1 where world = ?", (world,))
        return Lease(world, node, self.head(world).epoch)

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child at a head of its parent."""
        row = (child, parent, at.seq, at.hash, 0)
        self._base.execute("insert into worlds values (?, ?, ?, ?, ?)", row)

    def counts(self) -> dict[str, int]:
        """How many blobs and frames there are: what an operation writes is a difference of two."""
        names = ("blobs", "frames")
        return {n: next(self._base.execute(f"select count(*) from {n}"))[0] for n in names}
