"""The memory journal: the contract without a disk, for tests and for trying things out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from tallystick.errors import Conflict, UnknownName
from tallystick.journal.base import Append, Fenced, Head, SnapshotRow
from tallystick.model.frames import GENESIS, Sealed


@dataclass(slots=True)
class _Book:
    """What is kept of one world."""

    base: Head
    parent: str | None = None
    epoch: int = 0
    frames: list[Sealed] = field(default_factory=list)
    blobs: dict[bytes, bytes] = field(default_factory=dict)
    snapshots: list[SnapshotRow] = field(default_factory=list)

    def head(self) -> Head:
        if not self.frames:
            return self.base._replace(epoch=self.epoch)
        last = self.frames[-1]
        return Head(last.last, last.hash, self.epoch)


class MemoryJournal:
    """Frames, blobs and snapshots of any number of worlds, in this process."""

    def __init__(self) -> None:
        self._books: dict[str, _Book] = {}

    def _book(self, world: str) -> _Book:
        book = self._books.get(world)
        if book is None:
            raise UnknownName(f"no world {world} in this journal", code="world.unknown")
        return book

    def append(self, batch: Append) -> Head | Fenced:
        """Write all frames, or none when another writer or another head stands there."""
        book = self._book(batch.world)
        head = book.head()
        if head != batch.expect:
            return Fenced(head)
        book.blobs.update(batch.blobs)
        book.frames.extend(batch.frames)
        book.snapshots.extend(batch.snapshots)
        return book.head()

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Frames behind a sequence; one that holds `upto` is read whole, as frames are atomic."""
        book = self._book(world)
        if book.parent is not None and after < book.base.seq:
            stop = book.base.seq if upto is None else min(upto, book.base.seq)
            yield from self.read(book.parent, after, stop)
        start = bisect_right(book.frames, after, key=lambda frame: frame.last)
        for frame in book.frames[start:]:
            if upto is not None and frame.seq > upto:
                return
            yield frame

    def head(self, world: str) -> Head:
        """Where the world's journal ends."""
        return self._book(world).head()

    def blob(self, world: str, digest: bytes) -> bytes | None:
        """The bytes behind a digest; a fork sees its parent's."""
        name: str | None = world
        while name is not None:
            book = self._book(name)
            data = book.blobs.get(digest)
            if data is not None:
                return data
            name = book.parent
        return None

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """Own snapshots, and those of the parent up to the fork point."""
        book = self._book(world)
        if book.parent is None:
            return list(book.snapshots)
        shared = [s for s in self.snapshots(book.parent) if s.seq <= book.base.seq]
        return shared + list(book.snapshots)

    def acquire(self, world: str) -> int:
        """A new epoch for a world; an unknown world begins here."""
        book = self._books.setdefault(world, _Book(Head(0, GENESIS, 0)))
        book.epoch += 1
        return book.epoch

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child; its first frame chains to the parent's at the fork point."""
        self._book(parent)
        if child in self._books:
            raise Conflict(
                f"there is a world {child} already",
                code="world.exists",
                where={"world": child},
                hint="fork under a new id",
            )
        self._books[child] = _Book(Head(at.seq, at.hash, 0), parent)

    def forks(self, world: str) -> list[str]:
        """The children of a world, in the order they were forked."""
        return [name for name, book in self._books.items() if book.parent == world]

    def sweep(self, world: str, keep: frozenset[bytes]) -> tuple[int, int]:
        """Remove blobs that are not to be kept: how many went, and how many bytes."""
        book = self._book(world)
        gone = [digest for digest in book.blobs if digest not in keep]
        size = sum(len(book.blobs[digest]) for digest in gone)
        for digest in gone:
            del book.blobs[digest]
        # A snapshot whose document is gone can no longer be opened.
        book.snapshots = [row for row in book.snapshots if row.document in book.blobs]
        return len(gone), size
