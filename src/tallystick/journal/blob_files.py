"""Large blobs as files: `blobs/<world>/<2 hex>/<hash>`, named by what they hold.

A file is there whole or not at all: it is written aside, synced and renamed, and its folder is
synced, before the commit that names it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import apsw

from tallystick.journal.refusals import damaged_blob

_PIECE: Final = 1024 * 1024
NEW: Final = ".new"  # at the end of the name of a file that is being written


class BlobFiles:
    """The files of one data folder."""

    __slots__ = ("folder",)

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "blobs"

    def path(self, world: str, digest: bytes) -> Path:
        """Where a blob's file is."""
        name = digest.hex()
        return self.folder / world / name[:2] / name

    def write(self, world: str, digest: bytes, data: bytes) -> bool:
        """Make a blob durable; False for one that is there already, which is left alone."""
        return write_file(self.path(world, digest), data)

    def read(self, world: str, digest: bytes) -> bytes:
        """The bytes of a blob; refuses what does not match its name."""
        try:
            data = self.path(world, digest).read_bytes()
        except OSError as why:
            raise damaged_blob(digest, why.strerror or str(why)) from why
        if sha256(data).digest() != digest:
            raise damaged_blob(digest, "its bytes do not match its name")
        return data

    def remove(self, world: str, digest: bytes) -> None:
        """Remove a file; one that is gone already is no error."""
        self.path(world, digest).unlink(missing_ok=True)

    def remove_world(self, world: str) -> None:
        """Remove all files of a world; what cannot be removed is nobody's, and does no harm."""
        if (self.folder / world).is_dir():
            shutil.rmtree(self.folder / world, ignore_errors=True)

    def names(self, world: str) -> Iterator[bytes]:
        """The digests of all whole files of a world, in order."""
        for path in sorted((self.folder / world).glob("??/*")):
            if len(path.name) == 64:
                yield bytes.fromhex(path.name)

    def shelves(self, world: str) -> list[Path]:
        """The folders that hold the files of a world, at most 256."""
        return sorted((self.folder / world).glob("??"))

    def tidy(self, shelf: Path, is_named: Callable[[bytes], bool]) -> None:
        """Remove what no row names, and what was never finished; damaged ones stay set aside.

        Nobody may write meanwhile: a file is there before the row that names it.
        """
        for path in list(shelf.iterdir()):
            stray = len(path.name) == 64 and not is_named(bytes.fromhex(path.name))
            if stray or path.suffix == NEW:
                path.unlink(missing_ok=True)

    def set_aside(self, world: str, digest: bytes) -> Path | None:
        """Move a damaged file out of the way, so that a sound one can be put in its place."""
        path = self.path(world, digest)
        if not path.exists():
            return None
        aside = path.with_name(path.name + ".bad")
        path.rename(aside)
        return aside


@contextmanager
def spilled(files: BlobFiles, large: Iterable[tuple[str, bytes, bytes]]) -> Iterator[None]:
    """Files for the large blobs of a commit: world, digest and bytes of each.

    They go again when there is no room for the commit: they would keep the room that there was.
    """
    made: list[tuple[str, bytes]] = []
    try:
        for world, digest, data in large:
            if files.write(world, digest, data):
                made.append((world, digest))
        yield
    except (apsw.FullError, OSError):
        for world, digest in made:
            files.remove(world, digest)
        raise


def write_file(path: Path, data: bytes) -> bool:
    """A file that is there whole or not at all: written aside, synced, renamed, folder synced.

    False when it is there already. One that fails leaves nothing: half a file on a full disk would
    keep the room that there was.
    """
    if path.exists():
        sync_folder(path.parent)  # who wrote it may have been killed before its name was durable
        return False
    with _written(path) as handle:
        _write(handle, data)
    return True


def copy_file(source: Path, path: Path) -> None:
    """A copy of a file of any size, there whole or not at all like what `write_file` writes."""
    with source.open("rb") as file, _written(path) as handle:
        while piece := file.read(_PIECE):
            _write(handle, piece)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


@contextmanager
def _written(path: Path) -> Iterator[int]:
    """A file to write to, that has its name once it is whole and synced."""
    _make_folder(path.parent)
    aside = path.with_name(path.name + NEW)
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            yield handle
            os.fsync(handle)
        finally:
            os.close(handle)
        aside.rename(path)
    except OSError:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents, each synced into the one that names it."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    sync_file(folder)


def sync_file(path: Path) -> None:
    """Make what was written to a file durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
