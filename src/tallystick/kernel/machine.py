"""The machine: submit, advance, accept (03 section 1).

`submit` and `advance` decide and change nothing.
`accept` chains a frame, folds it, and gives it in the form that the journal stores; the driver
calls it at once, so that the next decision sees the frame, and lets nothing out before the
journal says it is durable.
"""

from __future__ import annotations

from typing import assert_never

from tallystick.kernel import govern, propose, settle, snapshot, tick
from tallystick.kernel.approve import decide
from tallystick.kernel.assume import assume
from tallystick.kernel.draft import Frame
from tallystick.kernel.drain import drained
from tallystick.kernel.fold import fold_frame
from tallystick.kernel.ingress import submit_event
from tallystick.kernel.inputs import (
    Activate,
    Assume,
    Clock,
    Decide,
    Fail,
    Govern,
    Input,
    MoveAlias,
    Operate,
    Progress,
    Propose,
    Prove,
    Rarer,
    RevokeGrant,
    RevokeKey,
    Settle,
    Shadow,
    Submit,
    TakeSnapshot,
    TrustKey,
    Vote,
)
from tallystick.kernel.operate import operate
from tallystick.kernel.world import World
from tallystick.model.frames import Sealed, seal_frame
from tallystick.model.records import WorldForked

__all__ = ["accept", "advance", "fold_frame", "submit"]


def advance(world: World) -> Frame | None:
    """The frame of the next ready cell's tick; None when nothing is ready."""
    frame = tick.advance(world)
    if frame is not None and (world.active.flows or world.levels.queue):
        return drained(world, frame, None)
    return frame


def submit(world: World, given: Input) -> Frame:
    """The frame of one external input; raises Rejected or Unavailable, never mutates."""
    # The two that every order brings are asked for first.
    if isinstance(given, Submit):
        frame = submit_event(world, given)
    elif isinstance(given, Settle):
        frame = settle.settle_receipt(world, given)
    else:
        frame = _submitted(world, given)
    if world.active.flows or world.levels.queue:
        return drained(world, frame, given)
    return frame


def _submitted(world: World, given: Rarer) -> Frame:
    match given:
        case Assume():
            return assume(world, given)
        case Progress():
            return settle.note_progress(world, given)
        case Clock():
            return settle.pass_time(world, given)
        case Operate():
            return operate(world, given)
        case TakeSnapshot():
            return snapshot.take(world, given)
    return _governed(world, given)


# tidy: one line for each input of governance.
def _governed(world: World, given: Govern) -> Frame:
    match given:
        case TrustKey():
            return govern.trust_key(world, given)
        case RevokeKey():
            return govern.revoke_key(world, given)
        case RevokeGrant():
            return govern.revoke_grant(world, given)
        case MoveAlias():
            return govern.move_alias(world, given)
        case Decide():
            return decide(world, given)
        case Propose():
            return propose.propose(world, given)
        case Shadow():
            return propose.shadowed(world, given)
        case Prove():
            return propose.proved(world, given)
        case Vote():
            return propose.vote(world, given)
        case Fail():
            return propose.fail(world, given)
        case Activate():
            return govern.activate(world, given)
    assert_never(given)


def accept(world: World, frame: Frame) -> Sealed | None:
    """Chain and fold a frame; None when it has no records."""
    records, _, _, blobs, answer, snapshot_ = frame
    if not records:
        if answer.kind == "suppressed":
            world.suppressed[answer.detail] = world.suppressed.get(answer.detail, 0) + 1
        return None
    if blobs:
        for digest, data in blobs.items():
            world.blobs.put(digest, data)
    first = records[0]  # that of a fork gives the world its new name
    name = first.world if type(first) is WorldForked else world.id
    sealed = seal_frame(name, world.seq + 1, world.head, records)
    fold_frame(world, records, sealed.hash)
    if snapshot_ is not None:
        world.suppressed.clear()
    return sealed
