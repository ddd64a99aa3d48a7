"""Where the history of a world begins for its readers, and whether it is one yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tallystick.journal.base import UNFINISHED, Head, WorldRow

_MOST: Final = 2**62


def oldest(line: Sequence[WorldRow]) -> WorldRow:
    """The world in which the readable history begins.

    `line` is a lineage, the world itself first; a world that was trimmed hides what its parents
    hold.
    """
    return next((row for row in line if row.base.seq > (row.fork_seq or 0)), line[-1])


def floor_of(line: Sequence[WorldRow]) -> Head:
    """The place behind which the first readable frame stands: genesis, unless trimmed."""
    return oldest(line).base


def reaches(line: Sequence[WorldRow]) -> list[tuple[str, int]]:
    """The worlds whose blobs a world reads, each up to the sequence that it was forked at."""
    found: list[tuple[str, int]] = []
    upto = _MOST
    for row in line:
        found.append((row.world, upto))
        upto = min(upto, row.fork_seq or 0)
    return found


def owner_at(line: Sequence[WorldRow], seq: int) -> str:
    """The world of a lineage that a fork at a sequence is made of.

    What a fork inherited is its parent's: who is forked there shares that one's frames.
    """
    return next(row.world for row in line if seq > (row.fork_seq or -1))


def is_unfinished(row: WorldRow) -> bool:
    """True for a world whose making was cut off: it has no frame, or not all that it should."""
    return row.head.seq <= row.base.seq or row.state == UNFINISHED
