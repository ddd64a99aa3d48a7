"""The product's journal for measuring growth: real tables and reads, and commits that do not sync.

No figure taken with it is about commits; what a snapshot covers is deleted, as it only fills disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tallystick.journal.base import Append, Head, Held, Lease, Outcome, SnapshotRow
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_tables import one
from tallystick.model.frames import Sealed


class DiskJournal:
    """One world and its forks in a folder, without waiting for the disk."""

    def __init__(self, folder: Path) -> None:
        self._journal = SqliteJournal(folder)
        self._db = self._journal._db  # noqa: SLF001 - to do what no user should
        self._db.pragma("synchronous", "off")
        self.reads = 0

    def close(self) -> None:
        """Let go of the files."""
        self._journal.close()

    def append(self, *batch: Append) -> list[Outcome]:
        """Write as the product does; the frames behind a snapshot make room."""
        made = self._journal.append(*batch)
        for each in batch:
            for row in each.snapshots:
                covered = "world=(SELECT id FROM world WHERE uuid=?) AND last<=?"
                self._db.execute(f"DELETE FROM frame WHERE {covered}", (each.world, row.seq))
        self._journal.wal_checkpoint()
        return made

    def settle(self) -> None:
        """Leave no log behind, as a node at rest does."""
        self._journal.wal_checkpoint(idle=True)

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Frames behind a sequence; the worlds measured here are opened from a snapshot."""
        return self._journal.read(world, after, upto)

    def head(self, world: str) -> Head:
        """Where the world's journal ends."""
        return self._journal.head(world)

    def blob(self, world: str, name: bytes) -> bytes | None:
        """The bytes behind a digest."""
        self.reads += 1
        return self._journal.blob(world, name)

    def room(self, world: str) -> int:
        """The first free place for a node."""
        return self._journal.room(world)

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """The snapshots of a world."""
        return self._journal.snapshots(world)

    def forks(self, world: str) -> list[str]:
        """The children of a world."""
        return self._journal.forks(world)

    def acquire(self, world: str, node: str = "") -> Lease | Held:
        """A new epoch; an unknown world begins here."""
        return self._journal.acquire(world, node)

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child at a head of its parent."""
        self._journal.fork(parent, at, child)

    def counts(self) -> dict[str, int]:
        """How many blobs and frames there are: what an operation writes is a difference of two."""
        names = ("blob", "node", "frame")
        return {f"{n}s": one(self._db, f"SELECT count(*) FROM {n}")[0] for n in names}
