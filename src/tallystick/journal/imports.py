"""Imports: taking a world from an export, after it has proven itself.

An export is loaded into a journal of its own first and verified there; only then the world is
copied where it was asked for.
Importing activates nothing: the world is there, read by whoever may.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.errors import Conflict, DiskFull, JournalCorrupt, NotOwner, Rejected
from tallystick.journal import export
from tallystick.journal.base import Append, CheckpointRow, Head, Journal, Lease, SnapshotRow
from tallystick.journal.chain import header_of
from tallystick.journal.refusals import world_exists
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import Verdict, verify
from tallystick.model.frames import Sealed
from tallystick.values import canon

_PAGE: Final = 1000
_PAGE_BYTES: Final = 8 * 1024 * 1024


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

    Refuses a damaged export, and a world that is here already.
    """
    verdict = verify_export(path)
    if verdict.first_bad is not None:
        bad = verdict.first_bad
        raise JournalCorrupt(
            f"the export is damaged at seq {bad.seq}: {bad.what}",
            code="export.damaged",
            where={"file": str(path), **bad._asdict()},
            hint="make the export again from the world it came from",
        )
    world = load(path, journal)
    if name is not None:
        journal.alias(name, world)
    return world


def load(path: Path, journal: Journal) -> str:
    """Copy what an export holds into a journal, unverified; the id of its world."""
    parts = export.items(path)
    target = _Target(path, journal, _header(path, next(parts)[1]))
    for kind, content in parts:
        try:
            target.take(kind, content)
        except (TypeError, ValueError) as why:
            raise _malformed(path, f"an item has another form than it must: {why}") from why
    target.flush()
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
    if type(row["world"]) is not str or type(seq) is not int or len(digest) != 32:
        raise ValueError("a field has the wrong type")
    return _Line(row["world"], row["fork_seq"] is not None, Head(seq, bytes(digest), 0))


class _Target:
    """Writes the worlds of one lineage; those that are here already are left alone."""

    def __init__(self, path: Path, journal: Journal, line: list[_Line]) -> None:
        self._path = path
        self._journal = journal
        self._line = line
        self.world = line[-1].world
        known = {row.world for row in journal.worlds()}
        if self.world in known:
            raise world_exists(self.world)
        self._heads: dict[str, Head] = {}
        for at, row in enumerate(line):
            if row.world in known:
                self._check_fork(line[at + 1].base, row.world)
            else:
                self._heads[row.world] = self._begin(row, line[at - 1].world)
        # Everybody in a lineage reads the blobs of the oldest.
        self._oldest = next(iter(self._heads))
        self._blobs: dict[bytes, bytes] = {}
        self._frames: list[Sealed] = []
        self._size = 0

    def _check_fork(self, base: Head, parent: str) -> None:
        """A parent that is here must be the one that was forked, at the fork point."""
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
            row = SnapshotRow(seq, root, name, bool(pinned), at_ns)
            # At a fork point stands the parent's snapshot, at a floor the world's own.
            owners = [each for each in self._line if each.base.seq < seq or not each.forked]
            self._commit(owners[-1].world, rows=[row])
        elif kind == export.CHECKPOINT:
            self.flush()
            owner, *fields = export.document(self._path, content)
            if owner in self._heads:
                self._journal.add_checkpoint(owner, CheckpointRow(*fields))

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
        last = says.seq + says.records - 1
        digest = canon.digest_of(body)
        self._frames.append(Sealed(says.world, says.seq, last, says.prev, digest, body))
        self._count(len(body))

    def flush(self) -> None:
        """Write what is held."""
        if self._blobs:
            self._commit(self._oldest, blobs=self._blobs)
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


def _malformed(path: Path, message: str) -> Rejected:
    return Rejected(
        message,
        code="export.malformed",
        where={"file": str(path)},
        hint="copy or make the export again",
    )
