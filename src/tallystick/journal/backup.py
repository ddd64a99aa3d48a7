"""Backup and restore: a copy at one moment, and a new start from it (04 section 13, I43).

A backup is a folder: `tally.db` as one reader saw it, the blob files that it names, the
checkpoints, and `BACKUP.json` with the hash of each file and the root of each world.
Keys and secrets stay out.
A restore verifies everything first, and is there whole or not at all.
A restored world is marked `restored`: the node that opens it must record that before anything
else, so that what settled after the backup is not run again unasked.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import apsw

from tallystick.errors import Conflict, JournalCorrupt, Rejected
from tallystick.journal.blob_files import copy_file, sync_folder, write_file
from tallystick.journal.checkpoints import FILE as CHECKPOINTS
from tallystick.journal.lineage import is_unfinished
from tallystick.journal.refusals import BLOB_DAMAGED, unwritable
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import DATABASE, SqliteReader
from tallystick.journal.verify import folded, verify
from tallystick.kernel.roots import root
from tallystick.values import canon

FORMAT: Final = 1
LISTING: Final = "BACKUP.json"
RESTORED: Final = "restored"
TRIES: Final = 5


class Kept(NamedTuple):
    """One world in a backup: where it stood."""

    world: str
    name: str | None
    seq: int
    head: str
    root: str
    epoch: int


class Backup(NamedTuple):
    """A backup; its id is the hash of its listing."""

    id: str
    worlds: tuple[Kept, ...]
    files: dict[str, str]


# ---- making one -----------------------------------------------------------------------------


def backup(reader: SqliteReader, into: Path) -> Backup:
    """Copy the journal as this reader sees it; writers go on meanwhile.

    Refuses a folder with anything in it, and one that cannot be written; what fails leaves nothing.
    """
    try:
        _check_empty(into, "backup.not_empty")
        made = not into.exists()
        into.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as why:
        raise unwritable(into, why, "backup.unwritable") from why
    try:
        return _tried(reader, into, TRIES)
    except BaseException as why:
        with suppress(OSError):
            _emptied(into)
            if made:
                into.rmdir()
        if isinstance(why, OSError | apsw.FullError | apsw.CantOpenError):
            raise unwritable(into, why, "backup.unwritable") from why
        raise


def _tried(reader: SqliteReader, into: Path, tries: int) -> Backup:
    """Copy, and begin again when a collection has overtaken the copy."""
    try:
        return _copied(reader, into)
    except JournalCorrupt as why:
        if why.code != BLOB_DAMAGED or tries == 1 or _is_current(reader, into):
            raise
    _emptied(into)
    return _tried(reader, into, tries - 1)


def _is_current(reader: SqliteReader, into: Path) -> bool:
    """True when the journal still has all the files that a copy of it names."""
    copy = SqliteReader(into)
    try:
        return set(copy.large_blobs()) <= set(reader.large_blobs())
    finally:
        copy.close()


def _emptied(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _copied(reader: SqliteReader, into: Path) -> Backup:
    marks = reader.folder / CHECKPOINTS
    # Read first: what is signed meanwhile may be about what the copy does not hold.
    signed = marks.read_bytes() if marks.exists() else None
    reader.copy_to(into / DATABASE)
    copy = SqliteReader(into)
    try:
        _copy_files(reader, copy, into)
        worlds = tuple(_kept(copy))
    finally:
        copy.close()
    if signed is not None:
        write_file(into / CHECKPOINTS, signed)
    files = {name: _sha256(into / name) for name in sorted(_names(into))}
    return _listed(into, worlds, files)


def _copy_files(reader: SqliteReader, copy: SqliteReader, into: Path) -> None:
    for world, digest in copy.large_blobs():
        data = reader.files.read(world, digest)
        write_file(
            into / "blobs" / reader.files.path(world, digest).relative_to(reader.files.folder), data
        )


def _kept(copy: SqliteReader) -> Iterator[Kept]:
    names: dict[str, str] = {}
    for name, world in copy.aliases().items():
        names.setdefault(world, name)
    for row in copy.worlds():
        if is_unfinished(row):
            continue  # it is being made, and nobody was told of it
        stood = root(folded(copy, row.world))
        texts = canon.text_of(row.head.hash), canon.text_of(stood)
        yield Kept(row.world, names.get(row.world), row.head.seq, *texts, row.head.epoch)


def _listed(into: Path, worlds: tuple[Kept, ...], files: dict[str, str]) -> Backup:
    said = {"format": FORMAT, "worlds": [row._asdict() for row in worlds], "files": files}
    data = json.dumps(said, indent=1, sort_keys=True).encode()
    # The listing comes last: a backup without one was cut short.
    sync_folder(into)
    write_file(into / LISTING, data)
    return Backup(canon.hash_of(data), worlds, files)


def _names(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        # A reader leaves the helpers of its connection behind; they hold nothing.
        if path.is_file() and not path.name.endswith(("-wal", "-shm")):
            yield path.relative_to(folder).as_posix()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = sha256()
        while piece := file.read(1 << 20):
            digest.update(piece)
    return canon.text_of(digest.digest())


# ---- starting from one ----------------------------------------------------------------------


def read_backup(folder: Path) -> Backup:
    """The listing of a backup; refuses a folder that is none, or one of another format."""
    try:
        data = (folder / LISTING).read_bytes()
        said: dict[str, Any] = json.loads(data)
        worlds = tuple(Kept(**row) for row in said["worlds"])
        files = dict(said["files"])
    except (OSError, ValueError, KeyError, TypeError) as why:
        raise _no_backup(folder, f"{LISTING} cannot be read: {why}") from why
    if said.get("format") != FORMAT:
        raise _no_backup(folder, f"format {said.get('format')} is not known")
    return Backup(canon.hash_of(data), worlds, files)


def check_backup(folder: Path) -> Backup:
    """A backup whose files are as listed and whose worlds verify in full."""
    listed = read_backup(folder)
    for name, digest in listed.files.items():
        path = folder / name
        if ".." in Path(name).parts or not path.is_file():
            raise _damaged(folder, name, "it is not there")
        if _sha256(path) != digest:
            raise _damaged(folder, name, "its bytes are not those of the backup")
    reader = SqliteReader(folder)
    try:
        for row in listed.worlds:
            verdict = verify(reader, row.world)
            if verdict.first_bad is not None:
                raise _damaged(folder, row.world, verdict.first_bad.what)
            stood = verdict.root is not None and canon.text_of(verdict.root)
            if (canon.text_of(verdict.head), stood) != (row.head, row.root):
                raise _damaged(folder, row.world, "its root is not the one listed")
    finally:
        reader.close()
    return listed


def restore(folder: Path, into: Path) -> Backup:
    """A new data folder from a backup: verified, copied, synced, under new epochs.

    Refuses a target with anything in it; a restore that is cut short leaves no target.
    """
    _check_empty(into, "restore.not_empty")
    listed = check_backup(folder)
    aside = into.with_name(into.name + ".restoring")
    try:
        if aside.exists():
            shutil.rmtree(aside)
        aside.mkdir(parents=True, mode=0o700)
        for name in listed.files:
            copy_file(folder / name, aside / name)
        _begin_anew(aside, listed)
        sync_folder(aside)
        if into.exists():
            into.rmdir()
        aside.rename(into)
        sync_folder(into.parent)
    except BaseException as why:
        shutil.rmtree(aside, ignore_errors=True)
        if isinstance(why, OSError):
            raise unwritable(into, why, "restore.unwritable") from why
        raise
    return listed


def _begin_anew(folder: Path, listed: Backup) -> None:
    journal = SqliteJournal(folder)
    try:
        journal.set_meta(node_id=str(uuid4()), restored_from=listed.id)
        whole = [row.world for row in listed.worlds]
        for row in reversed(journal.worlds()):  # a fork goes before its parent
            if row.world not in whole:
                journal.drop_world(row.world)
        for world in whole:
            journal.acquire(world)
            journal.set_state(world, RESTORED)
            # Whoever held a lease held it of another node.
            free = [
                w._replace(state="ready", owner=None, lease_id=None, lease_until=None)
                for w in journal.work(world)
            ]
            journal.put_work(world, *free)
    finally:
        journal.close()


def _check_empty(folder: Path, code: str) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(
            f"{folder} is not empty",
            code=code,
            where={"folder": str(folder)},
            hint="name a folder that does not exist yet",
        )


def _no_backup(folder: Path, why: str) -> Rejected:
    return Rejected(
        f"{folder} is no whole backup: {why}",
        code="backup.malformed",
        where={"folder": str(folder)},
        hint="name the folder that `tally backup` wrote",
    )


def _damaged(folder: Path, what: str, why: str) -> JournalCorrupt:
    return JournalCorrupt(
        f"{what} in the backup is damaged: {why}",
        code="backup.damaged",
        where={"folder": str(folder), "what": what},
        hint="restore from another backup",
    )
