"""The reserve: 16 MiB that pay for the last mark on a full disk (04 section 13).

They pay for a start on a full disk, too: a node that cannot come up could not even be read.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from tallystick.journal.blob_files import sync_folder

RESERVE_BYTES: Final = 16 * 1024 * 1024
START_BYTES: Final = 4 * 1024 * 1024  # a start writes some pages, and its log
ROOM_BYTES: Final = 64 * 1024 * 1024  # a node writes again once so much is free


class Reserve:
    """The file `reserve` of a data folder: there while there is room, freed when there is none."""

    __slots__ = ("_bytes", "_path")

    def __init__(self, folder: Path, size: int = RESERVE_BYTES) -> None:
        self._path = folder / "reserve"
        self._bytes = size

    @property
    def whole(self) -> bool:
        """True while the reserve is there in its full size."""
        return self._path.exists() and self._path.stat().st_size == self._bytes

    def make(self) -> bool:
        """Take the space, really, on the disk; False when there is not enough."""
        if self.whole:
            return True
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(handle, 0, self._bytes)
            os.fsync(handle)
        except OSError as why:
            if why.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.free()
            return False
        finally:
            os.close(handle)
        sync_folder(self._path.parent)
        return True

    def free(self) -> bool:
        """Give the space back; False when there was nothing to give."""
        if not self._path.exists():
            return False
        self._path.unlink()
        return True


def make_way(folder: Path) -> bool:
    """Free the reserve of a folder whose disk has no room for a start; False when it has."""
    return room(folder) < START_BYTES and Reserve(folder).free()


def room(folder: Path) -> int:
    """How many bytes can still be written below a folder."""
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize
