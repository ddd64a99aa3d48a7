"""Collecting what nothing names, and moving the floor of a journal (K-44, 04 section 13).

Genesis is pinned by default: every frame can still be folded, so only orphans go.
Trimming gives that up for one world, on request: what is below a snapshot goes to an archive that
has been verified, and a signed checkpoint stands where the journal begins from then on.
"""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tallystick.errors import Conflict, JournalCorrupt, UnknownName
from tallystick.journal import checkpoints
from tallystick.journal.base import CheckpointRow, Head, Reader, SnapshotRow
from tallystick.journal.blob_files import sync_file, sync_folder
from tallystick.journal.export import export_bundle
from tallystick.journal.imports import verify_export
from tallystick.journal.lineage import floor_of
from tallystick.journal.refusals import unwritable
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.catalogues import Catalogues
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.reach import Marks
from tallystick.values import large
from tallystick.values.seal import KeyPair

PART: Final = 2_000
"""So many frames go at a time: others wait for some ten milliseconds, and the log stays small."""


def marks_of(reader: Reader, world: str) -> frozenset[bytes]:
    """The digests that must be kept: all that frames and snapshots name.

    A fork reads its parent's blobs, so what a fork names is kept in the parent too (I7, I21).
    """
    kept: set[bytes] = set()
    waiting = [world]
    catalogues = Catalogues()
    while waiting:
        name = waiting.pop()
        blobs = StagedBlobs(reader, name)
        marks = Marks(blobs, partial(catalogues.load, blobs=blobs))
        rows = reader.snapshots(name)
        floor = floor_of(reader.lineage(name)).seq
        # Behind a floor the manifest of the first frame is the snapshot's.
        for row in rows:
            marks.snapshot(row.document)
        for row in rows[:1] if floor else ():
            marks.manifest(_manifest(blobs, row))
        marks.tail(reader.read(name, floor))
        kept.update(marks.kept)
        waiting += reader.forks(name)
    return frozenset(kept)


def _manifest(blobs: StagedBlobs, row: SnapshotRow) -> bytes:
    return bytes(large.decode(read_blob(blobs, row.document))["manifest"])


def thin(journal: SqliteJournal, world: str, keep: int) -> int:
    """Drop snapshots beyond the newest `keep`.

    Pinned ones stay, the one at a floor, and those that forks began with: what a fork has not
    changed since it still reads there, also in a snapshot of its own that is on its way.
    """
    rows = _own(journal, world)
    old = rows[:-keep] if keep else rows
    needed = {floor_of(journal.lineage(world)).seq}
    for name in journal.forks(world):
        fork_seq = journal.lineage(name)[0].fork_seq or 0
        needed.add(max((row.seq for row in rows if row.seq <= fork_seq), default=0))
    gone = [row.seq for row in old if not row.pinned and row.seq not in needed]
    journal.drop_snapshots(world, *gone)
    return len(gone)


def _own(journal: Reader, world: str) -> list[SnapshotRow]:
    """Snapshots that are not a parent's."""
    begin = journal.lineage(world)[0].fork_seq or 0
    return [row for row in journal.snapshots(world) if row.seq > begin]


def orphans_of(reader: Reader, world: str, kept: Container[bytes]) -> dict[bytes, int]:
    """The blobs of a world that are not among those that must be kept, each with its size."""
    return {digest: size for digest, size in reader.blobs(world) if digest not in kept}


# ---- trimming -------------------------------------------------------------------------------


class Trim(NamedTuple):
    """What to trim: the world, up to where, into which archive, signed by whom and when."""

    world: str
    before: int
    archive: Path
    pair: KeyPair
    now_ns: int


def archived(reader: Reader, order: Trim) -> Trim:
    """Put a world that can be trimmed into its archive, verified and synced.

    Refuses without a snapshot for a floor, below a pin, below a fork, and onto an archive that is
    there.

    The order as far as it may be followed now: a snapshot that is taken meanwhile is no floor, as
    the archive does not hold all that stands below it.
    """
    row = _new_floor(reader, order)
    _archive(reader, order)
    return order._replace(before=row.seq + 1)


def move_floor(journal: SqliteJournal, order: Trim) -> Head:
    """Let a journal begin at its new floor; the frames below are to be dropped then.

    The order is the one that `archived` gave. Refuses as that does what has changed since.
    """
    row = _new_floor(journal, order)
    base = _end_of(journal, order.world, row.seq)
    mark = _mark(journal, order, row, base)
    # It is true of the world as it is, too; behind the trim nothing may fail any more.
    checkpoints.note(journal.folder, order.world, mark)
    journal.trim(order.world, base, mark)
    return base


def _new_floor(journal: Reader, order: Trim) -> SnapshotRow:
    floor = floor_of(journal.lineage(order.world)).seq
    rows = [row for row in _own(journal, order.world) if floor < row.seq < order.before]
    if not rows:
        raise UnknownName(
            f"no snapshot of world {order.world} stands between {floor} and {order.before}",
            code="trim.no_snapshot",
            where={"world": order.world, "before": order.before},
            hint="take a snapshot, or name a later sequence",
        )
    pinned = [row.seq for row in rows[:-1] if row.pinned]
    forked = [
        name
        for name in journal.forks(order.world)
        if (journal.lineage(name)[0].fork_seq or 0) < rows[-1].seq
    ]
    if pinned or forked:
        raise Conflict(
            f"something below seq {rows[-1].seq} is pinned",
            code="trim.pinned",
            where={"world": order.world, "snapshots": pinned[:10], "forks": forked[:10]},
            hint="take the pins away or remove the forks, or name an earlier sequence",
        )
    return rows[-1]


def _end_of(journal: SqliteJournal, world: str, seq: int) -> Head:
    found = next(iter(journal.headers(world, seq - 1, seq)), None)
    if found is None or found.last_seq != seq:
        raise JournalCorrupt(
            f"no frame ends at the snapshot at seq {seq}", where={"world": world, "seq": seq}
        )
    return Head(seq, found.hash, journal.head(world).epoch)


def _archive(journal: Reader, order: Trim) -> None:
    """The whole world as it is, in a file that has been verified and synced."""
    if order.archive.exists():
        raise Conflict(
            f"{order.archive} exists",
            code="trim.archive_exists",
            where={"file": str(order.archive)},
            hint="name a new file",
        )
    aside = order.archive.with_name(order.archive.name + ".new")
    try:
        with aside.open("wb") as out:
            export_bundle(journal, order.world, out)
        _verified(order.world, aside)
        sync_file(aside)
        aside.rename(order.archive)
        sync_folder(order.archive.parent)
    except BaseException as why:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        if isinstance(why, OSError):
            raise unwritable(order.archive, why, "trim.unwritable") from why
        raise


def _verified(world: str, archive: Path) -> None:
    bad = verify_export(archive).first_bad
    if bad is not None:
        raise JournalCorrupt(
            f"the journal is damaged at seq {bad.seq}: {bad.what}",
            where={"world": world, **bad._asdict()},
        )


def _mark(journal: SqliteJournal, order: Trim, row: SnapshotRow, base: Head) -> CheckpointRow:
    manifest = _manifest(StagedBlobs(journal, order.world), row)
    stand = checkpoints.Stand(row.root, manifest, order.now_ns)
    return checkpoints.make(order.pair, order.world, base, stand)
