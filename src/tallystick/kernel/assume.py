"""Assumed receipts: how a synthetic world learns what the outside would have said (06 section 11).

Nobody seals them, so no other world takes them; their issuer is `whatif`.
"""

from __future__ import annotations

from tallystick.errors import Conflict, UnknownName
from tallystick.kernel.draft import Draft, Frame
from tallystick.kernel.inputs import Assume, Receipt
from tallystick.kernel.settle import OWN, settled_by
from tallystick.kernel.world import World


def assume(world: World, given: Assume) -> Frame:
    """Settle an open intent by an assumed receipt; refuses in a world with an outside."""
    where = {"world": world.id, "intent": given.intent.hex()}
    if not world.synthetic:
        raise Conflict(
            "only a what-if assumes receipts",
            code="world.not_synthetic",
            where=where,
            hint="fork the world with edits",
        )
    intent = world.intents.get(given.intent)
    if intent is None or intent.record.effect in OWN:
        raise UnknownName("no open effect has this id", code="effect.not_open", where=where)
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    now_ns = stamp.logical_ns
    record = intent.record
    place = (world.id, given.intent, record.effect, given.status, given.payload)
    receipt = Receipt(*place, record.executor, intent.attempt, now_ns, now_ns, given.usage, {})
    return settled_by(draft, stamp, intent, receipt)
