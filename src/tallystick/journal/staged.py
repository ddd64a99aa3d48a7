"""Staged blobs: what the kernel has put and no commit has made durable yet.

The world runs ahead of the disk; it must be able to read what it has just written.
"""

from __future__ import annotations

from tallystick.journal.base import History


class StagedBlobs:
    """The blob store of one live world: staged first, then the journal."""

    __slots__ = ("_journal", "_staged", "world")

    def __init__(self, journal: History, world: str) -> None:
        self._journal = journal
        self._staged: dict[bytes, bytes] = {}
        self.world = world

    def get(self, digest: bytes) -> bytes | None:
        """The bytes behind a digest."""
        data = self._staged.get(digest)
        return data if data is not None else self._journal.blob(self.world, digest)

    def put(self, digest: bytes, data: bytes) -> None:
        """Stage bytes for the next commit."""
        self._staged[digest] = data

    def waiting(self) -> int:
        """How many wait for a commit, or for the end of one."""
        return len(self._staged)

    def taken(self) -> dict[bytes, bytes]:
        """What the next commit must hold; it stays readable here until `forget`."""
        return dict(self._staged)

    def forget(self, digests: dict[bytes, bytes]) -> None:
        """These are durable now."""
        for digest in digests:
            self._staged.pop(digest, None)
