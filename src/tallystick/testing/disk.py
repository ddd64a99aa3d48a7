"""The simulated disk: a memory journal with everything that disks do to journals.

The contract of the port: after a crash every flushed frame is there, plus a prefix of the
unflushed, none partial.
Here `durable` is what survives; the node reads and writes `volatile`, which is the same until a
disk lies or has failed a sync.
After a failed sync the dropped pages are gone for good, and what is appended later looks written
and is not: that is why a node must never go on (D15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any, Final

from tallystick.errors import SyncFailed
from tallystick.journal.base import (
    Append,
    Full,
    Head,
    Held,
    Lease,
    Outcome,
    SnapshotRow,
    Swept,
    WorkRow,
)
from tallystick.journal.memory import MemoryJournal
from tallystick.model.frames import Sealed

FLUSH_FAULTS: Final = ("eio", "enospc", "lying", "torn_none", "torn_prefix", "torn_all")


class Killed(BaseException):
    """The process died here; nothing in the product may catch it."""


class SimJournal:
    """One disk with the journals of all worlds of a run."""

    def __init__(self, faults: dict[int, str]) -> None:
        self.durable = MemoryJournal()
        self._view = self.durable
        self._faults = faults
        self._keep = 0.5
        self.flushes = 0
        self.calm = False
        self.struck: dict[str, int] = {}
        # What must hold of each commit is looked at while it happens.
        self.on_append: Callable[[Append, int], None] | None = None

    # ---- the port ---------------------------------------------------------------------------

    def append(self, *batch: Append) -> list[Outcome]:
        """Write what is given, or fail as drawn."""
        return [self._append(each) for each in batch]

    def _append(self, batch: Append) -> Outcome:
        fault = None if self.calm else self._faults.get(self.flushes)
        self.flushes += 1
        if fault is not None:
            self.struck[fault] = self.struck.get(fault, 0) + 1
        if fault == "enospc":
            return Full(self._view.head(batch.world))
        if fault == "eio":
            self._detach()
            raise SyncFailed("a sync failed; what was written may be gone")
        if fault == "lying":
            self._detach()
        if fault in ("torn_none", "torn_prefix", "torn_all"):
            self._tear(batch, fault)
            raise Killed(fault)
        epoch = self._view.head(batch.world).epoch
        (outcome,) = self._view.append(batch)
        if self.on_append is not None and isinstance(outcome, Head):
            self.on_append(batch, epoch)
        return outcome

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Frames as the node sees them."""
        return self._view.read(world, after, upto)

    def head(self, world: str) -> Head:
        """The head as the node sees it."""
        return self._view.head(world)

    def blob(self, world: str, name: bytes) -> bytes | None:
        """A blob as the node sees it."""
        return self._view.blob(world, name)

    def room(self, world: str) -> int:
        """The first free place as the node sees it."""
        return self._view.room(world)

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """Snapshots as the node sees them."""
        return self._view.snapshots(world)

    def acquire(self, world: str, node: str = "") -> Lease | Held:
        """A new epoch, on the disk at once."""
        return self._view.acquire(world, node)

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child."""
        self._view.fork(parent, at, child)

    def alias(self, name: str, world: str) -> None:
        """Let a name mean a world."""
        self._view.alias(name, world)

    def forks(self, world: str) -> list[str]:
        """Forks as the node sees them."""
        return self._view.forks(world)

    def put_work(self, world: str, *rows: WorkRow) -> None:
        """Keep rows of leases, on the disk at once."""
        self._view.put_work(world, *rows)

    def work(self, world: str) -> list[WorkRow]:
        """Rows of leases as the node sees them."""
        return self._view.work(world)

    def blobs(self, world: str) -> Iterator[tuple[bytes, int]]:
        """Blobs as the node sees them."""
        return self._view.blobs(world)

    def discard(self, world: str, blobs: Iterable[bytes], before: int | None = None) -> Swept:
        """Remove these blobs."""
        return self._view.discard(world, blobs, before)

    # ---- what happens to disks --------------------------------------------------------------

    @property
    def honest(self) -> bool:
        """True while what the node sees is what survives."""
        return self._view is self.durable

    def restart(self) -> None:
        """The machine comes back: only what is durable is there."""
        self._view = self.durable

    def _detach(self) -> None:
        if self.honest:
            self._view = deepcopy(self.durable)

    def _tear(self, batch: Append, fault: str) -> None:
        """The process dies inside the commit: all, none, or a prefix of its frames is there."""
        count = {"torn_none": 0, "torn_all": len(batch.frames)}.get(fault, len(batch.frames) // 2)
        frames = batch.frames[:count]
        last = frames[-1].last if frames else 0
        rows = [row for row in batch.snapshots if row.seq < last]
        kept = batch._replace(frames=frames, snapshots=rows)
        if frames:
            epoch = self._view.head(batch.world).epoch
            (outcome,) = self._view.append(kept)
            if self.on_append is not None and isinstance(outcome, Head):
                self.on_append(kept, epoch)

    # ---- corruption: only detection is asked ------------------------------------------------

    def flip(self, world: str, pick: float) -> int | None:
        """Flip a bit of one stored frame; its first sequence number, None when there is none."""
        frames = self._frames(world)
        if len(frames) < 2:
            return None
        at = 1 + int(pick * (len(frames) - 1))
        frame = frames[at]
        body = bytearray(frame.body)
        # The last byte is the end of a value: the body still decodes, so only the hash can tell.
        body[-1] ^= 0x01
        frames[at] = frame._replace(body=bytes(body))
        return frame.seq

    def roll_back(self, world: str, pick: float) -> int | None:
        """Bring back a stale copy: the newest frames are gone; the first sequence that is."""
        frames = self._frames(world)
        if len(frames) < 2:
            return None
        at = 1 + int(pick * (len(frames) - 1))
        gone = frames[at].seq
        del frames[at:]
        rows = self._book(world).snapshots
        rows[:] = [row for row in rows if row.seq < gone - 1]
        return gone

    def lose_blob(self, world: str, pick: float) -> bytes | None:
        """Lose one blob; its digest."""
        blobs: dict[bytes, bytes] = self._book(world).blobs
        names = sorted(blobs)
        if not names:
            return None
        digest = names[int(pick * len(names))]
        del blobs[digest]
        return digest

    def _book(self, world: str) -> Any:
        # A disk fault reaches below the port, so it needs the journal's private page.
        return self.durable._books[world]  # noqa: SLF001

    def _frames(self, world: str) -> list[Sealed]:
        frames: list[Sealed] = self._book(world).frames
        return frames
