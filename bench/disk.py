"""The product's journal for measuring growth: real tables and reads, and commits that do not sync.

No figure taken with it is about commits; what a snapshot covers is deleted, as it only fills disk.
"""

from __future__ import annotations

from pathlib import Path

from tallystick.journal.base import Append, Outcome
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_tables import one


class DiskJournal(SqliteJournal):
    """One world and its forks in a folder, without waiting for the disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._db.pragma("synchronous", "off")

    def append(self, *batch: Append) -> list[Outcome]:
        """Write as the product does; the frames behind a snapshot make room."""
        made = super().append(*batch)
        for each in batch:
            for row in each.snapshots:
                covered = (self._id(each.world), row.seq)
                self._db.execute("DELETE FROM frame WHERE world=? AND last<=?", covered)
        self.wal_checkpoint()
        return made

    def settle(self) -> None:
        """Leave no log behind, as a node at rest does."""
        self.wal_checkpoint(idle=True)

    def counts(self) -> dict[str, int]:
        """How many blobs and frames there are: what an operation writes is a difference of two."""
        names = ("blob", "frame")
        return {f"{n}s": one(self._db, f"SELECT count(*) FROM {n}")[0] for n in names}
