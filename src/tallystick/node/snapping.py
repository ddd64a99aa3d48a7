"""Snapshots of the worlds of a node: when one is taken, and what is done for it before (ADR 0030).

Theory of operation.
A snapshot is due so many records behind the last one and is taken in a calm moment; one that is
overdue waits for none.
It is prepared part by part while commits sync, in rounds over all that is dirty: large ones first,
then smaller ones until little is left to merge when its record comes.
A rest follows each part, so that whoever asks meets one part and not all of them.
The later it is, the more of its nodes go along with each commit: a snapshot that falls behind would
have to be done in haste at last, while everybody waits.
Called on the kernel's thread alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tallystick.errors import JournalCorrupt
from tallystick.journal.staged import EARLY
from tallystick.kernel.inputs import TakeSnapshot
from tallystick.kernel.snapshot import clean
from tallystick.node.driver import CLEANED, Driver, Ticket
from tallystick.node.hosted import Hosted
from tallystick.node.writer import Rhythm

_LEAST: Final = 16  # entries of a store that are merged before a snapshot rather than with it
_LARGE: Final = 16  # records between two snapshots for each of a round, before one is due
_LATE: Final = 6  # so often it doubles while a snapshot is due
_SHARED: Final = 8  # so many entries at a time while another world is busy: it waits for each part
_BUSY_NS: Final = 1_000_000_000  # so long after its last record a world counts as busy


class Hands(NamedTuple):
    """What the engine does for its snapshots."""

    calm: Callable[[], bool]  # nobody knocks
    may: Callable[[Hosted], bool]
    handled: Callable[[Driver, Ticket], bool]
    stop: Callable[[Driver, JournalCorrupt], None]


class Snapping:
    """When the worlds of a node take snapshots, and how much of one is done at a time."""

    def __init__(self, worlds: Mapping[str, Hosted], rhythm: Rhythm, hands: Hands) -> None:
        self._worlds = worlds
        self._rhythm = rhythm
        self._hands = hands

    def due(self, hosted: Hosted) -> bool:
        """True in a calm moment once so much was recorded behind the last one."""
        if hosted.driver.ingress or not self._hands.calm():
            return self.overdue(hosted)
        if hosted.parts_after_ns > time.monotonic_ns():
            return False
        return hosted.lacks(self._rhythm.snapshot_every) and self._hands.may(hosted)

    def overdue(self, hosted: Hosted) -> bool:
        """True when a snapshot waits no longer: whoever opens the world has to fold the rest."""
        return hosted.lacks(self._overdue(hosted)) and self._hands.may(hosted)

    def _overdue(self, hosted: Hosted) -> int:
        rhythm = self._rhythm
        # Who stands in a long line waits anyway; what a flood changes is held until it is snapped.
        times = 1 if len(hosted.driver.ingress) > rhythm.flood else rhythm.overdue
        return rhythm.snapshot_every * times

    def wait_ns(self, hosted: Hosted) -> int | None:
        """How long until a snapshot that is due may go on; None when nobody waits for one.

        A rest that is over is no time and not None: whoever sleeps has to be woken for it.
        """
        if hosted.driver.ingress or not hosted.behind(self._rhythm.snapshot_every):
            return None
        if not self._hands.may(hosted):
            return None
        rests_ns = max(hosted.parts_after_ns, hosted.rests_until_ns)
        return max(0, rests_ns - time.monotonic_ns())

    def prepare(self) -> None:
        """Do a part of the snapshots that come next while a commit syncs, or of the last ones."""
        now_ns = time.monotonic_ns()
        for hosted in self._worlds.values():
            hosted.look_busy(now_ns)
            if clean(hosted.driver.world, CLEANED):
                continue
            rested = hosted.parts_after_ns <= now_ns
            # With fewer records there is no round yet, and this is asked behind every commit.
            some = rested and hosted.lacks(self._rhythm.snapshot_every // _LARGE)
            if some and self._hands.may(hosted):
                self._prepared(hosted)

    def take(self, hosted: Hosted) -> bool:
        """Take a snapshot, or do a part of it: whole in one commit it would hold up everybody."""
        if self._prepared(hosted):
            return False
        driver = hosted.driver
        if self._hands.handled(driver, Ticket(TakeSnapshot(driver.clock.sample()))):
            hosted.snapped = driver.world.seq
        return True

    def _prepared(self, hosted: Hosted) -> bool:
        """Do the next part of a snapshot; False when there is none."""
        behind, every = hosted.driver.world.seq - hosted.snapped, self._rhythm.snapshot_every
        hosted.driver.blobs.along = EARLY * (1 + behind // every)
        hurry = behind // self._overdue(hosted) if self.overdue(hosted) else 0
        due = hosted.behind(every)
        try:
            return hosted.prepared(self._part(), least(behind, every), due=due, hurry=hurry)
        except JournalCorrupt as why:
            self._hands.stop(hosted.driver, why)
            return True

    def _part(self) -> int:
        """How many entries are prepared at a time, with so many worlds at work."""
        now_ns = time.monotonic_ns()
        busy = sum(now_ns - each.busy_ns < _BUSY_NS for each in self._worlds.values())
        return self._rhythm.prepared if busy <= 1 else _SHARED


def least(behind: int, every: int) -> int:
    """How many entries of a store make a round worth its branches.

    A few share hardly one, so before a snapshot is due there are only large rounds.
    Then they have to end, with few left that are merged in its commit; with more, the later it is.
    """
    halves = 2 * behind // every
    return max(_LEAST, every // _LARGE) if halves < 2 else _LEAST << min(halves - 2, _LATE)
