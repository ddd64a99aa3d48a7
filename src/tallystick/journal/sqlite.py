"""The SQLite journal: one file for all worlds of a node, one commit for many frames (D11).

Theory of operation.
One connection writes; `journal_mode=WAL` and `synchronous=FULL` make a commit durable before it
returns.
Every append moves the world's head by an update that names epoch and hash: a deposed writer's
append touches no row, and nothing of it is written (I11).
A failed sync poisons the journal: the kernel may have dropped the pages, so nothing is ever tried
again or acknowledged after it (D15).
A full disk is no failure: the commit is rolled back, and a later one may find room.
Large blobs go to files of their own, synced and renamed before the commit that names them.
"""

# tidy: one file shows everything that writes to the store.
from __future__ import annotations

import errno
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import apsw

from tallystick.errors import DiskFull, SyncFailed
from tallystick.journal import sqlite_names as names
from tallystick.journal import sqlite_tables as tables
from tallystick.journal.base import (
    Append,
    CheckpointRow,
    Fenced,
    Full,
    Head,
    Held,
    Lease,
    Outcome,
    Swept,
    TokenRow,
    WorkRow,
)
from tallystick.journal.blob_files import spilled, sync_folder
from tallystick.journal.lineage import floor_of, owner_at
from tallystick.journal.refusals import no_snapshot, trimmed, world_exists, world_has_forks
from tallystick.journal.sqlite_log import Cut, Log
from tallystick.journal.sqlite_read import DATABASE, SqliteReader
from tallystick.journal.sqlite_tables import OWNED, connect, first, make_tables, one
from tallystick.journal.tail import Bell, follow
from tallystick.journal.torn import log_of, torn_bytes
from tallystick.model.frames import GENESIS, Sealed

SPILL_BYTES: Final = 1024 * 1024
MADE_BY: Final = "tallystick"
TORN: Final = "torn_bytes"  # of the log, that no commit covers and nobody was told of yet


# A journal is a reader that writes: the same queries over the one connection that may.
class SqliteJournal(SqliteReader):
    """Frames, blobs and rows of any number of worlds, in one folder; one thread owns it."""

    # tidy: opening is one list of steps.
    def __init__(
        self,
        folder: Path,
        *,
        spill_bytes: int = SPILL_BYTES,
        vfs: str | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (folder / DATABASE).exists():
            (folder / DATABASE).touch(mode=0o600)  # its helpers get the same mode
        log = log_of(folder / DATABASE)
        self._begin(folder, connect(folder / DATABASE, vfs=vfs))
        self._vfs = vfs
        self._spill_bytes = spill_bytes
        self._now_ns = now_ns
        self._poison: str | None = None
        self._bell = Bell()
        self._ids: dict[str, int] = {}
        self._home: apsw.Connection | None = None
        self._log = Log(self._path, int(one(self._db, "PRAGMA page_size")[0]))

        def grown(_db: apsw.Connection, _name: str, pages: int) -> int:
            self._log.grown(pages)
            return apsw.SQLITE_OK

        self._db.set_wal_hook(grown)
        with self._writing():
            # SQLite ignores a failed sync of the folder that holds a new log.
            # The log's name is part of every promise that follows, so it is made durable here,
            # before anything is written to it, or nothing is opened.
            first(self._db, "SELECT 1 FROM sqlite_schema LIMIT 1")  # the log is there from now on
            sync_folder(folder)
            torn = 0 if log is None else torn_bytes(log, self._db)
            about = {"node_id": str(uuid4()), "created_ns": now_ns(), "made_by": MADE_BY}
            make_tables(self._db, about)
            self._cut(torn)

    def _cut(self, torn: int) -> None:
        """Remember what SQLite left out, until somebody has told of it, and end the log there."""
        if not torn:
            return
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (TORN, torn))
        with suppress(apsw.BusyError):  # somebody reads: the next opening finds it again
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Let go of the file; a sound journal leaves no WAL behind."""
        if self._poison is not None:
            # Nobody knows what the last pages are: a new start looks at them, not we.
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if self._home is not None:
            self._home.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._home.close()
        self._db.close()

    # ---- failing ----------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A change of the file: a full disk undoes it, anything else ends the journal."""
        if self._poison is not None:
            raise SyncFailed(f"an earlier commit failed ({self._poison}); start the node again")
        try:
            yield
        except apsw.FullError as why:
            self._undo()
            raise DiskFull("the disk is full; nothing of this commit was written") from why
        except apsw.ConstraintError:
            self._undo()
            raise
        except apsw.Error as why:
            # The file may hold anything now: only a new start may look at it again.
            raise self._poisoned(why) from why
        except OSError as why:
            self._undo()
            if why.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull("the disk is full; nothing of this commit was written") from why
            raise self._poisoned(why) from why

    def _poisoned(self, why: Exception) -> SyncFailed:
        self._poison = f"{type(why).__name__}: {why}"
        return SyncFailed(
            f"the commit failed ({self._poison}); the journal takes no more",
            where={"file": str(self._path)},
        )

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        """A change that is made whole or not at all."""
        with self._writing():
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        # Where there is no room SQLite has done it already.
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    # ---- frames -----------------------------------------------------------------------------

    def append(self, *batch: Append) -> list[Outcome]:
        """Write the frames of all worlds in one commit; each world's are written whole or not."""
        for each in batch:
            self._id(each.world)
        try:
            with self._writing(), self._spilled(batch):
                self._db.execute("BEGIN IMMEDIATE")
                outcomes = [self._write(each) for each in batch]
                self._db.execute("COMMIT")
        except DiskFull:
            return [Full(each.expect) for each in batch]
        if self._log.due:
            # The owner of the writer calls this when it suits; a writer without one is bounded too.
            self.wal_checkpoint()
        self._bell.ring()
        return outcomes

    def _id(self, world: str) -> int:
        number = self._ids.get(world)
        if number is None:
            number = self._ids[world] = self._standing(world).id
        return number

    def _spilled(self, batch: Sequence[Append]) -> AbstractContextManager[None]:
        """Large blobs become files, whole and synced, before a commit names them."""
        large = [
            (each.world, name, data)
            for each in batch
            for name, data in each.blobs.items()
            if len(data) > self._spill_bytes and not name[32:]
        ]
        return spilled(self.files, large)

    def _write(self, batch: Append) -> Outcome:
        number = self._id(batch.world)
        seq, digest, epoch = batch.expect
        last = batch.frames[-1] if batch.frames else None
        head = batch.expect if last is None else Head(last.last, last.hash, epoch)
        run = self._db.execute
        run(tables.MOVE, (head.seq, head.hash, number, epoch, seq, digest))
        if self._db.changes() != 1:
            return Fenced(self.head(batch.world))
        many, now = self._db.executemany, self._now_ns()
        many(
            tables.FRAME,
            ((number, f.seq, f.last, epoch, now, f.hash, f.body) for f in batch.frames),
        )
        many(names.PUT_BLOB, names.blob_rows(number, batch.blobs, seq, self._spill_bytes))
        many(names.PUT_NODE, names.node_rows(number, batch.blobs, seq))
        for row in batch.snapshots:
            run(tables.SNAPSHOT, (number, *row[:3], int(row.pinned), row.at_ns))
        for checkpoint in batch.checkpoints:
            run(tables.CHECKPOINT, (number, *checkpoint))
        self._put_work(number, batch.work)
        return head

    def wal_checkpoint(self, *, idle: bool = False) -> int:
        """Bring the WAL home or cut it when that is due; its bytes afterwards."""
        log = self._log
        cut = log.cut(idle=idle)
        if cut is None:
            return log.bytes
        with self._writing():
            try:
                pages, home = self._brought_home(cut)
            except (apsw.BusyError, apsw.LockedError, apsw.FullError):
                log.kept()
                return log.bytes
        log.done(cut, pages, home)
        return log.bytes

    @property
    def wal_waits(self) -> bool:
        """True when the WAL should be copied into the file beside the next commits."""
        return self._log.waits

    @property
    def wal_short(self) -> bool:
        """True when the WAL should be made longer ahead of its commits."""
        return self._log.short and self._vfs is None  # another VFS has files of its own

    def lengthen_wal(self) -> bool:
        """Make the WAL a piece longer, between commits; False when it needs no more."""
        with self._writing():
            return self._log.lengthen()

    def sync_wal(self) -> None:
        """Have what was added to the WAL on the disk, while another thread may write."""
        with self._writing():
            self._log.sync()

    def bring_home(self) -> None:
        """Copy what stands in the WAL into the file, while another thread may write.

        It holds up nobody, and leaves little to copy for the moment when the WAL is cut.
        """
        log = self._log
        with self._writing():
            try:
                if self._home is None:
                    self._home = connect(self._path, vfs=self._vfs)
                log.coming = True
                _, home = self._home.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except (apsw.BusyError, apsw.FullError):
                return  # somebody else does it, or there is no room: a later call tries again
            finally:
                log.coming = False
        log.homed(home)

    def _brought_home(self, cut: Cut) -> tuple[int, int]:
        """Pages in the log, and how many of them are in the file now."""
        self._db.set_busy_timeout(cut.wait_ms)
        try:
            return self._db.wal_checkpoint(mode=cut.mode)
        finally:
            self._db.set_busy_timeout(0)

    # ---- worlds -----------------------------------------------------------------------------

    def acquire(self, world: str, node: str = "") -> Lease | Held:
        """A new epoch for a world; an unknown world begins here.

        Nodes share no SQLite file, so a lease here is its epoch and nothing else.
        """
        with self._atomic():
            self._db.execute(
                "INSERT OR IGNORE INTO world(uuid, base_seq, base_hash, head_seq, head_hash, epoch)"
                " VALUES(?, 0, ?, 0, ?, 0)",
                (world, GENESIS, GENESIS),
            )
            self._db.execute("UPDATE world SET epoch=epoch+1 WHERE uuid=?", (world,))
        return Lease(world, node, self.head(world).epoch)

    def renew(self, lease: Lease) -> bool:
        """True while no other epoch began."""
        return self.head(lease.world).epoch == lease.epoch

    def release(self, lease: Lease) -> None:
        """Nothing waits here for a lease to end."""

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child; its first frame chains to the parent's at the fork point."""
        line = self.lineage(parent)
        if at.seq < (floor := floor_of(line).seq):
            raise trimmed(parent, floor)  # it was chosen before the floor moved
        self._add(child, self._id(owner_at(line, at.seq)), at.seq, at)

    def begin(self, world: str, base: Head) -> None:
        """Register a world whose journal begins behind a floor."""
        self._add(world, None, None, base)

    def _add(self, world: str, parent: int | None, fork_seq: int | None, base: Head) -> None:
        place = (base.seq, base.hash)
        try:
            with self._atomic():
                self._db.execute(
                    "INSERT INTO world(uuid, parent, fork_seq, base_seq, base_hash, head_seq,"
                    " head_hash, epoch) VALUES(?, ?, ?, ?, ?, ?, ?, 0)",
                    (world, parent, fork_seq, *place, *place),
                )
        except apsw.ConstraintError as why:
            raise world_exists(world) from why

    def set_meta(self, **values: Any) -> None:
        """Note something about the file itself."""
        with self._atomic():
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", values.items())

    def set_state(self, world: str, state: str) -> None:
        """Note that a world is `open` or `read_only`."""
        self._change("UPDATE world SET state=? WHERE id=?", (state, self._id(world)))

    def drop_world(self, world: str) -> None:
        """Remove a world and all it owns; refuses one that has forks."""
        children = self.forks(world)
        if children:
            raise world_has_forks(world, children)
        number = self._id(world)
        with self._atomic():
            for table in OWNED:
                self._db.execute(f"DELETE FROM {table} WHERE world=?", (number,))  # noqa: S608
            self._db.execute(names.DROP_NODES, names.nodes_of(number))
            self._db.execute("DELETE FROM world WHERE id=?", (number,))
        self._ids.pop(world, None)
        self._lines.clear()
        self.files.remove_world(world)

    # ---- rows -------------------------------------------------------------------------------

    def _change(self, query: str, values: tuple[Any, ...]) -> int:
        """Run one statement in a commit of its own; how many rows it touched."""
        with self._atomic():
            self._db.execute(query, values)
        return self._db.changes()

    def alias(self, name: str, world: str) -> None:
        """Let a name mean a world."""
        self._change(tables.ALIAS, (name, self._id(world)))

    def move_alias(self, name: str, to: str, batch: Sequence[Append]) -> list[Outcome]:
        """Append, and in the same commit let a name mean a world and fence those that lose it.

        All of it or none: a world that is fenced already undoes the whole.
        """
        meant, _ = self._id(to), [self._id(each.world) for each in batch]
        try:
            with self._writing(), self._spilled(batch):
                self._db.execute("BEGIN IMMEDIATE")
                outcomes = [self._write(each) for each in batch]
                if any(isinstance(outcome, Fenced) for outcome in outcomes):
                    self._db.execute("ROLLBACK")
                    return [Fenced(self.head(each.world)) for each in batch]
                self._db.execute(tables.ALIAS, (name, meant))
                lost = [each.world for each in batch if each.world != to]
                for world in lost:
                    self._db.execute("UPDATE world SET epoch=epoch+1 WHERE uuid=?", (world,))
                self._db.execute("COMMIT")
        except DiskFull:
            return [Full(each.expect) for each in batch]
        self._bell.ring()
        return [self.head(each.world) for each in batch]

    def unalias(self, name: str) -> None:
        """Forget a name."""
        self._change("DELETE FROM alias WHERE name=?", (name,))

    def put_token(self, row: TokenRow) -> None:
        """Keep a token."""
        values = (*row[:3], " ".join(row.scopes), " ".join(row.worlds), *row[5:])
        self._change("INSERT OR REPLACE INTO token VALUES(?, ?, ?, ?, ?, ?, ?)", values)

    def revoke_token(self, token: str, at_ns: int) -> bool:
        """Revoke a token by id; False when there is none."""
        return self._change("UPDATE token SET revoked_ns=? WHERE id=?", (at_ns, token)) == 1

    def put_work(self, world: str, *rows: WorkRow) -> None:
        """Change work without a frame; a settled row goes, unless a later attempt has one."""
        number = self._id(world)
        with self._atomic():
            self._put_work(number, rows)

    def _put_work(self, number: int, rows: Any) -> None:
        for row in rows:
            if row.state == "settled":
                self._db.execute(tables.DONE, (number, row.intent, row.attempt))
            else:
                self._db.execute(tables.WORK, (number, *row))

    def add_checkpoint(self, world: str, row: CheckpointRow) -> None:
        """Keep a signed statement about a world."""
        self._change(tables.CHECKPOINT, (self._id(world), *row))

    def pin(self, world: str, seq: int, pinned: bool = True) -> None:
        """Keep a snapshot for ever, or no longer."""
        query = "UPDATE snapshot SET pinned=? WHERE world=? AND seq=?"
        if self._change(query, (int(pinned), self._id(world), seq)) == 0:
            raise no_snapshot(world, seq)

    def drop_snapshots(self, world: str, *seqs: int) -> None:
        """Forget snapshots; their blobs go with the next sweep."""
        rows = [(self._id(world), seq) for seq in seqs]
        with self._atomic():
            self._db.executemany("DELETE FROM snapshot WHERE world=? AND seq=?", rows)

    def freshen(self, world: str, digest: bytes) -> None:
        """Let the grace of a blob begin anew; see `grace.begun_anew` for worlds with forks."""
        query = "UPDATE blob SET added_seq=? WHERE world=? AND hash=?"
        self._change(query, (self.head(world).seq, self._id(world), digest))

    def mend_blob(self, world: str, name: bytes, data: bytes) -> None:
        """Put sound bytes where damaged or missing ones are; the damaged file is set aside."""
        assert names.is_whole(name, data), "a blob is restored by its hash"
        large = not name[32:] and len(data) > self._spill_bytes
        if not name[32:]:
            self.files.set_aside(world, name)
        with self._writing():
            if large:
                self.files.write(world, name, data)
            self._db.execute(*names.mended(self._id(world), name, data, large=large))

    def trim(self, world: str, base: Head, mark: CheckpointRow) -> None:
        """Move the floor of a world to the end of a frame, with its mark; see `drop_below`."""
        number = self._id(world)
        with self._atomic():
            run = self._db.execute
            run("DELETE FROM snapshot WHERE world=? AND seq<?", (number, base.seq))
            run("UPDATE world SET base_seq=?, base_hash=? WHERE id=?", (*base[:2], number))
            run(tables.CHECKPOINT, (number, *mark))

    def drop_below(self, world: str, most: int) -> int:
        """Remove so many frames, which nobody reads, from below a floor, the oldest first."""
        with self._atomic():
            self._db.execute(tables.BELOW, (self._id(world), most))
            return self._db.changes()

    def discard(self, world: str, blobs: Iterable[bytes], before: int | None = None) -> Swept:
        """Remove those of these blobs that were added before a sequence."""
        number, limit = self._id(world), 2**62 if before is None else before
        gone = [
            (name, size, is_file)
            for name in blobs
            for size, is_file in self._rows(*names.older(number, name, limit))
        ]
        with self._atomic():
            for name, _, _ in gone:
                self._db.execute(*names.at(number, name, "DELETE"))
            self._db.executemany(tables.UNOPENABLE, [(number, name) for name, _, _ in gone])
        for name in [name for name, _, is_file in gone if is_file]:
            self.files.remove(world, name)
        return Swept(len(gone), sum(size for _, size, _ in gone))

    def tidy(self, world: str, shelf: Path) -> None:
        """Remove the files of one folder that no row names, and what was never finished."""
        number = self._id(world)
        self.files.tidy(shelf, lambda name: bool([*self._rows(tables.IS_FILE, (number, name))]))

    # ---- other threads ----------------------------------------------------------------------

    def reader(self) -> SqliteReader:
        """A read-only connection for another thread; whoever asked closes it."""
        return SqliteReader(self.folder, vfs=self._vfs)

    def tail(self, world: str, after: int) -> AsyncIterator[Sealed]:
        """Durable frames behind a sequence, then new ones."""
        return follow(self.reader, self._bell, world, after)
