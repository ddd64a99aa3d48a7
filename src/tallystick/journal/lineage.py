"""Where the history of a world begins for its readers."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.journal.base import Head, WorldRow


def oldest(line: Sequence[WorldRow]) -> WorldRow:
    """The world in which the readable history begins.

    `line` is a lineage, the world itself first; a world that was trimmed hides what its parents
    hold.
    """
    return next((row for row in line if row.base.seq > (row.fork_seq or 0)), line[-1])


def floor_of(line: Sequence[WorldRow]) -> Head:
    """The place behind which the first readable frame stands: genesis, unless trimmed."""
    return oldest(line).base
