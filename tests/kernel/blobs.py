"""A shelf of blobs for tests of the index: it counts what is read and written."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, repeat

from tallystick.kernel.index import PLACE


class Shelf:
    """Bytes by name, in memory; it gives places as a journal does, unless told otherwise."""

    def __init__(self, *, placed: bool = True) -> None:
        self._places = count(1) if placed else repeat(0)
        self.held: dict[bytes, bytes] = {}
        self.reads = 0
        self.written = 0

    def get(self, name: bytes) -> bytes | None:
        self.reads += 1
        return self.held.get(name)

    def put(self, name: bytes, data: bytes) -> None:
        self.written += name not in self.held
        self.held[name] = data

    def place(self) -> bytes:
        return next(self._places).to_bytes(PLACE, "big")

    def add(self, nodes: Mapping[bytes, bytes]) -> None:
        for name, data in nodes.items():
            self.put(name, data)
