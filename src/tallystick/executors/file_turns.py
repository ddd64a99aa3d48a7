"""Changes of one name take turns: what one of them finds there is not on its way out again."""

from __future__ import annotations

from threading import Lock
from typing import Final
from zlib import crc32

_TURNS: Final = 64


class Turns:
    """A lock for every name, of which some names share one."""

    def __init__(self) -> None:
        self._locks = [Lock() for _ in range(_TURNS)]

    def of(self, root: str, path: str) -> Lock:
        """The lock that a change of this path holds."""
        name = f"{root}\0{path}".encode("utf-8", "surrogateescape")
        return self._locks[crc32(name) % _TURNS]
