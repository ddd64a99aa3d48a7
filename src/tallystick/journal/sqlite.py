"""The SQLite journal: one file for all worlds of a node, one commit for many frames (D11).

Theory of operation.
One connection writes; `journal_mode=WAL` and `synchronous=FULL` make a commit durable before it
returns.
Every append moves the world's head by an update that names epoch and hash: a deposed writer's
append touches no row, and nothing of it is written (I11).
A failed sync poisons the journal: the kernel may have dropped the pages, so nothing is ever tried
again or acknowledged after it (D15).
Large blobs go to files of their own, synced and renamed before the commit that names them.
"""

# tidy: one file is one store; its statements are read against its tables.
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from tallystick.errors import (
    Conflict,
    DiskFull,
    JournalCorrupt,
    NotOwner,
    Rejected,
    SyncFailed,
    UnknownName,
)
from tallystick.journal.base import Append, Fenced, Head, SnapshotRow
from tallystick.model.frames import GENESIS, Sealed
from tallystick.values import canon

FORMAT: Final = 1
SQLITE_MIN: Final = (3, 51, 3)  # older ones may lose the WAL when it is reset
SPILL_BYTES: Final = 1024 * 1024
WAL_PASSIVE_BYTES: Final = 16 * 1024 * 1024

_TABLES: Final = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value);
CREATE TABLE world(
  id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, parent INTEGER REFERENCES world(id),
  base_seq INTEGER NOT NULL, base_hash BLOB NOT NULL,
  head_seq INTEGER NOT NULL, head_hash BLOB NOT NULL, epoch INTEGER NOT NULL);
CREATE TABLE frame(
  id INTEGER PRIMARY KEY, world INTEGER NOT NULL, seq INTEGER NOT NULL, last INTEGER NOT NULL,
  epoch INTEGER NOT NULL, hash BLOB NOT NULL, body BLOB NOT NULL, UNIQUE(world, seq));
CREATE TABLE blob(
  world INTEGER NOT NULL, hash BLOB NOT NULL, size INTEGER NOT NULL, body BLOB,
  PRIMARY KEY(world, hash)) WITHOUT ROWID;
CREATE TABLE snapshot(
  world INTEGER NOT NULL, seq INTEGER NOT NULL, root BLOB NOT NULL, document BLOB NOT NULL,
  PRIMARY KEY(world, seq)) WITHOUT ROWID;
"""


class _Row(NamedTuple):
    """What is kept of one world beside its frames."""

    id: int
    parent: int | None
    base_seq: int
    base_hash: bytes
    head_seq: int
    head_hash: bytes
    epoch: int

    def head(self) -> Head:
        return Head(self.head_seq, self.head_hash, self.epoch)


class SqliteJournal:
    """Frames, blobs and snapshots of any number of worlds, in one folder."""

    def __init__(
        self, folder: Path, *, spill_bytes: int = SPILL_BYTES, vfs: str | None = None
    ) -> None:
        self._folder = folder
        self._spill_bytes = spill_bytes
        self._poison: str | None = None
        _check_library()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._db = apsw.Connection(str(folder / "tally.db"), vfs=vfs)
        self._wal_bytes = 0
        self._open()

    def _open(self) -> None:
        db = self._db
        db.set_busy_timeout(0)
        _pragma(db, "journal_mode=WAL", "wal")
        _pragma(db, "synchronous=FULL")
        _pragma(db, "mmap_size=0")
        db.wal_autocheckpoint(0)
        page = int(_one(db, "PRAGMA page_size")[0])

        def grown(_db: apsw.Connection, _name: str, pages: int) -> int:
            self._wal_bytes = pages * page
            return apsw.SQLITE_OK

        db.set_wal_hook(grown)
        self._check_format()

    def _check_format(self) -> None:
        """Make the tables of a new file; refuse a newer format untouched."""
        found = _one(self._db, "SELECT count(*) FROM sqlite_master WHERE name='meta'")[0]
        if not found:
            with self._db:
                self._db.execute(_TABLES)
                self._db.execute("INSERT INTO meta VALUES('format', ?)", (FORMAT,))
            return
        version = _one(self._db, "SELECT value FROM meta WHERE key='format'")[0]
        if version != FORMAT:
            raise Rejected(
                f"the journal has format {version}, this release reads {FORMAT}",
                code="journal.format",
                where={"file": str(self._folder / "tally.db"), "format": version},
                hint="open it with the release that wrote it",
            )

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # ---- writing ----------------------------------------------------------------------------

    def append(self, batch: Append) -> Head | Fenced:
        """Write all frames of a batch in one commit, or none."""
        self._check_sound()
        row = self._row(batch.world)
        self._spill(row.id, batch.blobs)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            outcome = self._write(row, batch)
            self._db.execute("COMMIT" if isinstance(outcome, Head) else "ROLLBACK")
        except apsw.FullError as why:
            self._undo()
            raise DiskFull("the disk is full; nothing of this commit was written") from why
        except apsw.Error as why:
            # The file may hold anything now: only a new start may look at it again.
            self._poison = f"{type(why).__name__}: {why}"
            raise SyncFailed(
                f"the commit failed ({self._poison}); the journal takes no more",
                where={"file": str(self._folder / "tally.db")},
            ) from why
        if self._wal_bytes > WAL_PASSIVE_BYTES:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        return outcome

    def _write(self, row: _Row, batch: Append) -> Head | Fenced:
        last = batch.frames[-1] if batch.frames else None
        head = batch.expect if last is None else Head(last.last, last.hash, batch.expect.epoch)
        self._db.execute(
            "UPDATE world SET head_seq=?, head_hash=? WHERE id=? AND epoch=? AND head_seq=?"
            " AND head_hash=?",
            (head.seq, head.hash, row.id, batch.expect.epoch, batch.expect.seq, batch.expect.hash),
        )
        if self._db.changes() != 1:
            return Fenced(self._row(batch.world).head())
        self._db.executemany(
            "INSERT INTO frame(world, seq, last, epoch, hash, body) VALUES(?, ?, ?, ?, ?, ?)",
            ((row.id, f.seq, f.last, head.epoch, f.hash, f.body) for f in batch.frames),
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO blob VALUES(?, ?, ?, ?)",
            (
                (row.id, digest, len(data), None if self._is_large(data) else data)
                for digest, data in batch.blobs.items()
            ),
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO snapshot VALUES(?, ?, ?, ?)",
            ((row.id, s.seq, s.root, s.document) for s in batch.snapshots),
        )
        return head

    def _undo(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _check_sound(self) -> None:
        if self._poison is not None:
            raise SyncFailed(f"an earlier commit failed ({self._poison}); start the node again")

    def acquire(self, world: str) -> int:
        """A new epoch for a world; an unknown world begins here."""
        self._check_sound()
        with self._db:
            self._db.execute(
                "INSERT OR IGNORE INTO world(uuid, base_seq, base_hash, head_seq, head_hash, epoch)"
                " VALUES(?, 0, ?, 0, ?, 0)",
                (world, GENESIS, GENESIS),
            )
            self._db.execute("UPDATE world SET epoch=epoch+1 WHERE uuid=?", (world,))
        return self._row(world).epoch

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child; its first frame chains to the parent's at the fork point."""
        self._check_sound()
        row = self._row(parent)
        try:
            with self._db:
                self._db.execute(
                    "INSERT INTO world(uuid, parent, base_seq, base_hash, head_seq, head_hash,"
                    " epoch) VALUES(?, ?, ?, ?, ?, ?, 0)",
                    (child, row.id, at.seq, at.hash, at.seq, at.hash),
                )
        except apsw.ConstraintError as why:
            raise Conflict(
                f"a world {child} exists already", code="world.exists", where={"world": child}
            ) from why

    # ---- reading ----------------------------------------------------------------------------

    def _row(self, world: str) -> _Row:
        found = _first(self._db, f"{_WORLD} WHERE uuid=?", (world,))
        if found is None:
            raise UnknownName(
                f"no world {world} in this journal", code="world.unknown", where={"world": world}
            )
        return _Row(*found)

    def _parent(self, row: _Row) -> _Row | None:
        if row.parent is None:
            return None
        found = _first(self._db, f"{_WORLD} WHERE id=?", (row.parent,))
        assert found is not None, "a parent outlives its forks"
        return _Row(*found)

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Frames behind a sequence; one that holds `upto` is read whole, as frames are atomic."""
        row = self._row(world)
        yield from self._read(row, after, upto)

    def _read(self, row: _Row, after: int, upto: int | None) -> Iterator[Sealed]:
        parent = self._parent(row)
        if parent is not None and after < row.base_seq:
            stop = row.base_seq if upto is None else min(upto, row.base_seq)
            yield from self._read(parent, after, stop)
        name = str(_one(self._db, "SELECT uuid FROM world WHERE id=?", (row.id,))[0])
        prev = self._before(row, after)
        query = "SELECT seq, last, hash, body FROM frame WHERE world=? AND last>? ORDER BY seq"
        for seq, last, digest, body in self._db.execute(query, (row.id, after)):
            if upto is not None and seq > upto:
                return
            yield Sealed(name, seq, last, prev, digest, body)
            prev = digest

    def _before(self, row: _Row, after: int) -> bytes:
        """The hash of the frame before the first one that is read."""
        query = "SELECT hash FROM frame WHERE world=? AND last<=? ORDER BY seq DESC LIMIT 1"
        found = _first(self._db, query, (row.id, after))
        return row.base_hash if found is None else bytes(found[0])

    def head(self, world: str) -> Head:
        """Where the world's journal ends."""
        return self._row(world).head()

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """Own snapshots, and those of the parent up to the fork point."""
        return self._snapshots(self._row(world))

    def _snapshots(self, row: _Row) -> list[SnapshotRow]:
        parent = self._parent(row)
        shared = [] if parent is None else self._snapshots(parent)
        query = "SELECT seq, root, document FROM snapshot WHERE world=? ORDER BY seq"
        own = [SnapshotRow(*found) for found in self._db.execute(query, (row.id,))]
        return [s for s in shared if s.seq <= row.base_seq] + own

    def forks(self, world: str) -> list[str]:
        """The children of a world, in the order they were forked."""
        query = "SELECT uuid FROM world WHERE parent=? ORDER BY id"
        return [str(found[0]) for found in self._db.execute(query, (self._row(world).id,))]

    # ---- blobs ------------------------------------------------------------------------------

    def blob(self, world: str, digest: bytes) -> bytes | None:
        """The bytes behind a digest, along the fork lineage; a damaged blob is never given out."""
        row: _Row | None = self._row(world)
        while row is not None:
            query = "SELECT body FROM blob WHERE world=? AND hash=?"
            found = _first(self._db, query, (row.id, digest))
            if found is not None:
                return self._whole(row.id, digest, found[0])
            row = self._parent(row)
        return None

    def _whole(self, world: int, digest: bytes, body: bytes | None) -> bytes:
        try:
            data = self._path(world, digest).read_bytes() if body is None else body
        except OSError as why:
            raise _damaged(digest, str(why)) from why
        if sha256(data).digest() != digest:
            raise _damaged(digest, "its bytes do not match its name")
        return data

    def _is_large(self, data: bytes) -> bool:
        return len(data) > self._spill_bytes

    def _path(self, world: int, digest: bytes) -> Path:
        name = digest.hex()
        return self._folder / "blobs" / str(world) / name[:2] / name

    def _spill(self, world: int, blobs: Mapping[bytes, bytes]) -> None:
        """Large blobs become files, whole and synced, before a commit names them."""
        for digest, data in blobs.items():
            if self._is_large(data):
                _write_file(self._path(world, digest), data)

    def sweep(self, world: str, keep: frozenset[bytes]) -> tuple[int, int]:
        """Remove blobs that are not to be kept: how many went, and how many bytes."""
        self._check_sound()
        row = self._row(world)
        query = "SELECT hash, size, body IS NULL FROM blob WHERE world=?"
        gone = [f for f in self._db.execute(query, (row.id,)) if bytes(f[0]) not in keep]
        with self._db:
            self._db.executemany(
                "DELETE FROM blob WHERE world=? AND hash=?", ((row.id, f[0]) for f in gone)
            )
            self._db.execute(
                "DELETE FROM snapshot WHERE world=?1 AND document NOT IN"
                " (SELECT hash FROM blob WHERE world=?1)",
                (row.id,),
            )
        for digest, _, is_file in gone:
            if is_file:
                self._path(row.id, digest).unlink(missing_ok=True)
        return len(gone), sum(int(f[1]) for f in gone)


_WORLD: Final = "SELECT id, parent, base_seq, base_hash, head_seq, head_hash, epoch FROM world"


def _check_library() -> None:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SQLITE_MIN:
        raise Rejected(
            f"SQLite {apsw.sqlite_lib_version()} is too old",
            code="journal.sqlite_too_old",
            where={"found": apsw.sqlite_lib_version(), "want": "3.51.3"},
            hint="install a newer apsw",
        )


def _pragma(db: apsw.Connection, text: str, want: str | None = None) -> None:
    found = _first(db, f"PRAGMA {text}")
    if want is not None and (found is None or found[0] != want):
        raise NotOwner(f"PRAGMA {text} gave {found}", code="journal.pragma")


def _first(db: apsw.Connection, query: str, values: tuple[Any, ...] = ()) -> Any:
    return next(iter(db.execute(query, values)), None)


def _one(db: apsw.Connection, query: str, values: tuple[Any, ...] = ()) -> Any:
    found = _first(db, query, values)
    assert found is not None, "the row is there"
    return found


def _damaged(digest: bytes, why: str) -> JournalCorrupt:
    return JournalCorrupt(
        f"blob {digest.hex()} is damaged: {why}", where={"blob": canon.text_of(digest)}
    )


def _write_file(path: Path, data: bytes) -> None:
    """A file that is there whole or not at all: written aside, synced, renamed, folder synced."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = path.with_suffix(".new")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    aside.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
