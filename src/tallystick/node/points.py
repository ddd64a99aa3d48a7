"""Crash points: named places around every port call, where a test may stop the process.

A point costs one attribute read unless something listens.
The simulator listens and raises, which stands for the process dying just there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

NAMES: Final = (
    "inbox.taken",
    "frame.built",
    "frame.folded",
    "journal.appended",
    "journal.flushed",
    "intent.dispatched",
    "receipt.enqueued",
    "snapshot.written",
    "snapshot.promoted",
    "gc.marked",
    "gc.swept",
    "fork.recorded",
)


class Points:
    """The points of one node; `listener` is called with the name of each place passed."""

    __slots__ = ("listener", "seen")

    def __init__(self) -> None:
        self.listener: Callable[[str], None] | None = None
        self.seen: dict[str, int] = {}

    def at(self, name: str) -> None:
        """Pass a place."""
        if self.listener is not None:
            self.listener(name)

    def sometimes(self, name: str) -> None:
        """Count a rare path, so that a run that never takes it can be found out."""
        self.seen[name] = self.seen.get(name, 0) + 1
