"""Drafts: a frame while it is being decided (D1).

A frame is built whole and checked whole before anything is folded.
Within one frame later decisions must see earlier ones (a cell just created, a key just opened), so
the draft keeps a small overlay over the world; the world itself is only read.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.kernel.inputs import Sample
from tallystick.kernel.levels import Levels
from tallystick.kernel.parts import INLINE_VALUE_MAX, Cell
from tallystick.kernel.world import World
from tallystick.model.cells import COMPLETED, FAILED
from tallystick.model.records import (
    EventAdmitted,
    IntentOpened,
    ReceiptSettled,
    Record,
    Stamp,
)
from tallystick.model.tuples import make

DELETED: Final = "deleted"  # beside the statuses a cell can end with


class Answer(NamedTuple):
    """What the caller is told once the frame is durable."""

    kind: str
    seq: int = 0
    event_hash: bytes | None = None
    detail: Any = None


class Frame(NamedTuple):
    """Records that become durable together; `opened` may be published once they are."""

    records: tuple[Record, ...]
    opened: tuple[bytes, ...]
    settled: tuple[bytes, ...]
    blobs: dict[bytes, bytes]
    answer: Answer
    snapshot: Any = None


class Draft:
    """A frame under construction over a world that is only read."""

    __slots__ = (
        "blobs",
        "created",
        "ended",
        "hops",
        "levels",
        "opened",
        "records",
        "settled",
        "world",
    )

    def __init__(self, world: World) -> None:
        self.world = world
        self.hops = 1  # of what this frame emits: one more than what caused it
        self.records: list[Record] = []
        self.blobs: dict[bytes, bytes] = {}
        self.created: dict[tuple[str, bytes], None] = {}  # by the two parts of an id
        self.ended: dict[tuple[str, bytes], str] = {}
        self.opened: dict[bytes, IntentOpened] = {}
        self.settled: dict[bytes, None] = {}
        self.levels: Levels | None = None  # an overlay, once a flow has a say

    @property
    def seq(self) -> int:
        """The sequence number of the last record so far."""
        return self.world.seq + len(self.records)

    def add(self, record: Record) -> int:
        """Append a record; its sequence number.

        One whose effects within the frame are noted already goes straight to `records`.
        """
        self.records.append(record)
        if isinstance(record, EventAdmitted):
            for target in record.to:
                if target.create:
                    self.created[target.workflow, target.key] = None
        return self.seq

    def close(self, record: ReceiptSettled) -> None:
        """Append a receipt; what follows in the frame finds its intent settled."""
        self.records.append(record)
        self.settled[record.intent] = None

    def stamp(self, sample: Sample) -> Stamp:
        """The stamp of an external input; logical time never goes back (D4)."""
        now_ns, entropy = sample
        last_ns = self.world.logical_ns
        return make(Stamp, (now_ns, now_ns if now_ns > last_ns else last_ns + 1, entropy))

    def store(
        self, data: bytes, inline_max: int = INLINE_VALUE_MAX
    ) -> tuple[bytes | None, bytes | None]:
        """A value inline, or by digest when it is large: (bytes, None) or (None, digest)."""
        if len(data) <= inline_max:
            return data, None
        digest = sha256(data).digest()
        self.blobs[digest] = data
        return None, digest

    def is_open(self, intent: bytes) -> bool:
        """True while an intent is open as of this point of the frame."""
        if intent in self.settled:
            return False
        return intent in self.opened or self.world.intents.get(intent) is not None

    def exists(self, ident: tuple[str, bytes], cell: Cell | None) -> bool:
        """True when the cell, as the world has it, exists as of this point of the frame."""
        if self.created and ident in self.created:
            return True
        if self.ended and self.ended.get(ident) == DELETED:
            return False
        return cell is not None

    def takes_mail(self, ident: tuple[str, bytes], cell: Cell | None, lifecycle: str) -> bool:
        """False for a cell that ended: a process for good, an entity only when it failed."""
        status = self.ended.get(ident) if self.ended else None
        if status is None:
            status = "" if cell is None else cell.status
        return status != FAILED and (status != COMPLETED or lifecycle == "entity")

    def frame(self, answer: Answer, snapshot: Any = None) -> Frame:
        """The finished frame."""
        opened: tuple[bytes, ...] = ()
        ended: tuple[bytes, ...] = ()
        settled = self.settled
        if settled:
            ended = tuple(settled)
        if self.opened:
            opened = tuple(self.opened)
            if settled:
                opened = tuple([intent for intent in opened if intent not in settled])
        return make(Frame, (tuple(self.records), opened, ended, self.blobs, answer, snapshot))
