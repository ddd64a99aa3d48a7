"""Settling: when it is time to look, and where (08 section 6, W1, W2).

Pure: it is told the time.
Hints mark paths; the look comes once they have been quiet for a while, and at the latest some time
after the first of them.
Many paths collapse to the directories they stand in, and a lost hint makes everything dirty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallystick.reactions.tree import ROOT, parent

PATHS_MAX: Final = 4096
OVERFLOW, RESCAN, STARTUP, RULES = "overflow", "rescan", "startup", "rules_changed"


class Patience(NamedTuple):
    """How long to wait, in ns."""

    settle_ns: int = 200_000_000
    settle_max_ns: int = 2_000_000_000
    rescan_ns: int = 60_000_000_000
    blind_ns: int = 2_000_000_000
    """How often everything is looked at when nobody gives hints."""


class Dirty(NamedTuple):
    """Where to look: these paths, or everywhere (None); why; and whether anybody hinted at it."""

    paths: frozenset[bytes] | None
    flags: tuple[str, ...]
    hinted: bool


@dataclass(slots=True)
class Settle:
    """The hints since the last look."""

    patience: Patience
    hinted: bool = True
    """Whether somebody gives hints at all."""
    _paths: set[bytes] = field(default_factory=set)
    _flags: set[str] = field(default_factory=set)
    _asked: bool = False
    """Whether somebody pointed at something, and so waits for a word."""
    _first_ns: int | None = None
    _last_ns: int = 0
    _whole_ns: int | None = None
    """When everything was last looked at; None means it has to be now."""

    def mark(self, path: bytes, now_ns: int) -> None:
        """A path may have changed."""
        self._touch(now_ns)
        self._asked = True
        if self._whole_ns is None:
            return
        self._paths.add(path)
        if len(self._paths) > PATHS_MAX:
            self._paths = _collapsed(self._paths)

    def mark_all(self, flag: str, now_ns: int) -> None:
        """Anything may have changed: hints were lost, or the rules are others."""
        self._touch(now_ns)
        self._flags.add(flag)
        self._asked = self._asked or flag == OVERFLOW
        self._whole_ns = None
        self._paths.clear()

    def _touch(self, now_ns: int) -> None:
        self._last_ns = now_ns
        if self._first_ns is None:
            self._first_ns = now_ns

    @property
    def count(self) -> int:
        """How many paths are marked."""
        return len(self._paths)

    def due_ns(self) -> int:
        """When the next look is due, if no further hint comes."""
        again = self.patience.rescan_ns if self.hinted else self.patience.blind_ns
        whole = 0 if self._whole_ns is None else self._whole_ns + again
        if self._first_ns is None:
            return whole
        patience = self.patience
        settled = min(self._last_ns + patience.settle_ns, self._first_ns + patience.settle_max_ns)
        return settled if self._whole_ns is None else min(settled, whole)

    def take(self, now_ns: int) -> Dirty:
        """Where to look now; the marks are cleared."""
        again = self.patience.rescan_ns if self.hinted else self.patience.blind_ns
        everything = self._whole_ns is None or now_ns >= self._whole_ns + again
        flags = self._flags | ({RESCAN} if everything and not self._flags else set())
        where = None if everything else frozenset(self._paths)
        found = Dirty(where, tuple(sorted(flags)), self._asked)
        if everything:
            self._whole_ns = now_ns
        self._paths = set()
        self._flags = set()
        self._asked = False
        self._first_ns = None
        return found


def _collapsed(paths: set[bytes]) -> set[bytes]:
    """Directories in the place of what stands in them, until they are few."""
    while len(paths) > PATHS_MAX // 2 and paths != {ROOT}:
        paths = {parent(path) for path in paths}
    return paths
