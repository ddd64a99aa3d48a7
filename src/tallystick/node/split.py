"""The journal as the kernel's thread uses it: reads by its own connection, writes by the writer's.

A read on the connection that is syncing would wait for the disk, and then nothing could be
computed while a commit syncs.
What is committed is seen at once; what is not yet committed the world keeps itself (`staged`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tallystick.journal.base import (
    Append,
    Appender,
    Head,
    Held,
    Lease,
    Outcome,
    Reader,
    SnapshotRow,
)
from tallystick.model.frames import Sealed
from tallystick.node.writer import Writer


class SplitJournal:
    """Reads here, writes there; rare writes (a new world, a fork) wait for the commit in flight."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def append(self, *batch: Append) -> list[Outcome]:
        """Write all batches in one commit, on the calling thread."""
        return self._writer.commit(batch)

    def acquire(self, world: str, node: str = "") -> Lease | Held:
        """A new epoch for a world."""
        return self._writer.alone(lambda journal: journal.acquire(world, node))

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child."""
        self._writer.alone(lambda journal: journal.fork(parent, at, child))

    def alias(self, name: str, world: str) -> None:
        """Let a name mean a world."""
        self._writer.alone(lambda journal: journal.alias(name, world))

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Frames behind a sequence."""
        return self._reader.read(world, after, upto)

    def head(self, world: str) -> Head:
        """Where the world's journal ends."""
        return self._reader.head(world)

    def blob(self, world: str, name: bytes) -> bytes | None:
        """The bytes behind a digest."""
        return self._reader.blob(world, name)

    def room(self, world: str) -> int:
        """The first free place for a node."""
        return self._reader.room(world)

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """The snapshots that are kept."""
        return self._reader.snapshots(world)

    def forks(self, world: str) -> list[str]:
        """The children of a world."""
        return self._reader.forks(world)


def _drives(split: SplitJournal) -> Appender:
    return split
