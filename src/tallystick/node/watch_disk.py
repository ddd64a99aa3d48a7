"""A workspace on the disk of this host, as the watcher sees it: read only, links never followed."""

from __future__ import annotations

import errno
import os
import stat
import time
from hashlib import sha256
from typing import Final

from tallystick.reactions.scan import Entry

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK: Final = 1 << 20
_TEXT_MAX: Final = 1 << 20
# What a name may answer that was there a moment ago.
_GONE: Final = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV))


class SystemTime:
    """The two clocks of the watcher."""

    def wall_ns(self) -> int:
        """As files are stamped."""
        return time.time_ns()

    def steady_ns(self) -> int:
        """Never steps back."""
        return time.monotonic_ns()


class Disk:
    """One directory; everything below it by raw bytes."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(root)

    def _at(self, path: bytes) -> bytes:
        return self._root + b"/" + path if path else self._root

    def entries(self, path: bytes) -> list[Entry] | None:
        """What a directory holds; None when there is none, PermissionError when it is closed."""
        flags = _OPEN | os.O_DIRECTORY
        try:
            # The workspace itself may be a link; what stands in it is not followed.
            handle = os.open(self._at(path), flags if path else flags & ~os.O_NOFOLLOW)
        except OSError as why:
            if (closed := _closed(why)) is not None:
                raise closed from why
            return None
        found: list[Entry] = []
        try:
            with os.scandir(handle) as held:
                for each in held:
                    entry = _entry(each)
                    if entry is not None:
                        found.append(entry)
        except OSError as why:
            if (closed := _closed(why)) is not None:
                raise closed from why
            return None
        finally:
            os.close(handle)
        return found

    def content(self, path: bytes, entry: Entry) -> bytes | None:
        """The hash of a plain file, if it stood still from the look at it to the last byte."""
        try:
            handle = os.open(self._at(path), _OPEN)
        except OSError as why:
            if (closed := _closed(why)) is not None:
                raise closed from why
            return None
        try:
            if _signature(os.fstat(handle)) != entry.signature:
                return None
            summed, size = sha256(), 0
            while piece := os.read(handle, min(entry.size + 1, _CHUNK)):
                summed.update(piece)
                size += len(piece)
                if size > entry.size:
                    return None
            if size != entry.size or _signature(os.fstat(handle)) != entry.signature:
                return None
        except OSError as why:
            if (closed := _closed(why)) is not None:
                raise closed from why
            return None
        finally:
            os.close(handle)
        return summed.digest()

    def target(self, path: bytes) -> bytes | None:
        """The hash of the target of a link."""
        try:
            return sha256(os.readlink(self._at(path))).digest()  # noqa: PTH115 - bytes stay bytes
        except OSError:
            return None

    def text(self, path: bytes) -> bytes | None:
        """The bytes of a small plain file; None for anything else."""
        try:
            handle = os.open(self._at(path), _OPEN)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            data = b""
            while len(data) <= _TEXT_MAX and (piece := os.read(handle, _CHUNK)):
                data += piece
        except OSError:
            return None
        finally:
            os.close(handle)
        return data if len(data) <= _TEXT_MAX else None

    def exists(self, path: bytes) -> bool:
        """True when there is anything under the name, a dangling link too."""
        return os.path.lexists(self._at(path))


def _entry(each: os.DirEntry[str]) -> Entry | None:
    try:
        found = each.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return Entry(
        os.fsencode(each.name),
        found.st_mode,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def _signature(found: os.stat_result) -> tuple[int, int, int, int, int]:
    return (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _closed(why: OSError) -> PermissionError | None:
    """None for what is no more; what cannot be read is a closed door, whatever closed it."""
    return None if why.errno in _GONE else PermissionError(why.errno, why.strerror)
