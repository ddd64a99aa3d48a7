"""The derived index: `index.db`, which answers lists and may be deleted at any time (04 section 3).

It follows the journal by frames and without syncs.
What it knows of a world is tied to one frame by its hash: when that frame is no longer in the
journal, or the file is damaged, it begins again.
Cells and intents stand here as records left them; what a live world holds is asked of the world.
"""

# tidy: what is kept, how it follows and what can be asked stand side by side.
from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from tallystick.errors import DiskFull
from tallystick.journal.base import Reader
from tallystick.journal.index_rows import put_record
from tallystick.journal.lineage import floor_of
from tallystick.journal.sqlite_tables import one
from tallystick.model.frames import open_frame

FILE: Final = "index.db"
VERSION: Final = 2
PAGE_FRAMES: Final = 2000
DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError)  # the file is none, or none any more

_TABLES: Final = """
CREATE TABLE applied(world TEXT PRIMARY KEY, seq INTEGER NOT NULL, hash BLOB NOT NULL,
  at_ns INTEGER) WITHOUT ROWID;
CREATE TABLE record(
  world TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, at_ns INTEGER, workflow TEXT,
  key_hash BLOB, intent BLOB, event BLOB, cause INTEGER, PRIMARY KEY(world, seq)) WITHOUT ROWID;
CREATE INDEX record_kind ON record(world, kind, seq);
CREATE INDEX record_cell ON record(world, workflow, key_hash, seq) WHERE workflow IS NOT NULL;
CREATE INDEX record_intent ON record(world, intent, seq) WHERE intent IS NOT NULL;
CREATE INDEX record_event ON record(world, event, seq) WHERE event IS NOT NULL;
CREATE INDEX record_cause ON record(world, cause, seq) WHERE cause IS NOT NULL;
CREATE TABLE touch(
  world TEXT NOT NULL, workflow TEXT NOT NULL, key_hash BLOB NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY(world, workflow, key_hash, seq)) WITHOUT ROWID;
CREATE TABLE cell(
  world TEXT NOT NULL, workflow TEXT NOT NULL, key_hash BLOB NOT NULL, key BLOB NOT NULL,
  status TEXT NOT NULL, state_hash BLOB, size INTEGER NOT NULL, last_seq INTEGER NOT NULL,
  inflight INTEGER NOT NULL, PRIMARY KEY(world, workflow, key_hash)) WITHOUT ROWID;
CREATE TABLE intent(
  world TEXT NOT NULL, intent BLOB NOT NULL, effect TEXT NOT NULL, workflow TEXT NOT NULL,
  key_hash BLOB NOT NULL, status TEXT NOT NULL, hold TEXT, opened_seq INTEGER NOT NULL,
  settled_seq INTEGER, timeout_at INTEGER, attempts INTEGER NOT NULL,
  PRIMARY KEY(world, intent)) WITHOUT ROWID;
CREATE INDEX intent_order ON intent(world, opened_seq);
CREATE INDEX intent_status ON intent(world, status, opened_seq);
CREATE TABLE ingress_key(
  world TEXT NOT NULL, key BLOB NOT NULL, digest BLOB NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY(world, key)) WITHOUT ROWID;
"""
_BEGINS: Final = (
    (
        "SELECT intent, opened_seq FROM intent"
        " WHERE world=? AND intent BETWEEN ? AND ? ORDER BY intent LIMIT 2"
    ),
    (
        "SELECT event, min(seq) FROM record WHERE world=? AND event BETWEEN ? AND ?"
        " AND event IS NOT NULL GROUP BY event LIMIT 2"
    ),
)
TABLES: Final = ("applied", "record", "touch", "cell", "intent", "ingress_key")


class RecordRow(NamedTuple):
    """Where a record stands and what it is about."""

    seq: int
    kind: str
    at_ns: int | None
    workflow: str | None
    key_hash: bytes | None
    intent: bytes | None
    event: bytes | None
    cause: int | None


class IntentRow(NamedTuple):
    """An intent as its records left it: status `open`, or how it settled."""

    intent: bytes
    effect: str
    workflow: str
    key_hash: bytes
    status: str
    hold: str | None
    opened_seq: int
    settled_seq: int | None
    timeout_at: int | None
    attempts: int


class CellRow(NamedTuple):
    """A cell as its last record left it."""

    workflow: str
    key_hash: bytes
    key: bytes
    status: str
    state_hash: bytes | None
    size: int
    last_seq: int
    inflight: int


class Index:
    """The index of a data folder; one thread writes it, others open it anew to read."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.rebuilt = False
        try:
            self._db = self._open()
        except (*DAMAGED, _OtherVersion):
            self._db = self._anew()

    def _open(self) -> apsw.Connection:
        if not self._path.exists():
            self._path.touch(mode=0o600)
        db = apsw.Connection(str(self._path))
        try:
            db.execute("PRAGMA journal_mode=WAL").fetchall()
            # Everything here can be made again, so nothing here is worth a sync.
            db.execute("PRAGMA synchronous=OFF").fetchall()
            db.set_busy_timeout(1000)
            _make_tables(db)
        except BaseException:
            db.close()
            raise
        return db

    def _anew(self) -> apsw.Connection:
        """Delete the file and begin again."""
        for end in ("", "-wal", "-shm"):
            self._path.with_name(FILE + end).unlink(missing_ok=True)
        self.rebuilt = True
        return self._open()

    def renew(self) -> None:
        """Begin again: what is here cannot be trusted."""
        self._db.close()
        self._db = self._anew()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # ---- following ----------------------------------------------------------------------------

    def applied(self, world: str) -> int:
        """The sequence up to which a world's records are here."""
        found = self._db.execute("SELECT seq FROM applied WHERE world=?", (world,)).fetchone()
        return 0 if found is None else int(found[0])

    def follow(self, reader: Reader, world: str) -> int:
        """Take what the journal holds beyond what is here; the sequence reached.

        A damaged file is deleted and made again.
        """
        try:
            while self._page(reader, world):
                pass
        except DAMAGED:
            self.renew()
            return self.follow(reader, world)
        except apsw.FullError as why:
            raise DiskFull("no room for the index", where={"file": str(self._path)}) from why
        return self.applied(world)

    def _page(self, reader: Reader, world: str) -> bool:
        """Apply the next frames in one transaction; False when there were none."""
        seq, at_ns = self._place(reader, world)
        page = list(islice(reader.read(world, seq), PAGE_FRAMES))
        if not page:
            return False
        with self._atomic() as db:
            for frame in page:
                for at, record in enumerate(open_frame(frame.body)[3], frame.seq):
                    at_ns = put_record(db, (world, at, at_ns), record)
            row = (world, page[-1].last, page[-1].hash, at_ns)
            db.execute("INSERT OR REPLACE INTO applied VALUES(?, ?, ?, ?)", row)
        return len(page) == PAGE_FRAMES

    @contextmanager
    def _atomic(self) -> Iterator[apsw.Connection]:
        """A change that is made whole or not at all."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # without room SQLite has undone it already
                self._db.execute("ROLLBACK")
            raise

    def _place(self, reader: Reader, world: str) -> tuple[int, int | None]:
        """Where to go on; a history that is not the journal's is forgotten."""
        floor = floor_of(reader.lineage(world)).seq
        query = "SELECT seq, hash, at_ns FROM applied WHERE world=?"
        found = self._db.execute(query, (world,)).fetchone()
        if found is None:
            return floor, None
        seq, digest, at_ns = found
        if floor < seq <= reader.head(world).seq:
            there = next(iter(reader.headers(world, seq - 1, seq)), None)
            if there is not None and (there.last_seq, there.hash) == (seq, digest):
                return seq, at_ns
        elif seq == floor:
            return seq, at_ns
        self.forget(world)
        return floor, None

    def forget(self, world: str) -> None:
        """Remove all that is here of a world."""
        with self._atomic() as db:
            for table in TABLES:
                db.execute(f"DELETE FROM {table} WHERE world=?", (world,))  # noqa: S608

    # ---- asking -------------------------------------------------------------------------------

    def records(
        self, world: str, after: int = 0, limit: int = 100, **only: object
    ) -> list[RecordRow]:
        """Records behind a sequence, `only` of a kind, workflow, key_hash, intent or event."""
        rows = self._select("record", RecordRow, world, only, ("seq", after, limit))
        return [RecordRow(*row) for row in rows]

    def intents(
        self, world: str, after: int = 0, limit: int = 100, **only: object
    ) -> list[IntentRow]:
        """Intents opened behind a sequence, `only` of a status, effect, workflow or hold."""
        rows = self._select("intent", IntentRow, world, only, ("opened_seq", after, limit))
        return [IntentRow(*row) for row in rows]

    def cells(
        self, world: str, after: tuple[str, bytes] = ("", b""), limit: int = 100, **only: object
    ) -> list[CellRow]:
        """Cells in the order of workflow and hash of key, `only` of a workflow or status."""
        rows = self._select("cell", CellRow, world, only, ("workflow, key_hash", after, limit))
        return [CellRow(*row) for row in rows]

    def touches(
        self, world: str, cell: tuple[str, bytes], after: int = 0, limit: int = 100
    ) -> list[int]:
        """Where the records stand that are part of a cell's history; named by hash of its key."""
        query = (
            "SELECT seq FROM touch WHERE world=? AND workflow=? AND key_hash=? AND seq>?"
            " ORDER BY seq LIMIT ?"
        )
        return [row[0] for row in self._db.execute(query, (world, *cell, after, limit))]

    def count_touches(self, world: str, cell: tuple[str, bytes], upto: int) -> int:
        """How many records are part of a cell's history."""
        query = "SELECT count(*) FROM touch WHERE world=? AND workflow=? AND key_hash=? AND seq<=?"
        return int(one(self._db, query, (world, *cell, upto))[0])

    def count_kinds(self, world: str, kinds: Iterable[str], upto: int) -> int:
        """How many records are of these kinds."""
        query = "SELECT count(*) FROM record WHERE world=? AND kind=? AND seq<=?"
        return sum(int(one(self._db, query, (world, kind, upto))[0]) for kind in kinds)

    def last_of(self, world: str, cell: tuple[str, bytes], kinds: Iterable[str]) -> list[int]:
        """Where the last record of each of these kinds stands that is about a cell."""
        query = "SELECT max(seq) FROM record WHERE world=? AND workflow=? AND key_hash=? AND kind=?"
        found = (one(self._db, query, (world, *cell, kind))[0] for kind in kinds)
        return [seq for seq in found if seq is not None]

    def time_at(self, world: str, seq: int) -> int | None:
        """The time of the input that a record belongs to."""
        query = "SELECT at_ns FROM record WHERE world=? AND seq=?"
        found = self._db.execute(query, (world, seq)).fetchone()
        return None if found is None else found[0]

    def begins(self, world: str, prefix: str) -> list[tuple[bytes, int]]:
        """At most two intents or events whose hex begins so, each with where it first stands."""
        low, high = (bytes.fromhex(prefix.ljust(64, digit)) for digit in "0f")
        found: dict[bytes, int] = {}
        for query in _BEGINS:
            for digest, seq in self._db.execute(query, (world, low, high)):
                found.setdefault(digest, seq)
        return list(found.items())[:2]

    def ingress(self, world: str, key: bytes) -> tuple[bytes, int] | None:
        """The digest and sequence under which an idempotency key came last."""
        query = "SELECT digest, seq FROM ingress_key WHERE world=? AND key=?"
        found = self._db.execute(query, (world, key)).fetchone()
        return None if found is None else (found[0], found[1])

    def _select(
        self,
        table: str,
        shape: Any,
        world: str,
        only: dict[str, object],
        page: tuple[str, Any, int],
    ) -> list[Any]:
        fields: tuple[str, ...] = shape._fields
        assert set(only) <= set(fields), "only columns can be asked for"
        order, after, limit = page
        begin = after if type(after) is tuple else (after,)
        tests = "".join(f" AND {name}=?" for name in only)
        marks = ", ".join("?" for _ in begin)
        query = (
            f"SELECT {', '.join(fields)} FROM {table}"  # noqa: S608 - names of columns, not values
            f" WHERE world=?{tests} AND ({order}) > ({marks}) ORDER BY {order} LIMIT ?"
        )
        return list(self._db.execute(query, (world, *only.values(), *begin, limit)))

    def dump(self) -> dict[str, list[Any]]:
        """Everything, table by table, in order: two indexes of one history are equal."""
        return {
            table: list(self._db.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3"))  # noqa: S608
            for table in TABLES
        }


def _make_tables(db: apsw.Connection) -> None:
    version = one(db, "PRAGMA user_version")[0]
    if version not in (0, VERSION):
        raise _OtherVersion
    if version == 0:
        with db:
            db.execute(_TABLES)
            db.execute(f"PRAGMA user_version={VERSION}")


class _OtherVersion(Exception):  # noqa: N818 - never leaves this file
    """The file was made by another release."""
