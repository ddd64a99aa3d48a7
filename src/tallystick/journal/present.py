"""Which blobs a verification has found to be there, in a bounded memory, and how it names them."""

from __future__ import annotations

from typing import Final

from tallystick.journal.base import Reader
from tallystick.kernel.index import PLACE
from tallystick.values import canon

REMEMBERED: Final = 1_000_000  # digests that are kept in memory; the others are looked up


def shown(name: bytes) -> str:
    """The name of a blob or a node as a finding tells it."""
    place = f"@{int.from_bytes(name[32:], 'big')}" if name[32:] else ""
    return canon.text_of(name[:32]) + place


def named(text: str) -> bytes:
    """The name that was shown so."""
    digest, _, place = text.partition("@")
    return canon.raw_of(digest) + (int(place).to_bytes(PLACE, "big") if place else b"")


class Present:
    """The blobs that a world reads.

    Those of its parents are looked up, and so is what came since, and what is beyond memory.
    """

    def __init__(self, reader: Reader, reach: list[tuple[str, int]], most: int) -> None:
        self._seen: dict[bytes, None] = {}
        self._most = most
        self._reader = reader
        self._reach = reach

    def note(self, digest: bytes) -> None:
        """This one is there."""
        if len(self._seen) < self._most:
            self._seen[digest] = None

    def __contains__(self, digest: object) -> bool:
        assert isinstance(digest, bytes), "blobs are named by digests"
        if digest in self._seen:
            return True
        added = self._reader.added
        if any(0 <= added(world, digest) <= upto for world, upto in self._reach):
            self.note(digest)
            return True
        return False
