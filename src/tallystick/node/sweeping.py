"""Sweeping a live world: what nothing names goes in parts beside service (04 section 13, K-44).

Theory of operation.
From the beginning on everything is noted that the world puts into its blob store, and what was
prepared of its next snapshot is let go: so a later snapshot names nothing but what is noted and
what an earlier one names.
Then a reader of its own marks what the journal names, which may take long; the rest is to go.
Meanwhile the world and its forks go on, and a new frame may name an old blob that nothing named
before.
So frames that have come are looked through, too: first beside service, and before each part on the
kernel's thread, where nothing is decided meanwhile, under the writer's lock, where nothing is
committed meanwhile; there also those in flight and those staged.
A part is small, and whoever waits for a commit waits for one part.
A blob that a later commit brings again is written again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from tallystick.errors import UnknownName
from tallystick.journal.base import Reader
from tallystick.journal.collect import marks_of, orphans_of
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.index import EMPTY
from tallystick.kernel.reach import Marks
from tallystick.kernel.snapshot import unprepare
from tallystick.kernel.world import World
from tallystick.model.frames import Sealed
from tallystick.node.hosted import Hosted
from tallystick.node.node import Node

PART: Final = 500
"""So many blobs go at a time: others wait for some ten milliseconds, and the log stays small."""
_FEW: Final = 200  # records that are looked through while others wait
_ROUNDS: Final = 20


class Found(NamedTuple):
    """What nothing named when a world was looked through, and where it and its forks stood then."""

    orphans: dict[bytes, int]
    seqs: dict[str, int]
    lacks: bool
    """True when the live world reads an index that nothing names."""


def find(reader: Reader, world: str, live: Iterable[bytes] = ()) -> Found:
    """Look through a world as it is on the disk."""
    seqs = {name: reader.head(name).seq for name in (world, *_forks(reader, world))}
    kept = marks_of(reader, world)
    lacks = any(root not in kept for root in live)
    return Found(orphans_of(reader, world, kept), seqs, lacks)


class Sweeping:
    """One sweep of a hosted world: `begin`, then `part` until nothing is left, and `end`."""

    def __init__(self, node: Node, hosted: Hosted) -> None:
        self._node = node
        self._hosted = hosted
        self._world = hosted.driver.world.id
        self._blobs: StagedBlobs = hosted.driver.blobs
        self._noted: set[bytes] = set()
        self._named: set[bytes] = set()
        self._seqs: dict[str, int] = {}
        self._left: list[bytes] = []
        self._before = 0
        self.removed = 0

    async def begin(self, older_ns: int) -> Found | None:
        """Find what is to go; None when that must be done anew."""
        await self._node.look(self._world, self._begun)  # answered once all before it is durable
        roots = await self._node.look(self._world, _roots)
        found = await self._node.read(partial(find, world=self._world, live=roots))
        self._left, self._seqs = list(found.orphans), found.seqs
        self._before = await self._node.write(lambda held: held.seq_at(self._world, older_ns))
        for _ in range(_ROUNDS):
            if await self._node.read(self._follow) <= _FEW:
                break
        return None if found.lacks else found

    async def swept(self) -> bool:
        """Let everything go that was found, part by part; False when it must be found anew."""
        while self._left:
            if not await self._node.on_kernel(lambda: self._node.writer.alone(self._part)):
                return False
        return True

    def end(self) -> None:
        """Whatever happened, note no more."""
        self._node.engine.call(lambda: self._blobs.end_noting(self._noted))

    def _begun(self, world: World) -> None:
        """On the kernel's thread."""
        self._blobs = self._hosted.driver.blobs
        self._noted = self._blobs.begin_noting()
        unprepare(world)

    def _follow(self, reader: Reader) -> int:
        """Mark what frames name that came since; how many records."""
        count = 0
        for world in (self._world, *_forks(reader, self._world)):
            with suppress(UnknownName):  # a fork that was removed names nothing
                seq = last = self._seqs.get(world, reader.lineage(world)[0].fork_seq or 0)
                for frame in reader.read(world, seq):
                    self._mark(StagedBlobs(reader, world), [frame])
                    last = frame.last
                self._seqs[world] = last
                count += last - seq
        return count

    def _mark(self, blobs: StagedBlobs, frames: list[Sealed]) -> None:
        # Marked afresh: a blob that came meanwhile may name others, and was only a name before.
        marks = Marks(blobs)
        marks.tail(frames)
        self._named.update(marks.kept)

    def _part(self, journal: SqliteJournal) -> bool:
        """On the kernel's thread: remove what of the next part is still not named."""
        if self._hosted.driver.blobs is not self._blobs:
            return False  # the world was folded from the disk again: what it put is not known
        self._follow(journal)
        for world in self._seqs:
            hosted = self._node.engine.worlds.get(world)
            if hosted is not None:
                ahead = [each.sealed for each in self._node.engine.ahead(hosted)]
                self._mark(hosted.driver.blobs, [frame for frame in ahead if frame is not None])
        part = self._left[-PART:]
        del self._left[-PART:]
        still = [name for name in part if name not in self._named and name not in self._noted]
        self.removed += journal.discard(self._world, still, self._before).blobs
        return True


def _roots(world: World) -> list[bytes]:
    """The indexes that a live world reads."""
    return [store.top for store in world.stores().values() if store.top != EMPTY]


def _forks(reader: Reader, world: str) -> list[str]:
    """The forks of a world, and those of its forks."""
    names = reader.forks(world)
    return names + [name for fork in names for name in _forks(reader, fork)]
