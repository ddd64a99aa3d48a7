"""Forks and time travel (X-08): another history from any frame on.

A fork shares the parent's frames up to the fork point and copies nothing.
Its first record renames the world and applies the pending policy to the intents it inherits: a
fork re-runs nothing unasked (I7).
A frame is atomic, so a sequence inside one means the end of that frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallystick.errors import Rejected
from tallystick.kernel import receipts
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.inputs import Sample
from tallystick.kernel.roots import root
from tallystick.kernel.world import World
from tallystick.model.records import WorldForked

PENDING: Final = ("suspend", "cancel", "reissue")


# tidy: one record, all of its fields.
def fork(
    world: World,
    child: str,
    sample: Sample,
    *,
    pending: str = "suspend",
    pending_for: Mapping[str, str] | None = None,
    principal: str = "node",
    synthetic: bool = False,
) -> Frame:
    """The first frame of a fork of a world that stands at the fork point.

    A `synthetic` one is a what-if: it assumes receipts, and nothing that it asks for leaves it.
    """
    modes = {"*": pending, **(pending_for or {})}
    for effect, mode in sorted(modes.items()):
        if mode not in PENDING:
            raise Rejected(
                f"pending policy {mode!r} for {effect} is not one of {', '.join(PENDING)}",
                code="fork.bad_pending",
            )
    draft = Draft(world)
    stamp = draft.stamp(sample)
    draft.add(
        WorldForked(
            world=child,
            parent=world.id,
            at_seq=world.seq,
            head=world.head,
            root=root(world),
            pending=modes,
            principal=principal,
            stamp=stamp,
            synthetic=synthetic or None,
        )
    )
    for path, intent in world.intents.entries():
        # As `hold_all` reads it: `*` may be named among the effects, and is the rule then.
        if modes.get(intent.record.effect, modes["*"]) == "cancel":
            receipts.cancel(draft, path, "fork.cancelled")
    return draft.frame(Answer("forked", world.seq + 1))
