"""Reading `tally.db`: one connection for one thread, that can change nothing.

The writer is a reader too, over its own connection.
What a query cannot trust it does not give out: blobs are hashed on every read, and damage of the
file is our own error.
"""

# tidy: all that is read of one file stands together.
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from tallystick.errors import JournalCorrupt
from tallystick.journal import sqlite_names as names
from tallystick.journal.base import (
    CheckpointRow,
    Head,
    SnapshotRow,
    TokenRow,
    WorkRow,
    WorldRow,
)
from tallystick.journal.blob_files import BlobFiles, sync_file
from tallystick.journal.refusals import trimmed, unknown_world
from tallystick.journal.sqlite_tables import connect, first, one, told
from tallystick.model.frames import FrameHeader, Sealed

DATABASE: Final = "tally.db"

_WORLD: Final = (
    "SELECT w.id, w.uuid, p.uuid, w.parent, w.fork_seq, w.base_seq, w.base_hash, w.head_seq,"
    " w.head_hash, w.epoch, w.state FROM world w LEFT JOIN world p ON p.id = w.parent"
)
# The frame that holds `after + 1` is the last one that begins at or before it.
_START: Final = "SELECT max(seq) FROM frame WHERE world=? AND seq<=?"
_FRAMES: Final = (
    "SELECT seq, last, hash, body FROM frame WHERE world=? AND seq>=? AND last>? AND seq<=?"
    " ORDER BY seq LIMIT ?"
)
_HEADERS: Final = _FRAMES.replace("hash, body", "hash, epoch, flushed_ns")
_MOST: Final = 2**62
# Who reads keeps the writer from cutting its log, so a long walk is many short reads.
_STRETCH: Final = 256


class Standing(NamedTuple):
    """What is kept of one world beside its frames."""

    id: int
    world: str
    parent: str | None
    parent_id: int | None
    fork_seq: int | None
    base_seq: int
    base_hash: bytes
    head_seq: int
    head_hash: bytes
    epoch: int
    state: str

    def head(self) -> Head:
        """Where the world's journal ends."""
        return Head(self.head_seq, self.head_hash, self.epoch)

    def row(self) -> WorldRow:
        """The same for those who do not know our numbers."""
        base = Head(self.base_seq, self.base_hash, 0)
        return WorldRow(self.world, self.parent, self.fork_seq, base, self.head(), self.state)


class SqliteReader:
    """Frames, blobs and rows of any number of worlds, from one folder."""

    def __init__(self, folder: Path, *, vfs: str | None = None) -> None:
        self._begin(folder, connect(folder / DATABASE, vfs=vfs, readonly=True))

    def _begin(self, folder: Path, db: apsw.Connection) -> None:
        self.folder = folder
        self.files = BlobFiles(folder)
        self._db = db
        self._path = folder / DATABASE
        # Lineage never changes and ids are never used twice, so both may be remembered.
        self._lines: dict[str, tuple[tuple[int, str, int], ...]] = {}

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def interrupt(self) -> None:
        """Break off what is read now; any thread may say so."""
        self._db.interrupt()

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[Any]:
        with told(self._path):
            yield from self._db.execute(query, values)

    # ---- worlds -----------------------------------------------------------------------------

    def _standing(self, world: str) -> Standing:
        with told(self._path):
            found = first(self._db, f"{_WORLD} WHERE w.uuid=?", (world,))
        if found is None:
            raise unknown_world(world)
        return Standing(*found)

    def lineage(self, world: str) -> list[WorldRow]:
        """The world, its parent, and so on."""
        return [standing.row() for standing in self._ancestors(world)]

    def _ancestors(self, world: str) -> list[Standing]:
        line = [self._standing(world)]
        while (parent := line[-1].parent) is not None:
            line.append(self._standing(parent))
        return line

    def worlds(self) -> list[WorldRow]:
        """All worlds, in the order they began."""
        return [Standing(*found).row() for found in self._rows(f"{_WORLD} ORDER BY w.id")]

    def forks(self, world: str) -> list[str]:
        """The children of a world, in the order they were forked."""
        query = "SELECT uuid FROM world WHERE parent=? ORDER BY id"
        return [str(found[0]) for found in self._rows(query, (self._standing(world).id,))]

    def head(self, world: str) -> Head:
        """Where the world's journal ends."""
        return self._standing(world).head()

    def aliases(self) -> dict[str, str]:
        """World by alias, oldest alias first."""
        query = "SELECT name, uuid FROM alias a JOIN world w ON w.id = a.world ORDER BY a.rowid"
        return dict(self._rows(query))

    def resolve(self, name: str) -> str:
        """The id of a world by alias or id."""
        query = "SELECT uuid FROM alias a JOIN world w ON w.id = a.world WHERE name=?"
        with told(self._path):
            found = first(self._db, query, (name,))
        return str(found[0]) if found is not None else self._standing(name).world

    # ---- frames -----------------------------------------------------------------------------

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Frames behind a sequence; one that holds `upto` is read whole, as frames are atomic."""
        for standing, prev, row in self._frames(_FRAMES, world, after, upto):
            seq, last, digest, body = row
            yield Sealed(standing.world, seq, last, prev, digest, body)

    def headers(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[FrameHeader]:
        """What listings show of the same frames."""
        for standing, prev, row in self._frames(_HEADERS, world, after, upto):
            seq, last, digest, epoch, flushed_ns = row
            count = last - seq + 1
            yield FrameHeader(standing.world, seq, last, prev, digest, epoch, flushed_ns, count)

    def _frames(
        self, query: str, world: str, after: int, upto: int | None
    ) -> Iterator[tuple[Standing, bytes, Any]]:
        lines = self._ancestors(world)
        # Who reads all reads up to where it ends now, however much comes meanwhile.
        most = lines[0].head_seq if upto is None else upto
        for at, standing in reversed(list(enumerate(lines))):
            # A child begins behind its fork point, whatever its parent wrote later.
            stop = min([most, *(child.fork_seq or 0 for child in lines[:at])])
            begin = max(after, standing.fork_seq or 0)
            if begin >= stop:
                continue
            if begin < standing.base_seq:
                raise trimmed(standing.world, standing.base_seq)
            start, prev = self._before(standing, begin)
            for row in self._stretches(query, standing, (start, begin, stop)):
                yield standing, prev, row
                prev = row[2]

    def _stretches(
        self, query: str, standing: Standing, span: tuple[int, int, int]
    ) -> Iterator[Any]:
        """The rows of a world behind `begin` up to `stop`; a trim meanwhile leaves no gap."""
        start, begin, stop = span
        count = _STRETCH
        while count == _STRETCH:
            count = 0
            rows = self._rows(query, (standing.id, start, begin, stop, _STRETCH))
            for count, row in enumerate(rows, 1):
                if count == 1 and row[0] > begin + 1:
                    self._untrimmed(standing, begin)  # sees the file as the rows do
                start, begin = row[1] + 1, row[1]
                yield row
            if count == 0:
                self._untrimmed(standing, begin)

    def _untrimmed(self, standing: Standing, after: int) -> None:
        base = self._standing(standing.world).base_seq
        if after < base:
            raise trimmed(standing.world, base)

    def _before(self, standing: Standing, after: int) -> tuple[int, bytes]:
        """Where the first frame behind a sequence begins, and the hash of the one before it."""
        with told(self._path):
            start = one(self._db, _START, (standing.id, after + 1))[0] or 0
            query = "SELECT hash FROM frame WHERE world=? AND seq<? ORDER BY seq DESC LIMIT 1"
            found = first(self._db, query, (standing.id, start))
        return start, standing.base_hash if found is None else found[0]

    # ---- blobs ------------------------------------------------------------------------------

    def blob(self, world: str, name: bytes) -> bytes | None:
        """The bytes behind a name, along the fork lineage; a damaged blob is never given out."""
        line = self._lines.get(world)
        if line is None:
            line = self._lines[world] = self._line(world)
        for number, owner, upto in line:
            query = names.at(number, name, "SELECT body", " AND added_seq<=?", upto)
            with told(self._path):
                found = self._db.execute(*query).fetchone()
            if found is not None:
                return self._whole(owner, name, found[0])
        # A snapshot that was imported tells places in the journal that it was taken in.
        return self.blob(world, name[:32]) if name[32:] else None

    def _line(self, world: str) -> tuple[tuple[int, str, int], ...]:
        """Where to look for the blobs of a world, and up to which sequence."""
        line: list[tuple[int, str, int]] = []
        upto = _MOST
        for standing in self._ancestors(world):
            line.append((standing.id, standing.world, upto))
            upto = min(upto, standing.fork_seq or 0)
        return tuple(line)

    def _whole(self, world: str, name: bytes, body: bytes | None) -> bytes:
        return self.files.read(world, name) if body is None else names.whole(name, body)

    def room(self, world: str) -> int:
        """The first place at which no node of the world's own was put."""
        with told(self._path):
            found = first(self._db, "SELECT id FROM world WHERE uuid=?", (world,))
            span = (0, 0) if found is None else names.nodes_of(found[0])
            last = one(self._db, names.LAST_NODE, span)[0]
        return 1 if last is None else int.from_bytes(names.place_of(last), "big") + 1

    def blobs(self, world: str) -> Iterator[tuple[bytes, int]]:
        """Name and size of every blob and node of the world's own."""
        query = "SELECT hash, size FROM blob WHERE world=? AND hash>? ORDER BY hash LIMIT ?"
        number, last = self._standing(world).id, b""
        while page := list(self._rows(query, (number, last, _STRETCH))):
            yield from page
            last = page[-1][0]
        yield from self._nodes(number, "length(body)")

    def contents(self, world: str) -> Iterator[tuple[bytes, bytes | None]]:
        """The same with their bytes; None for those that are damaged."""
        query = "SELECT hash, body FROM blob WHERE world=? AND hash>? ORDER BY hash LIMIT ?"
        number, after, last = self._standing(world).id, None, b""
        while after != last:
            after = last
            for digest, body in self._rows(query, (number, after, _STRETCH)):
                last = digest
                try:
                    yield digest, self._whole(world, digest, body)
                except JournalCorrupt:
                    yield digest, None
        for name, body in self._nodes(number, "body"):
            yield name, body if names.is_whole(name, body) else None

    def _nodes(self, world: int, what: str) -> Iterator[tuple[bytes, Any]]:
        """Every node of the world's own by its name, with something of it."""
        query = f"SELECT id, hash, {what} FROM node WHERE id BETWEEN ? AND ? LIMIT ?"  # noqa: S608
        begin, end = names.nodes_of(world)
        while page := list(self._rows(query, (begin, end, _STRETCH))):
            for number, digest, found in page:
                yield digest + names.place_of(number), found
            begin = page[-1][0] + 1

    def large_blobs(self) -> Iterator[tuple[str, bytes]]:
        """World and digest of every blob that is a file."""
        return self._rows(
            "SELECT uuid, hash FROM blob b JOIN world w ON w.id = b.world WHERE body IS NULL"
        )

    def copy_to(self, path: Path) -> None:
        """Write the whole file as it is at this moment to another, compact and synced."""
        path.touch(mode=0o600)
        with told(self._path):
            self._db.execute("VACUUM INTO ?", (str(path),))
        sync_file(path)

    def seq_at(self, world: str, at_ns: int) -> int:
        """The last sequence of the world's own that was flushed before a time; 0 for none."""
        query = "SELECT max(last) FROM frame WHERE world=? AND flushed_ns<?"
        with told(self._path):
            return int(one(self._db, query, (self._standing(world).id, at_ns))[0] or 0)

    def added(self, world: str, name: bytes) -> int:
        """The sequence behind which a blob or a node was added."""
        query = names.at(self._standing(world).id, name, "SELECT added_seq")
        with told(self._path):
            found = first(self._db, *query)
        return -1 if found is None else int(found[0])

    def faults(self) -> list[str]:
        """What SQLite finds wrong with its pages."""
        try:
            found = [str(row[0]) for row in self._rows("PRAGMA quick_check(10)")]
        except JournalCorrupt as why:
            return [why.message]
        return [] if found == ["ok"] else found

    # ---- rows -------------------------------------------------------------------------------

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """Own snapshots, and those of the parent up to the fork point."""
        query = "SELECT seq, root, blob, pinned, at_ns FROM snapshot WHERE world=? ORDER BY seq"
        made: list[SnapshotRow] = []
        for standing in reversed(self._ancestors(world)):
            if standing.fork_seq is not None:
                made = [row for row in made if row.seq <= standing.fork_seq]
            for seq, root, document, pinned, at_ns in self._rows(query, (standing.id,)):
                made.append(SnapshotRow(seq, root, document, bool(pinned), at_ns))
        return made

    def checkpoints(self, world: str) -> list[CheckpointRow]:
        """The signed statements about this world, oldest first."""
        query = (
            "SELECT seq, head, root, manifest, epoch, at_ns, seal FROM checkpoint"
            " WHERE world=? ORDER BY seq"
        )
        return [CheckpointRow(*row) for row in self._rows(query, (self._standing(world).id,))]

    def tokens(self) -> list[TokenRow]:
        """All tokens."""
        query = "SELECT id, hash, principal, scopes, worlds, expires_ns, revoked_ns FROM token"
        made: list[TokenRow] = []
        for id_, digest, principal, scopes, worlds, expires, revoked in self._rows(query):
            lists = tuple(scopes.split()), tuple(worlds.split())
            made.append(TokenRow(id_, digest, principal, *lists, expires, revoked))
        return made

    def work(self, world: str) -> list[WorkRow]:
        """The intents that wait for workers, oldest first."""
        query = (
            "SELECT intent, effect, pool, state, attempt, owner, lease_id, lease_until, opened_seq"
            " FROM work WHERE world=? ORDER BY opened_seq, intent"
        )
        return [WorkRow(*row) for row in self._rows(query, (self._standing(world).id,))]

    def meta(self) -> dict[str, Any]:
        """What the file says of itself: format, node_id, created_ns, made_by."""
        return dict(self._rows("SELECT key, value FROM meta"))
