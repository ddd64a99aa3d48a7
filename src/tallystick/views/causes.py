"""Causes: which record led to which (X-22, X-23).

A tick names the input it handled, an emitted event and an asked effect name their tick; the rest
follows from the order of records: a receipt settles the intent opened before it, a child's first
event stands behind the intent that starts it, a join stands in the frame of the child's end.
So one pass over frames in order gives every link, and nothing has to be kept but places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tallystick.kernel.parts import CALL, KERNEL, SPAWN
from tallystick.model.frames import Sealed
from tallystick.model.records import (
    CellFailed,
    CellUnpinned,
    EventAdmitted,
    IntentAttached,
    IntentDenied,
    IntentOpened,
    ProgressNoted,
    ReceiptSettled,
    Record,
    StateMigrated,
    Ticked,
    WorkflowFaulted,
)
from tallystick.views.journal import Entry, cause, entries

DELIVERS: Final = "delivers"
CONTINUES: Final = "continues"
EMITS: Final = "emits"
ASKS: Final = "asks"
SETTLES: Final = "settles"
SPAWNS: Final = "spawns"
JOINS: Final = "joins"
CANCELS: Final = "cancels"
FOLLOWS: Final = "follows"  # attempts, releases, progress and drops of an intent; a tick's upgrade


class Link(NamedTuple):
    """One record led to another, and how."""

    cause: int
    how: str


class Asked(NamedTuple):
    """Where an intent was opened or denied, and for which effect."""

    seq: int
    effect: str


class Linked(NamedTuple):
    """A record in its place, with what led to it."""

    entry: Entry
    links: tuple[Link, ...]


class Causes:
    """Reads records in their order and gives the links of each.

    `known` says where intents were opened that are older than the first record.
    """

    def __init__(self, known: Mapping[bytes, Asked] | None = None) -> None:
        self.asked: dict[bytes, Asked] = dict(known or {})
        self._continuations: dict[int, None] = {}
        self._first: Entry | None = None
        self._before: Entry | None = None

    def links(self, entry: Entry) -> tuple[Link, ...]:
        """What led to a record; the records before it have been read."""
        if self._first is None or entry.frame.seq != self._first.frame.seq:
            self._first, self._before = entry, None
        found = tuple(link for link in self._links(entry, entry.record) if link.cause < entry.seq)
        self._before = entry
        return found

    def _links(self, entry: Entry, record: Record) -> Iterator[Link]:
        intent: bytes | None = getattr(record, "intent", None)
        match record:
            case Ticked() | WorkflowFaulted():
                continued = record.input_seq in self._continuations
                yield Link(record.input_seq, CONTINUES if continued else DELIVERS)
            case EventAdmitted():
                yield from self._event(record)
            case IntentOpened() | IntentDenied():
                self.asked[record.intent] = Asked(entry.seq, record.effect)
                yield Link(record.origin.tick_seq, ASKS)
            case IntentAttached():
                yield Link(record.origin.tick_seq, ASKS)
                yield from self._follows(record.intent, FOLLOWS)
            case ReceiptSettled():
                self._continuations[entry.seq] = None
                yield from self._follows(record.intent, SETTLES)
                yield from self._ended(record)
            case ProgressNoted():
                self._continuations[entry.seq] = None
                yield from self._follows(record.intent, FOLLOWS)
            case StateMigrated() | CellUnpinned() if self._first is not None:
                yield Link(self._first.seq, FOLLOWS)
            case _ if intent is not None:
                yield from self._follows(intent, FOLLOWS)
            case _:
                pass

    def _event(self, record: EventAdmitted) -> Iterator[Link]:
        tick = cause(record)
        before = self._before
        if before is not None and isinstance(before.record, IntentOpened):
            starts = before.record.effect in (SPAWN, CALL)
            if starts and record.origin.workflow == before.record.origin.workflow:
                yield Link(before.seq, SPAWNS)
                return
        if tick is not None:
            yield Link(tick, EMITS)

    def _follows(self, intent: bytes, how: str) -> Iterator[Link]:
        asked = self.asked.get(intent)
        if asked is not None:
            yield Link(asked.seq, how)

    def _ended(self, record: ReceiptSettled) -> Iterator[Link]:
        """A cell that ends settles what it has open, and what its callers wait for."""
        first, asked = self._first, self.asked.get(record.intent)
        if record.source != KERNEL or first is None or asked is None or asked.seq >= first.seq:
            return
        if isinstance(first.record, Ticked | WorkflowFaulted | CellFailed):
            yield Link(first.seq, JOINS if asked.effect == CALL else CANCELS)


def linked(
    frames: Iterable[Sealed], known: Mapping[bytes, Asked] | None = None
) -> Iterator[Linked]:
    """Every record of the frames with what led to it."""
    causes = Causes(known)
    for entry in entries(frames):
        yield Linked(entry, causes.links(entry))
