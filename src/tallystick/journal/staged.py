"""Staged blobs: what the kernel has put and no commit has made durable yet.

The world runs ahead of the disk; it must be able to read what it has just written.
The nodes of a snapshot to come are put early: nothing names them yet, so they go some with each
commit, and whoever waits for one does not wait for all of them.
They lie side by side in the order in which they were made (ADR 0037).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Final

from tallystick.journal.base import History
from tallystick.kernel.index import PLACE

EARLY: Final = 12  # of those that nothing names, at the least


class StagedBlobs:
    """The blob store of one live world: staged first, then the journal."""

    __slots__ = ("_early", "_journal", "_noting", "_places", "_staged", "along", "world")

    def __init__(self, journal: History, world: str) -> None:
        self._journal = journal
        self._staged: dict[bytes, bytes] = {}
        self._early: dict[bytes, bytes] = {}
        self._noting: list[set[bytes]] = []
        self._places: Iterator[int] | None = None
        self.along = EARLY  # so many early ones go along with a lone frame
        self.world = world

    def get(self, name: bytes) -> bytes | None:
        """The bytes behind a name."""
        data = self._staged.get(name)
        if data is None:
            data = self._early.get(name)
        return data if data is not None else self._journal.blob(self.world, name)

    def put(self, name: bytes, data: bytes) -> None:
        """Stage bytes for the next commit."""
        self._staged[name] = data
        for noted in self._noting:
            noted.add(name)

    def put_early(self, name: bytes, data: bytes) -> None:
        """Stage bytes for some commit before the one that names them."""
        self._early[name] = data
        for noted in self._noting:
            noted.add(name)

    def place(self) -> bytes:
        """Where the next node is to lie: behind all that the world has put so far."""
        if self._places is None:
            self._places = count(self._journal.room(self.world))
        return next(self._places).to_bytes(PLACE, "big")

    def begin_noting(self) -> set[bytes]:
        """A set to which everything is added that is put from now on, for who looks for orphans."""
        noted: set[bytes] = set()
        self._noting.append(noted)
        return noted

    def end_noting(self, noted: set[bytes]) -> None:
        """Let a set of `begin_noting` be as it is."""
        self._noting = [each for each in self._noting if each is not noted]

    def waiting(self) -> int:
        """How many wait for a commit, or for the end of one."""
        return len(self._staged) + len(self._early)

    def taken(self, frames: int, *, whole: bool) -> dict[bytes, bytes]:
        """What a commit of so many frames must hold; it stays readable here until `forget`.

        A few of those that were put early go with it; all go with a snapshot, which names them.
        """
        early = self._early.items()
        some = early if whole else islice(early, max(self.along, frames))
        return {**dict(some), **self._staged}

    def forget(self, names: dict[bytes, bytes]) -> None:
        """These are durable now."""
        staged, early = self._staged, self._early
        for name in names:
            staged.pop(name, None)
            early.pop(name, None)
