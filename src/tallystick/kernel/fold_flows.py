"""Folding, part four: what records do to the levels of flows and budgets.

The same functions move the levels of a world and the overlay of a decision, so the two agree.
"""

from __future__ import annotations

from collections.abc import Mapping

from tallystick.authority.flow import Flow
from tallystick.kernel.levels import Levels, Waiting
from tallystick.kernel.parts import Intent, is_unsent
from tallystick.model.records import IntentOpened, IntentReleased, ReceiptSettled

Flows = Mapping[str, Flow]
QUEUED = "queued"  # the cause of a release from one hold into another


def waiting(record: IntentOpened) -> Waiting:
    """The place of an intent in the order of asking."""
    return Waiting(record.origin.tick_seq, record.origin.index, record.intent)


def opened(levels: Levels, record: IntentOpened, flows: Flows, now_ns: int) -> None:
    """An intent with claims opened: its cost is reserved; it is out, or it waits."""
    claims = record.flow or ()
    levels.reserve(claims)
    if record.hold is None:
        levels.enter(claims, record.origin, flows, now_ns)
    elif record.hold["kind"] == "capacity":
        levels.wait(claims, waiting(record))


def released(
    levels: Levels, intent: Intent, record: IntentReleased, flows: Flows, now_ns: int
) -> None:
    """A hold ended: the intent goes out, or from the people's hold into the queue."""
    claims = intent.record.flow or ()
    if record.hold == "capacity":
        levels.unwait(claims, waiting(intent.record))
    if record.cause == QUEUED:
        levels.wait(claims, waiting(intent.record))
    elif is_unsent(intent.hold):
        levels.enter(claims, intent.record.origin, flows, now_ns)


def settled(levels: Levels, intent: Intent, record: ReceiptSettled, framed_seq: int) -> None:
    """An intent ended: it gives back its room and its place, and pays what it used.

    What its own frame cancels (which stands behind `framed_seq`) never left, and has used nothing.
    """
    claims = intent.record.flow or ()
    out = not is_unsent(intent.hold)
    if out:
        levels.leave(claims, intent.record.origin)
    elif intent.hold["kind"] == "capacity":
        levels.unwait(claims, waiting(intent.record))
    left = out and not (record.status == "cancelled" and intent.seq > framed_seq)
    levels.spend(claims, record.usage, out=left)
