"""The contract of a journal, whatever stores it (04 section 2).

After a crash every flushed frame is there, plus a prefix of the unflushed, none partial.
An append is all or nothing, and it is fenced: it names the head it builds on and the epoch of its
writer, and a deposed writer's append fails at the store (I11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from tallystick.model.frames import Sealed


class Head(NamedTuple):
    """Where a journal ends: last sequence, its frame's hash, and the epoch of its writer."""

    seq: int
    hash: bytes
    epoch: int


class SnapshotRow(NamedTuple):
    """A snapshot that a journal keeps: where it stands, its root and its document."""

    seq: int
    root: bytes
    document: bytes


class Append(NamedTuple):
    """Frames of one world that become durable together with the blobs they name."""

    world: str
    frames: Sequence[Sealed]
    expect: Head
    blobs: Mapping[bytes, bytes]
    snapshots: Sequence[SnapshotRow] = ()


class Fenced(NamedTuple):
    """Another writer was faster; nothing was written."""

    head: Head


class Journal(Protocol):
    """Where frames become durable."""

    def append(self, batch: Append) -> Head | Fenced:
        """Write all frames of a batch in one commit, or none."""
        ...

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Frames behind a sequence, in order; a fork's prefix is its parent's."""
        ...

    def head(self, world: str) -> Head:
        """Where the world's journal ends."""
        ...

    def blob(self, world: str, digest: bytes) -> bytes | None:
        """The bytes behind a digest, along the fork lineage."""
        ...

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """The snapshots that are kept, oldest first."""
        ...

    def acquire(self, world: str) -> int:
        """Become the writer of a world: a new epoch; older writers are fenced from here on."""
        ...

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child that shares the parent's frames up to a head; copies nothing.

        Refuses a child that exists: a history is never replaced.
        """
        ...

    def forks(self, world: str) -> list[str]:
        """The children of a world: they read its blobs, so a collection must ask them too."""
        ...
