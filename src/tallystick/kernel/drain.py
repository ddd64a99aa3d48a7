"""Drain: what waits for room goes out as soon as there is some (06 section 4).

After each decision the lowest in the order of asking whose flows all admit it now is released, and
again, a bounded number per frame; one key never blocks another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tallystick.kernel import fold_flows
from tallystick.kernel.capacity import levels_of, tight_in
from tallystick.kernel.draft import DELETED, Draft, Frame
from tallystick.kernel.inputs import Clock, Input
from tallystick.kernel.levels import Levels
from tallystick.kernel.parts import Intent
from tallystick.kernel.release import let_go
from tallystick.kernel.world import World
from tallystick.model.cells import FAILED, TERMINAL
from tallystick.model.records import (
    BundleActivate,
    CellFailed,
    CellUnpinned,
    EventAdmitted,
    GrantRevoked,
    IntentOpened,
    IntentReleased,
    ReceiptSettled,
    Record,
    Stamp,
    Ticked,
    WorkflowFaulted,
)

RELEASES_MAX: Final = 256

# Decisions about what may be done; a release in their own frame would be judged without them.
_RULES: Final = (BundleActivate, GrantRevoked)

# Intents that this frame opened or released, as they stand behind it.
Fresh = dict[bytes, Intent]


def drained(world: World, frame: Frame, given: Input | None) -> Frame:
    """The frame with the releases that it makes possible; `given` is None for a tick."""
    if frame.snapshot is not None or not (frame.records or isinstance(given, Clock)):
        return frame
    if frame.records and isinstance(frame.records[0], _RULES):
        return frame  # what may go out is judged once they are in force
    draft = _continued(world, frame)
    if given is None:  # what a tick lets out comes of what the tick came of: hops are counted on
        draft.hops = _hops(world)
    stamp = None if given is None else draft.stamp(given.sample)
    now_ns = world.logical_ns + 1 if stamp is None else stamp.logical_ns
    fresh: Fresh = {}
    for record in frame.records:
        _apply(draft, record, fresh, now_ns)
    for count in range(RELEASES_MAX):
        intent = _first(draft, fresh, now_ns)
        if intent is None:
            break
        if not count:
            _recall(draft, frame.records)
        _release(draft, intent, stamp, fresh)
    return draft.frame(frame.answer)


def _hops(world: World) -> int:
    """How far what the next tick causes is from an outside input."""
    workflow, key = world.ring[0]
    cell = world.cells[workflow].get(key)
    assert cell is not None, "a cell in the ring exists"
    return cell.mailbox[0].hops + 1


def _continued(world: World, frame: Frame) -> Draft:
    """The draft that a frame came from, as far as releasing needs it."""
    draft = Draft(world)
    draft.records = list(frame.records)
    draft.blobs = frame.blobs
    draft.settled = dict.fromkeys(frame.settled)
    opened = {r.intent: r for r in frame.records if isinstance(r, IntentOpened)}
    for ident in frame.opened:
        known = world.intents.get(ident)
        draft.opened[ident] = opened[ident] if known is None else known.record
    return draft


def _recall(draft: Draft, records: Iterable[Record]) -> None:
    """Note which cells the frame has created and ended: what it lets out must not wake these."""
    for record in records:
        if isinstance(record, EventAdmitted):
            draft.created.update({(to.workflow, to.key): None for to in record.to if to.create})
        elif isinstance(record, Ticked) and (record.after is None or record.status in TERMINAL):
            ended = DELETED if record.after is None else record.status
            draft.ended[record.workflow, record.key] = ended
        elif isinstance(record, CellFailed) or (
            isinstance(record, WorkflowFaulted) and record.action == FAILED
        ):
            draft.ended[record.workflow, record.key] = FAILED


def _found(draft: Draft, ident: bytes, fresh: Fresh) -> Intent | None:
    return fresh.get(ident) or draft.world.intents.get(ident)


def _apply(draft: Draft, record: Record, fresh: Fresh, now_ns: int) -> None:
    """Move the overlay as folding the record will move the world."""
    levels, flows = levels_of(draft), draft.world.active.flows
    if isinstance(record, IntentOpened) and record.flow is not None:
        fresh[record.intent] = Intent(record, draft.seq, _manifest(draft, record))
        fold_flows.opened(levels, record, flows, now_ns)
    elif isinstance(record, IntentReleased | ReceiptSettled):
        intent = _found(draft, record.intent, fresh)
        if intent is None or intent.record.flow is None:
            return
        if isinstance(record, IntentReleased):
            fold_flows.released(levels, intent, record, flows, now_ns)
            fresh[record.intent] = _let_out(intent, record)
        elif record.status != "denied" or record.error is not None:
            fold_flows.settled(levels, intent, record, draft.world.seq)


def _manifest(draft: Draft, record: IntentOpened) -> bytes:
    """The manifest that folding will find an intent opened under: a pinned cell has its own."""
    cell = draft.world.cell((record.origin.workflow, record.origin.key))
    if cell is None or cell.pin is None:
        return draft.world.manifest
    left = any(isinstance(each, CellUnpinned) for each in draft.records)
    return draft.world.manifest if left else cell.pin


def _let_out(intent: Intent, record: IntentReleased) -> Intent:
    """The intent as it stands behind its release."""
    made = Intent(intent.record, intent.seq, intent.manifest)
    queued = record.cause == fold_flows.QUEUED
    made.hold = {"kind": "capacity", "detail": {}} if queued else None
    return made


def _first(draft: Draft, fresh: Fresh, now_ns: int) -> Intent | None:
    """The lowest in the order of asking that has room everywhere."""
    levels = levels_of(draft)
    for who in levels.queue:
        intent = _found(draft, who.intent, fresh)
        assert intent is not None, "what waits is open"
        if _has_room(draft.world, levels, intent, now_ns):
            return intent
    return None


def _has_room(world: World, levels: Levels, intent: Intent, now_ns: int) -> bool:
    record = intent.record
    at = (record.origin, now_ns)
    return not tight_in(levels, world.active.flows, record.flow or (), at)


def _release(draft: Draft, intent: Intent, stamp: Stamp | None, fresh: Fresh) -> None:
    begin = len(draft.records)
    let_go(draft, intent, "room", stamp)
    now_ns = draft.world.logical_ns + 1 if stamp is None else stamp.logical_ns
    for record in draft.records[begin:]:
        _apply(draft, record, fresh, now_ns)


def next_release_ns(world: World) -> int | None:
    """When something that waits may go out by the mere passing of time."""
    levels, flows = world.levels, world.active.flows
    now_ns = world.logical_ns + 1
    found: int | None = None
    for who in levels.queue:
        intent = world.intents.get(who.intent)
        assert intent is not None, "what waits is open"
        record = intent.record
        tight = tight_in(levels, flows, record.flow or (), (record.origin, now_ns))
        if any(each.why == "open" for each in tight):
            continue
        due = max((e.flow.earliest_ns(levels.tat_at(e.place)) for e in tight), default=now_ns)
        found = due if found is None else min(found, due)
    return found
