"""A file system that remembers every write and sync, and can be told to fail.

Below SQLite everything is real; this only stands between it and the files.
`images` rebuilds what a disk may hold after the power went at any write (F2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apsw

SECTOR = 512
MODES = ("kill", "lose", "subset", "torn")
_NAMES = count()


class Deed(NamedTuple):
    """Something that was asked of a file, or `ack`: something that a caller was told."""

    what: str
    file: str
    offset: int = 0
    data: bytes = b""


class Watched(apsw.VFS):
    """The default file system with a log, and a judge that may refuse a deed."""

    def __init__(self) -> None:
        self.name = f"watched-{next(_NAMES)}"
        self.log: list[Deed] = []
        self.judge: Callable[[Deed], None] = lambda _deed: None
        super().__init__(self.name, base="")

    def note(self, deed: Deed) -> None:
        self.judge(deed)
        self.log.append(deed)

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.note(Deed("delete", Path(filename).name))


class _File(apsw.VFSFile):
    def __init__(self, vfs: Watched, name: Any, flags: list[int]) -> None:
        shown = name if isinstance(name, str) else (name.filename() if name else "")
        self._of = vfs
        self._file = Path(shown).name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._of.note(Deed("write", self._file, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._of.note(Deed("truncate", self._file, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._of.note(Deed("sync", self._file))


@contextmanager
def watched() -> Iterator[Watched]:
    """A file system for one test."""
    vfs = Watched()
    try:
        yield vfs
    finally:
        vfs.unregister()


# ---- what a disk may hold ---------------------------------------------------------------------


class Image:
    """The files after some deeds: what was synced is certain, the rest is as the mode says."""

    def __init__(self) -> None:
        self.sure: dict[str, bytearray] = {}
        self.loose: dict[str, list[Deed]] = {}

    def take(self, deed: Deed) -> None:
        if deed.what == "sync":
            for loose in self.loose.pop(deed.file, []):
                _apply(self.sure, loose)
        elif deed.what == "delete":
            self.sure.pop(deed.file, None)
            self.loose.pop(deed.file, None)
        elif deed.what != "ack":
            self.loose.setdefault(deed.file, []).append(deed)

    def after(self, mode: str, chance: Random) -> dict[str, bytes]:
        """The files as they are found at the next start."""
        files = {name: bytearray(data) for name, data in self.sure.items()}
        for deeds in self.loose.values():
            for deed in deeds:
                kept = _survivor(deed, mode, chance)
                if kept is not None:
                    _apply(files, kept)
        return {name: bytes(data) for name, data in files.items()}


def _survivor(deed: Deed, mode: str, chance: Random) -> Deed | None:
    if mode == "kill":
        return deed  # the process died, the system did not: everything reached the files
    if mode == "lose" or chance.random() < 0.5:
        return None
    if mode == "torn" and deed.what == "write" and len(deed.data) > SECTOR:
        return deed._replace(data=deed.data[: SECTOR * chance.randrange(len(deed.data) // SECTOR)])
    return deed


def _apply(files: dict[str, bytearray], deed: Deed) -> None:
    data = files.setdefault(deed.file, bytearray())
    if deed.what == "truncate":
        del data[deed.offset :]
        return
    end = deed.offset + len(deed.data)
    if len(data) < end:
        data.extend(bytes(end - len(data)))
    data[deed.offset : end] = deed.data


def images(
    log: list[Deed], seed: str, every: int = 1
) -> Iterator[tuple[str, int, dict[str, bytes]]]:
    """The mode, how many acks were given before it, and the files: at each n-th deed, each mode."""
    image, acked, chance = Image(), 0, Random(seed)
    for at, deed in enumerate(log):
        image.take(deed)
        acked += deed.what == "ack"
        if at % every == 0 and deed.what != "ack":
            for mode in MODES:
                yield mode, acked, image.after(mode, chance)
