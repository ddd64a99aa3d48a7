"""Collecting in tests, where nobody goes on meanwhile: sweeps and trims in one go."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple, Protocol

from tallystick.journal.base import Head, Swept
from tallystick.journal.collect import PART, Trim, archived, marks_of, move_floor, orphans_of
from tallystick.journal.sqlite import SqliteJournal


class Holds(Protocol):
    """What a sweep needs of a journal."""

    def blobs(self, world: str) -> Iterator[tuple[bytes, int]]: ...

    def discard(self, world: str, blobs: Iterable[bytes], before: int | None = None) -> Swept: ...


class Trimmed(NamedTuple):
    """Where a journal begins now, and what has left it."""

    base: Head
    frames: int
    swept: Swept


def keep_only(
    journal: Holds, world: str, keep: Container[bytes], before: int | None = None
) -> Swept:
    """Discard what is not to be kept and was added before a sequence."""
    gone = [digest for digest, _ in journal.blobs(world) if digest not in keep]
    return journal.discard(world, gone, before)


def sweep(journal: SqliteJournal, world: str, older_ns: int) -> Swept:
    """Remove orphans that were added before a time."""
    orphans = orphans_of(journal, world, marks_of(journal, world))
    return journal.discard(world, orphans, journal.seq_at(world, older_ns))


def trim(journal: SqliteJournal, order: Trim) -> Trimmed:
    """Move the floor of a world up to its newest snapshot below a sequence."""
    base, frames = move_floor(journal, archived(journal, order)), 0
    while gone := journal.drop_below(order.world, PART):
        frames += gone
    return Trimmed(base, frames, sweep(journal, order.world, 2**62))
