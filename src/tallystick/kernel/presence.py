"""What an index may hold: a filter before looking for what is not there.

Theory of operation.
A new cell is looked for before it is made.
Among a million cells the way to where it is not leads through branches that no cache holds, so
this answers from memory: "surely not", or once in a hundred times "perhaps, look".
It is no part of the state: no root covers it, and forgetting it costs time and nothing else (K-41).

It knows a path by its first and its last two bytes, which is what branches tell of their leaves.
An index that was empty when it began is known whole, since all that is written is added. One that
was opened is learned by whoever looks in vain: the branches that were read then tell of a whole
region, the paths with the same first two bytes, so nobody has to read an index only to know it.
What was deleted stays in it, and is looked for in vain.
Each filter is four times as large as the one before it and is never made anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_REGIONS: Final = 65_536
_BITS_FIRST: Final = 4_096
_GROWTH: Final = 4
_BITS_EACH: Final = 16  # four of them are set: a filter takes one path in four hundred for another
_MIX: Final = 0x5BD1_E995  # odd, and below 2**31: what it gives fits a machine word


class Presence:
    """A filter over the paths of an index, of which it knows the whole or some regions."""

    __slots__ = ("_filters", "_known", "_room")

    def __init__(self, *, whole: bool) -> None:
        self._known = None if whole else bytearray(_REGIONS // 8)  # a bit for each region
        self._filters: list[bytearray] = []
        self._room = 0  # how many entries the newest filter still takes

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        return sum([len(bits) for bits in self._filters])

    def lacks(self, path: bytes) -> bool:
        """True when no entry has this path."""
        if self._known is not None and not self.knows(path):
            return False
        return not self._holds(path[0] << 24 | path[1] << 16 | path[-2] << 8 | path[-1])

    def knows(self, path: bytes) -> bool:
        """True when every entry in the region of a path was added or learned."""
        known = self._known
        return known is None or bool(known[path[0] << 5 | path[1] >> 3] >> (path[1] & 7) & 1)

    def add(self, paths: Iterable[bytes]) -> None:
        """Entries of these paths are about to be in the index, known regions or not."""
        for path in paths:
            self._put(path[0] << 24 | path[1] << 16 | path[-2] << 8 | path[-1])

    def learn(self, path: bytes, tails: list[bytes]) -> None:
        """In the index, the region of a path has the paths that end so."""
        for tail in tails:
            self._put(path[0] << 24 | path[1] << 16 | tail[0] << 8 | tail[1])
        if self._known is not None:
            self._known[path[0] << 5 | path[1] >> 3] |= 1 << (path[1] & 7)

    def _holds(self, number: int) -> bool:
        mixed = number * _MIX
        first, pace = mixed >> 31, mixed & 0x7FFF_FFFF | 1
        for bits in self._filters:
            mask = len(bits) * 8 - 1
            at = first & mask
            if bits[at >> 3] >> (at & 7) & 1 and _all_set(bits, at, pace):
                return True
        return False

    def _put(self, number: int) -> None:
        if self._holds(number):
            return
        if self._room == 0:
            size = len(self._filters[-1]) * 8 * _GROWTH if self._filters else _BITS_FIRST
            self._filters.append(bytearray(size // 8))
            self._room = size // _BITS_EACH
        self._room -= 1
        bits = self._filters[-1]
        mask = len(bits) * 8 - 1
        mixed = number * _MIX
        at, pace = mixed >> 31, mixed & 0x7FFF_FFFF | 1
        for _ in range(4):
            bits[(at & mask) >> 3] |= 1 << (at & 7)
            at += pace


def _all_set(bits: bytearray, at: int, pace: int) -> bool:
    """True when the other three bits of an entry are set, too."""
    mask = len(bits) * 8 - 1
    for _ in range(3):
        at = at + pace & mask
        if not bits[at >> 3] >> (at & 7) & 1:
            return False
    return True
