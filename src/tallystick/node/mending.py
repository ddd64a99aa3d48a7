"""Mending a data folder that no node has: what may be made again is (04 section 13).

It is the owner's word that asks for this, never a start of a node: what is set aside or dropped
here was looked at first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tallystick.errors import NotOwner, TallyError, Unavailable
from tallystick.journal.base import WorldRow
from tallystick.journal.lineage import is_unfinished
from tallystick.journal.mend import mend
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import DATABASE, SqliteReader
from tallystick.node.config import Config
from tallystick.node.doctor import OK, RED, WARN, Check
from tallystick.node.files import Files, Lock

_ID = "mended"


def mend_journal(config: Config, backup: Path | None) -> list[Check]:
    """Repair the journal of a folder, with a backup for blobs that are lost; what was done.

    Refuses a backup that is none before anything is changed.
    """
    files = Files(config.data)
    if not (files.root / DATABASE).exists():
        return []
    source = None if backup is None else _reader_of(backup)
    files.make()  # what was restored or copied has no place for a lock yet
    try:
        lock = Lock(files)
    except NotOwner as why:
        return [Check(_ID, WARN, why.message, "a stopped node", "stop it, then mend again")]
    try:
        journal = SqliteJournal(files.root, spill_bytes=config.journal.spill)
        try:
            rows = [row for row in journal.worlds() if not is_unfinished(row)]
            found = [_mended(journal, row, source) for row in rows]  # parents come first
        finally:
            journal.close()
    finally:
        lock.release()
        if source is not None:
            source.close()
    return _judged(found, named=backup is not None)


def _reader_of(backup: Path) -> SqliteReader:
    if (backup / DATABASE).exists():
        return SqliteReader(backup)
    raise Unavailable(
        f"{backup} holds no {DATABASE}",
        code="backup.none",
        where={"folder": str(backup)},
        hint="name a folder that `tally backup` has made",
    )


def _mended(
    journal: SqliteJournal, row: WorldRow, source: SqliteReader | None
) -> tuple[Sequence[str], bool, bool]:
    """What was said of a world, whether it is sound now, and whether a backup would not help."""
    done = mend(journal, row.world, None if source is None else _copies(source, row.world))
    name = next((a for a, world in journal.aliases().items() if world == row.world), row.world)
    return [f"{name}: {notice}" for notice in done.notices], done.verdict.ok, done.broken


def _copies(source: SqliteReader, world: str) -> Callable[[bytes], bytes | None]:
    """The blobs of a world in a backup; one that is damaged there too is no copy."""

    def copy(name: bytes) -> bytes | None:
        try:
            return source.blob(world, name)
        except TallyError:
            return None

    return copy


def _judged(found: Sequence[tuple[Sequence[str], bool, bool]], *, named: bool) -> list[Check]:
    notices = [notice for told, _, _ in found for notice in told]
    if all(ok for _, ok, _ in found):
        return [Check(_ID, OK, notices or "nothing was damaged", "sound")]
    fix = "tally restore BACKUP --into DIR"
    if not named and not any(broken for _, _, broken in found):
        fix = "tally doctor --fix --from BACKUP"
    return [Check(_ID, RED, notices, "sound", fix)]
