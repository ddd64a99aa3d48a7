"""Changes of one name take turns: what one of them finds there is not on its way out again.

Workspaces may lie in each other, and a root may be a link: a turn is that of the place on the disk.
"""

from __future__ import annotations

import os
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
        place = os.path.join(os.path.realpath(root), path)  # noqa: PTH118 - as it is opened
        return self._locks[crc32(place.encode("utf-8", "surrogateescape")) % _TURNS]


OURS: Final = Turns()
"""The turns of all executors that settings make in this process; playbooks have their own."""
