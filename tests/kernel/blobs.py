"""A shelf of blobs for tests of the index: it counts what is read and written."""

from __future__ import annotations

from collections.abc import Mapping


class Shelf:
    """Bytes by digest, in memory."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}
        self.reads = 0
        self.written = 0

    def get(self, digest: bytes) -> bytes | None:
        self.reads += 1
        return self.held.get(digest)

    def put(self, digest: bytes, data: bytes) -> None:
        self.written += digest not in self.held
        self.held[digest] = data

    def add(self, nodes: Mapping[bytes, bytes]) -> None:
        for digest, data in nodes.items():
            self.put(digest, data)
