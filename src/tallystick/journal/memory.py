"""The memory journal: the contract without a disk, for tests and for trying things out."""

# tidy: one class keeps the whole contract, each method a few lines.
from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from tallystick.journal.base import (
    Append,
    CheckpointRow,
    Fenced,
    Head,
    Held,
    Lease,
    Outcome,
    SnapshotRow,
    Swept,
    TokenRow,
    WorkRow,
    WorldRow,
)
from tallystick.journal.lineage import owner_at
from tallystick.journal.refusals import no_snapshot, unknown_world, world_exists, world_has_forks
from tallystick.journal.tail import Bell, follow
from tallystick.kernel.index import bare
from tallystick.model.frames import GENESIS, FrameHeader, Sealed


@dataclass(slots=True)
class _Book:
    """What is kept of one world."""

    base: Head
    parent: str | None = None
    epoch: int = 0
    state: str = "open"
    frames: list[Sealed] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    blobs: dict[bytes, bytes] = field(default_factory=dict)
    added: dict[bytes, int] = field(default_factory=dict)
    snapshots: list[SnapshotRow] = field(default_factory=list)
    checkpoints: dict[int, CheckpointRow] = field(default_factory=dict)
    work: dict[bytes, WorkRow] = field(default_factory=dict)

    def head(self) -> Head:
        if not self.frames:
            return self.base._replace(epoch=self.epoch)
        last = self.frames[-1]
        return Head(last.last, last.hash, self.epoch)


class MemoryJournal:
    """Frames, blobs and snapshots of any number of worlds, in this process."""

    def __init__(self) -> None:
        self._books: dict[str, _Book] = {}
        self._aliases: dict[str, str] = {}
        self._tokens: dict[str, TokenRow] = {}
        self._bell = Bell()

    def _book(self, world: str) -> _Book:
        book = self._books.get(world)
        if book is None:
            raise unknown_world(world)
        return book

    # ---- writing ----------------------------------------------------------------------------

    def append(self, *batch: Append) -> list[Outcome]:
        """Write all frames of each world, or none when another writer or head stands there."""
        for each in batch:
            self._book(each.world)
        outcomes = [self._append(each) for each in batch]
        self._bell.ring()
        return outcomes

    def _append(self, batch: Append) -> Outcome:
        book = self._book(batch.world)
        head = book.head()
        if head != batch.expect:
            return Fenced(head)
        for name in batch.blobs:
            book.added.setdefault(name, head.seq)
        book.blobs.update(batch.blobs)
        book.frames.extend(batch.frames)
        book.epochs.extend([head.epoch] * len(batch.frames))
        book.snapshots.extend(batch.snapshots)
        book.checkpoints.update((row.seq, row) for row in batch.checkpoints)
        self.put_work(batch.world, *batch.work)
        return book.head()

    def acquire(self, world: str, node: str = "") -> Lease | Held:
        """A new epoch for a world; an unknown world begins here."""
        book = self._books.setdefault(world, _Book(Head(0, GENESIS, 0)))
        book.epoch += 1
        return Lease(world, node, book.epoch)

    def renew(self, lease: Lease) -> bool:
        """True while no other epoch began."""
        return self._book(lease.world).epoch == lease.epoch

    def release(self, lease: Lease) -> None:
        """Nothing waits here for a lease to end."""

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child; its first frame chains to the parent's at the fork point."""
        owner = owner_at(self.lineage(parent), at.seq)
        if child in self._books:
            raise world_exists(child)
        self._books[child] = _Book(Head(at.seq, at.hash, 0), owner)

    def begin(self, world: str, base: Head) -> None:
        """Register a world whose journal begins behind a floor."""
        if world in self._books:
            raise world_exists(world)
        self._books[world] = _Book(base._replace(epoch=0))

    def set_state(self, world: str, state: str) -> None:
        """Note that a world is `open` or `read_only`."""
        self._book(world).state = state

    def drop_world(self, world: str) -> None:
        """Remove a world and its aliases."""
        self._book(world)
        children = self.forks(world)
        if children:
            raise world_has_forks(world, children)
        del self._books[world]
        self._aliases = {name: id_ for name, id_ in self._aliases.items() if id_ != world}

    def alias(self, name: str, world: str) -> None:
        """Let a name mean a world."""
        self._book(world)
        self._aliases[name] = world

    def move_alias(self, name: str, to: str, batch: Sequence[Append]) -> list[Outcome]:
        """Append, let a name mean a world and fence those that lose it: all of it or none."""
        for world in (to, *(each.world for each in batch)):
            self._book(world)
        if any(self._book(each.world).head() != each.expect for each in batch):
            return [Fenced(self.head(each.world)) for each in batch]
        for each in batch:
            self._append(each)
            self._book(each.world).epoch += each.world != to
        self._aliases[name] = to
        self._bell.ring()
        return [self.head(each.world) for each in batch]

    def unalias(self, name: str) -> None:
        """Forget a name."""
        self._aliases.pop(name, None)

    def put_token(self, row: TokenRow) -> None:
        """Keep a token."""
        self._tokens[row.id] = row

    def revoke_token(self, token: str, at_ns: int) -> bool:
        """Revoke a token by id; False when there is none."""
        row = self._tokens.get(token)
        if row is None:
            return False
        self._tokens[token] = row._replace(revoked_ns=at_ns)
        return True

    def put_work(self, world: str, *rows: WorkRow) -> None:
        """Change work; a settled row goes, unless a later attempt has one."""
        work = self._book(world).work
        for row in rows:
            known = work.get(row.intent, row)
            if row.state != "settled":
                work[row.intent] = row
            elif known.attempt <= row.attempt:
                work.pop(row.intent, None)

    def add_checkpoint(self, world: str, row: CheckpointRow) -> None:
        """Keep a signed statement about a world."""
        self._book(world).checkpoints[row.seq] = row

    def pin(self, world: str, seq: int, pinned: bool = True) -> None:
        """Keep a snapshot for ever, or no longer."""
        rows = self._book(world).snapshots
        found = [at for at, row in enumerate(rows) if row.seq == seq]
        if not found:
            raise no_snapshot(world, seq)
        for at in found:
            rows[at] = rows[at]._replace(pinned=pinned)

    def discard(self, world: str, blobs: Iterable[bytes], before: int | None = None) -> Swept:
        """Remove those of these blobs that were added before a sequence."""
        book = self._book(world)
        gone = {
            digest
            for digest in blobs
            if digest in book.blobs and (before is None or book.added[digest] < before)
        }
        size = sum(len(book.blobs[digest]) for digest in gone)
        for digest in gone:
            del book.blobs[digest]
            del book.added[digest]
        # A snapshot whose document is gone can no longer be opened.
        book.snapshots = [row for row in book.snapshots if row.document not in gone]
        return Swept(len(gone), size)

    def close(self) -> None:
        """Nothing is held."""

    # ---- reading ----------------------------------------------------------------------------

    def reader(self) -> MemoryJournal:
        """The journal itself: there is no connection to share."""
        return self

    def tail(self, world: str, after: int) -> AsyncIterator[Sealed]:
        """Durable frames behind a sequence, then new ones."""
        return follow(self.reader, self._bell, world, after)

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Frames behind a sequence; one that holds `upto` is read whole, as frames are atomic."""
        for frame, _ in self._read(world, after, upto):
            yield frame

    def headers(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[FrameHeader]:
        """What listings show of the same frames; no time is kept here."""
        for frame, epoch in self._read(world, after, upto):
            count = frame.last - frame.seq + 1
            yield FrameHeader(
                frame.world, frame.seq, frame.last, frame.prev, frame.hash, epoch, 0, count
            )

    def _read(self, world: str, after: int, upto: int | None) -> Iterator[tuple[Sealed, int]]:
        book = self._book(world)
        if book.parent is not None and after < book.base.seq:
            stop = book.base.seq if upto is None else min(upto, book.base.seq)
            yield from self._read(book.parent, after, stop)
        start = bisect_right(book.frames, after, key=lambda frame: frame.last)
        for frame, epoch in zip(book.frames[start:], book.epochs[start:], strict=False):
            if upto is not None and frame.seq > upto:
                return
            yield frame, epoch

    def head(self, world: str) -> Head:
        """Where the world's journal ends."""
        return self._book(world).head()

    def blob(self, world: str, name: bytes) -> bytes | None:
        """The bytes behind a name; a fork sees its parent's up to the fork point."""
        owner: str | None = world
        upto: int | None = None
        while owner is not None:
            book = self._book(owner)
            data = book.blobs.get(name)
            if data is not None and (upto is None or book.added.get(name, 0) <= upto):
                return data
            owner = book.parent
            upto = book.base.seq if upto is None else min(upto, book.base.seq)
        return self.blob(world, name[:32]) if name[32:] else None

    def room(self, world: str) -> int:
        """The first place at which no node of the world's own was put."""
        book = self._books.get(world)
        places = () if book is None else (name[32:] for name in book.blobs if name[32:])
        return int.from_bytes(max(places, default=b""), "big") + 1

    def blobs(self, world: str) -> Iterator[tuple[bytes, int]]:
        """Name and size of every blob and node of the world's own."""
        return iter(sorted((name, len(data)) for name, data in self._book(world).blobs.items()))

    def contents(self, world: str) -> Iterator[tuple[bytes, bytes | None]]:
        """The same with their bytes."""
        for name, data in sorted(self._book(world).blobs.items()):
            covered = bare(data) if name[32:] else data
            yield name, data if sha256(covered).digest() == name[:32] else None

    def added(self, world: str, name: bytes) -> int:
        """The sequence behind which a blob or a node was added."""
        return self._book(world).added.get(name, -1)

    def faults(self) -> list[str]:
        """Memory has no pages to check."""
        return []

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """Own snapshots, and those of the parent up to the fork point."""
        book = self._book(world)
        if book.parent is None:
            return list(book.snapshots)
        shared = [s for s in self.snapshots(book.parent) if s.seq <= book.base.seq]
        return shared + list(book.snapshots)

    def checkpoints(self, world: str) -> list[CheckpointRow]:
        """The signed statements about this world, oldest first."""
        return sorted(self._book(world).checkpoints.values())

    def forks(self, world: str) -> list[str]:
        """The children of a world, in the order they were forked."""
        return [name for name, book in self._books.items() if book.parent == world]

    def lineage(self, world: str) -> list[WorldRow]:
        """The world, its parent, and so on."""
        rows = [self._row(world)]
        while (parent := rows[-1].parent) is not None:
            rows.append(self._row(parent))
        return rows

    def worlds(self) -> list[WorldRow]:
        """All worlds, in the order they began."""
        return [self._row(world) for world in self._books]

    def _row(self, world: str) -> WorldRow:
        book = self._book(world)
        forked = None if book.parent is None else book.base.seq
        return WorldRow(world, book.parent, forked, book.base, book.head(), book.state)

    def aliases(self) -> dict[str, str]:
        """World by alias, oldest alias first."""
        return dict(self._aliases)

    def resolve(self, name: str) -> str:
        """The id of a world by alias or id."""
        world = self._aliases.get(name, name)
        self._book(world)
        return world

    def tokens(self) -> list[TokenRow]:
        """All tokens."""
        return list(self._tokens.values())

    def work(self, world: str) -> list[WorkRow]:
        """The intents that wait for workers, oldest first."""
        return sorted(self._book(world).work.values(), key=lambda row: row.opened_seq)
