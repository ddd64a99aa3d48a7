"""The tables of `tally.db`, and how a connection to it is opened (04 section 3).

The file is refused before anything is changed when its format is newer than this release knows, or
when the SQLite library is one that can lose a WAL.
An older file is brought up to this release when it is opened for writing: new tables and the number
of the format in one transaction, so that it is of the old format or of the new one, whatever
happens meanwhile. Frames are never rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw

from tallystick.errors import JournalCorrupt, NotOwner, Rejected, Unavailable
from tallystick.journal.sqlite_names import NODE_TABLE

FORMAT: Final = 2
# What makes a file of one format a file of the next: new tables only, never a change of frames.
UPGRADES: Final[dict[int, str]] = {1: NODE_TABLE}
SQLITE_MIN: Final = (3, 51, 3)  # older ones may lose the WAL when it is reset

TABLES: Final = (
    """
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE world(
  id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL UNIQUE,
  parent INTEGER REFERENCES world(id), fork_seq INTEGER,
  base_seq INTEGER NOT NULL, base_hash BLOB NOT NULL,
  head_seq INTEGER NOT NULL, head_hash BLOB NOT NULL,
  epoch INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'open');
CREATE TABLE alias(name TEXT PRIMARY KEY, world INTEGER NOT NULL);
CREATE TABLE frame(
  id INTEGER PRIMARY KEY, world INTEGER NOT NULL, seq INTEGER NOT NULL, last INTEGER NOT NULL,
  epoch INTEGER NOT NULL, flushed_ns INTEGER NOT NULL, hash BLOB NOT NULL, body BLOB NOT NULL,
  UNIQUE(world, seq));
CREATE TABLE blob(
  world INTEGER NOT NULL, hash BLOB NOT NULL, size INTEGER NOT NULL, body BLOB,
  added_seq INTEGER NOT NULL, PRIMARY KEY(world, hash));
CREATE TABLE snapshot(
  world INTEGER NOT NULL, seq INTEGER NOT NULL, root BLOB NOT NULL, blob BLOB NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0, at_ns INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(world, seq)) WITHOUT ROWID;
CREATE TABLE checkpoint(
  world INTEGER NOT NULL, seq INTEGER NOT NULL, head BLOB NOT NULL, root BLOB NOT NULL,
  manifest BLOB NOT NULL, epoch INTEGER NOT NULL, at_ns INTEGER NOT NULL, seal BLOB NOT NULL,
  PRIMARY KEY(world, seq)) WITHOUT ROWID;
CREATE TABLE work(
  world INTEGER NOT NULL, intent BLOB NOT NULL, effect TEXT NOT NULL, pool TEXT NOT NULL,
  state TEXT NOT NULL, attempt INTEGER NOT NULL, owner TEXT, lease_id TEXT, lease_until INTEGER,
  opened_seq INTEGER NOT NULL, PRIMARY KEY(world, intent)) WITHOUT ROWID;
CREATE TABLE token(
  id TEXT PRIMARY KEY, hash BLOB NOT NULL, principal TEXT NOT NULL, scopes TEXT NOT NULL,
  worlds TEXT NOT NULL, expires_ns INTEGER, revoked_ns INTEGER);
"""
    + NODE_TABLE
)
# What a world owns: all of it goes when the world goes, and its nodes.
OWNED: Final = ("alias", "frame", "blob", "snapshot", "checkpoint", "work")

# What is written to them.
MOVE: Final = (
    "UPDATE world SET head_seq=?, head_hash=? WHERE id=? AND epoch=? AND head_seq=? AND head_hash=?"
)
FRAME: Final = (
    "INSERT INTO frame(world, seq, last, epoch, flushed_ns, hash, body) VALUES(?, ?, ?, ?, ?, ?, ?)"
)
SNAPSHOT: Final = "INSERT OR REPLACE INTO snapshot VALUES(?, ?, ?, ?, ?, ?)"
CHECKPOINT: Final = "INSERT OR REPLACE INTO checkpoint VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
BELOW: Final = (
    "DELETE FROM frame WHERE id IN (SELECT frame.id FROM frame JOIN world ON world.id=frame.world"
    " WHERE frame.world=?1 AND frame.last<=world.base_seq ORDER BY frame.seq LIMIT ?2)"
)
IS_FILE: Final = "SELECT 1 FROM blob WHERE world=? AND hash=? AND body IS NULL"
# A snapshot whose document is gone can no longer be opened. (One that is not here may be with a
# parent: an import has all blobs of a lineage in its oldest world.)
UNOPENABLE: Final = "DELETE FROM snapshot WHERE world=? AND blob=?"
ALIAS: Final = "INSERT INTO alias VALUES(?1, ?2) ON CONFLICT DO UPDATE SET world=?2"
DONE: Final = "DELETE FROM work WHERE world=? AND intent=? AND attempt<=?"
WORK: Final = "INSERT OR REPLACE INTO work VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def connect(path: Path, *, vfs: str | None = None, readonly: bool = False) -> apsw.Connection:
    """A connection to a file of a format that this release knows; a new file is made."""
    check_library()
    flags = apsw.SQLITE_OPEN_READONLY if readonly else _WRITING
    with told(path):
        db = apsw.Connection(str(path), flags=flags, vfs=vfs)
    try:
        with told(path):
            # A file that is refused must not be changed, not even by letting go of it.
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            db.set_busy_timeout(0)
            known = _check_format(db, path, readonly=readonly)
            if not readonly:
                _make_durable(db)
                _upgrade(db, known)
                db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    except BaseException:
        db.close()
        raise
    return db


_WRITING: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


def _make_durable(db: apsw.Connection) -> None:
    pragma(db, "journal_mode=WAL", "wal")
    pragma(db, "synchronous=FULL")
    pragma(db, "mmap_size=0")
    db.wal_autocheckpoint(0)


def _check_format(db: apsw.Connection, path: Path, *, readonly: bool) -> int:
    """The format of the file; refuses one that this release cannot open so."""
    found = first(db, "SELECT count(*) FROM sqlite_master WHERE name='meta'")
    if found is None or not found[0]:
        return FORMAT
    version: int = one(db, "SELECT value FROM meta WHERE key='format'")[0]
    if version == FORMAT:
        return version
    if version not in UPGRADES:
        hint = "open it with the release that wrote it"
    elif readonly:
        hint = "start a node on it once: that brings it up to this release"
    else:
        return version
    raise Rejected(
        f"the journal has format {version}, this release reads {FORMAT}",
        code="journal.format",
        where={"file": str(path), "format": version},
        hint=hint,
    )


def _upgrade(db: apsw.Connection, version: int) -> None:
    """Bring an older file up to this release, whole or not at all."""
    if version == FORMAT:
        return
    with db:
        for number in range(version, FORMAT):
            db.execute(UPGRADES[number])
        db.execute("UPDATE meta SET value=? WHERE key='format'", (FORMAT,))


def make_tables(db: apsw.Connection, meta: dict[str, Any]) -> None:
    """The tables of a new file, in one transaction; an older file is left alone."""
    with db:
        found = first(db, "SELECT count(*) FROM sqlite_master WHERE name='meta'")
        if found is not None and found[0]:
            return
        db.execute(TABLES)
        db.executemany("INSERT INTO meta VALUES(?, ?)", [("format", FORMAT), *meta.items()])


def check_library(version: str | None = None) -> None:
    """Refuses a SQLite that can lose a WAL."""
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")) < SQLITE_MIN:
        raise Rejected(
            f"SQLite {found} is too old",
            code="journal.sqlite_too_old",
            where={"found": found, "want": ".".join(map(str, SQLITE_MIN))},
            hint="install a newer apsw",
        )


def pragma(db: apsw.Connection, text: str, want: str | None = None) -> None:
    """Set something; refuses to go on when it did not take."""
    found = first(db, f"PRAGMA {text}")
    if want is not None and (found is None or found[0] != want):
        raise NotOwner(
            f"PRAGMA {text} gave {found}",
            code="journal.pragma",
            where={"pragma": text},
            hint="stop the other program that has the file open",
        )


def first(db: apsw.Connection, query: str, values: tuple[Any, ...] = ()) -> Any:
    """The first row, or None."""
    return db.execute(query, values).fetchone()


def one(db: apsw.Connection, query: str, values: tuple[Any, ...] = ()) -> Any:
    """A row that must be there."""
    found = first(db, query, values)
    assert found is not None, "the row is there"
    return found


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Says in our own words what reading a file ran into."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as why:
        raise JournalCorrupt(
            f"{path.name} is damaged: {why}", where={"file": str(path), "what": str(why)}
        ) from why
    except (apsw.IOError, apsw.CantOpenError) as why:
        raise Unavailable(
            f"{path.name} cannot be read: {why}",
            code="journal.unreadable",
            where={"file": str(path), "what": str(why)},
            hint="check that the folder is there, its modes and its disk",
        ) from why
