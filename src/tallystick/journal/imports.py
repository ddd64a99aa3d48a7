"""Imports: taking a world from an export, after it has proven itself.

An export is loaded into a journal of its own first and verified there; only then the world is
copied where it was asked for.
Importing activates nothing: the world is there, read by whoever may.
"""

# tidy: what is taken, how it is written and what is refused are one story.
from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.errors import (
    Conflict,
    DiskFull,
    JournalCorrupt,
    NotOwner,
    Rejected,
    Unavailable,
)
from tallystick.journal import export
from tallystick.journal.base import (
    OPEN,
    UNFINISHED,
    Append,
    CheckpointRow,
    Head,
    Journal,
    Lease,
    SnapshotRow,
)
from tallystick.journal.chain import header_of
from tallystick.journal.refusals import world_exists
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import Verdict, verify
from tallystick.model.frames import Sealed
from tallystick.values import canon
from tallystick.values.names import is_uuid

_PAGE: Final = 1000
_PAGE_BYTES: Final = 8 * 1024 * 1024
_MOST: Final = 2**63 - 1


@contextmanager
def opened(path: Path) -> Iterator[tuple[SqliteJournal, str]]:
    """An export as a journal that nobody else has, and the world in it; not verified yet."""
    with tempfile.TemporaryDirectory(prefix="tally-export-") as folder:
        journal = SqliteJournal(Path(folder))
        try:
            yield journal, load(path, journal)
        finally:
            journal.close()


def verify_export(
    path: Path,
    *,
    checkpoints: Iterable[CheckpointRow] = (),
    keys: Mapping[str, bytes] | None = None,
) -> Verdict:
    """Judge an export alone, offline."""
    with opened(path) as (journal, world):
        return verify(journal, world, checkpoints=checkpoints, keys=keys)


def import_world(path: Path, journal: Journal, name: str | None = None) -> str:
    """Take a world from an export under a name; its id.

    Refuses a damaged export, a world that is here already, and a name that means another one.
    """
    if name in journal.aliases():
        raise _name_taken(name)
    verdict = verify_export(path)
    if verdict.first_bad is not None:
        bad = verdict.first_bad
        raise JournalCorrupt(
            f"the export is damaged at seq {bad.seq}: {bad.what}",
            code="export.damaged",
            where={"file": str(path), **bad._asdict()},
            hint="make the export again from the world it came from",
        )
    return load(path, journal, name)


def load(path: Path, journal: Journal, name: str | None = None) -> str:
    """Copy what an export holds into a journal, unverified; the id of its world.

    It is there whole or not at all: until its end it is marked as unfinished.
    """
    parts = export.items(path)
    target = _Target(path, journal, _header(path, next(parts)[1]))
    try:
        target.begin()
        for kind, content in parts:
            try:
                target.take(kind, content)
            except (TypeError, ValueError) as why:
                raise _malformed(path, f"an item has another form than it must: {why}") from why
        target.flush()
        target.finish(name)
    except Exception:
        target.undo()
        raise
    return target.world


class _Line(NamedTuple):
    """One world of a lineage, and where it begins."""

    world: str
    forked: bool
    base: Head


def _header(path: Path, content: bytes) -> list[_Line]:
    """The lineage of the exported world, the oldest first."""
    raw = export.document(path, content)
    try:
        line = [_line(row) for row in reversed(raw["line"])]
        kind, world = raw["$type"], raw["world"]
    except (KeyError, TypeError, ValueError) as why:
        raise _malformed(path, f"the header of the export is malformed: {why}") from why
    forked = [row.forked for row in line]
    if kind != "export@1" or not line or line[-1].world != world or forked != sorted(forked):
        raise _malformed(path, "the header of the export is malformed")
    if sum(forked) != len(line) - 1:
        raise _malformed(path, "only the oldest world of a lineage is not forked")
    return line


def _line(row: dict[str, Any]) -> _Line:
    seq, digest = row["base"]
    world = row["world"]
    # It names a folder for large blobs, so nothing but an id is a world.
    if type(world) is not str or not is_uuid(world):
        raise ValueError("the id of a world is a uuid")
    base = Head(_whole(seq), _raw(digest, 32), 0)
    return _Line(world, row["fork_seq"] is not None, base)


def _whole(value: Any) -> int:
    """A number that a journal can hold."""
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError("a number is out of its bounds")
    return value


def _raw(value: Any, size: int | None = None) -> bytes:
    """Bytes, of a size where there is one."""
    if type(value) is not bytes or size not in (None, len(value)):
        raise ValueError("bytes are missing, or of another size")
    return value


class _Target:
    """Writes the worlds of one lineage; those that are here already are left alone."""

    def __init__(self, path: Path, journal: Journal, line: list[_Line]) -> None:
        self._path = path
        self._journal = journal
        self._line = line
        self.world = line[-1].world
        self._known = {row.world: row for row in journal.worlds()}
        self._clear()
        if self.world in self._known:
            raise world_exists(self.world)
        self._heads: dict[str, Head] = {}
        self._blobs: dict[bytes, bytes] = {}
        self._frames: list[Sealed] = []
        self._size = 0

    def _clear(self) -> None:
        """Drop what an import that was killed left of these worlds."""
        for world in [row.world for row in reversed(self._line)]:
            if world in self._known and self._known[world].state == UNFINISHED:
                self._journal.drop_world(world)
                del self._known[world]

    def begin(self) -> None:
        """Register the worlds that are not here."""
        line = self._line
        for at, row in enumerate(line):
            if row.world in self._known:
                self._check_fork(line[at + 1].base, row.world)
            else:
                self._heads[row.world] = self._begin(row, line[at - 1].world)

    def finish(self, name: str | None) -> None:
        """All of it is here: a world, and its name; a fork comes after its parent."""
        if name is not None:
            self._journal.alias(name, self.world)
        for world in self._heads:
            self._journal.set_state(world, OPEN)

    def undo(self) -> None:
        """Leave nothing behind; what a broken disk keeps is dropped by the next start."""
        with suppress(Unavailable):
            for world in reversed(list(self._heads)):
                self._journal.drop_world(world)

    def _check_fork(self, base: Head, parent: str) -> None:
        """A parent that is here must be the one that was forked, at the fork point."""
        if self._journal.lineage(parent)[0].base[:2] == base[:2]:
            return  # it was forked where its parent begins
        found = next(iter(self._journal.headers(parent, base.seq - 1, base.seq)), None)
        if found is None or (found.last_seq, found.hash) != base[:2]:
            raise Conflict(
                f"world {parent} is here with another history",
                code="world.other_history",
                where={"world": parent, "seq": base.seq},
                hint="import into a data folder without that world",
            )

    def _begin(self, row: _Line, parent: str) -> Head:
        if row.forked:
            self._journal.fork(parent, row.base, row.world)
        else:
            self._journal.begin(row.world, row.base)
        self._heads[row.world] = row.base
        self._journal.set_state(row.world, UNFINISHED)
        lease = self._journal.acquire(row.world)
        if not isinstance(lease, Lease):
            raise NotOwner(f"node {lease.node} owns world {row.world}", where={"world": row.world})
        return self._journal.head(row.world)

    def take(self, kind: int, content: bytes) -> None:
        """One item behind the header."""
        if kind == export.BLOB:
            self._blobs[canon.digest_of(content)] = content
            self._count(len(content))
        elif kind == export.FRAME:
            self._frame(content)
        elif kind == export.SNAPSHOT:
            self.flush()
            seq, root, name, pinned, at_ns = export.document(self._path, content)
            row = SnapshotRow(_whole(seq), _raw(root), _raw(name), bool(pinned), _whole(at_ns))
            # At a fork point stands the parent's snapshot, at a floor the world's own.
            owners = [each for each in self._line if each.base.seq < seq or not each.forked]
            self._commit(owners[-1].world, rows=[row])
        elif kind == export.CHECKPOINT:
            self.flush()
            owner, *fields = export.document(self._path, content)
            if owner in self._heads:
                self._journal.add_checkpoint(owner, _checkpoint(CheckpointRow(*fields)))

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > _PAGE_BYTES or len(self._frames) >= _PAGE:
            self.flush()

    def _frame(self, body: bytes) -> None:
        says = header_of(body)
        if says is None or says.world not in [row.world for row in self._line]:
            raise _malformed(self._path, "an item is no frame of this world")
        if self._frames and self._frames[-1].world != says.world:
            self.flush()
        last = _whole(says.seq + says.records - 1)
        digest = canon.digest_of(body)
        self._frames.append(Sealed(says.world, says.seq, last, says.prev, digest, body))
        self._count(len(body))

    def flush(self) -> None:
        """Write what is held."""
        if self._blobs:
            # Everybody in a lineage reads the blobs of the oldest.
            self._commit(next(iter(self._heads)), blobs=self._blobs)
        if self._frames:
            self._commit(self._frames[0].world, frames=self._frames)
        self._blobs, self._frames, self._size = {}, [], 0

    def _commit(
        self,
        world: str,
        *,
        frames: Sequence[Sealed] = (),
        blobs: Mapping[bytes, bytes] | None = None,
        rows: Sequence[SnapshotRow] = (),
    ) -> None:
        head = self._heads.get(world)
        if head is None:
            return  # it is here already
        (outcome,) = self._journal.append(Append(world, frames, head, blobs or {}, rows))
        if not isinstance(outcome, Head):
            raise DiskFull(f"world {world} could not be written", where={"world": world})
        self._heads[world] = outcome


def _checkpoint(row: CheckpointRow) -> CheckpointRow:
    """The row, if its fields are of the types that they must be."""
    for number in (row.seq, row.epoch, row.at_ns):
        _whole(number)
    for digest in (row.head, row.root, row.manifest):
        _raw(digest, 32)
    _raw(row.seal)
    return row


def _name_taken(name: str | None) -> Conflict:
    return Conflict(
        f"a world {name} exists already",
        code="world.exists",
        where={"world": name},
        hint="choose another name",
    )


def _malformed(path: Path, message: str) -> Rejected:
    return Rejected(
        message,
        code="export.malformed",
        where={"file": str(path)},
        hint="copy or make the export again",
    )
