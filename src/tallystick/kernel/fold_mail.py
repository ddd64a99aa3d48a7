"""Folding, part one: stamps, mailboxes and the ready ring.

A frame begins with a tick or with a stamped record; what it causes inherits time and chance from
that (D4).
"""

from __future__ import annotations

from tallystick.kernel.parts import Cell, Mail
from tallystick.kernel.world import World, entropy_of
from tallystick.model.cells import COMPLETED, FAILED, RUNNING
from tallystick.model.records import Stamp


def stamped(world: World, stamp: Stamp | None) -> None:
    """An external input begins here: its stamp is the cause of what follows in the frame."""
    if stamp is not None:
        world.logical_ns = stamp.logical_ns
        world.now_ns = stamp.now_ns
        world.stamp = stamp
        world.cause = None


def inherit(world: World) -> tuple[bytes, int, int]:
    """Parent entropy, time and hops for mail that the current frame causes (D4)."""
    if world.cause is not None:
        cell, mail, _ = world.cause
        return entropy_of(cell, mail), mail.now_ns, mail.hops + 1
    assert world.stamp is not None, "a frame begins with a tick or with a stamped record"
    now_ns, _, entropy = world.stamp
    return entropy, now_ns, 0


def push(world: World, cell: Cell, mail: Mail) -> None:
    """Append to a mailbox; a running cell takes its place in the ring."""
    if cell.mailbox:
        cell.post(mail)
    else:
        cell.mailbox = (mail,)
    status = cell.status
    if status != RUNNING and (status == COMPLETED or _begins(world, cell)):
        cell.status = status = RUNNING  # an entity reopens; a completed process is sent nothing
    if status == RUNNING and not cell.queued:
        cell.queued = True
        world.ring.append(cell.id)


def _begins(world: World, cell: Cell) -> bool:
    """True for a cell that this frame has failed and reset: what it is sent is for the next one."""
    return cell.status == FAILED and cell.born_seq > world.framed_seq


def requeue(world: World, cell: Cell) -> None:
    """Back into the ring while mail waits."""
    if cell.mailbox and cell.status == RUNNING and not cell.queued:
        cell.queued = True
        world.ring.append(cell.id)


def unqueue(world: World, cell: Cell) -> None:
    """Out of the ring: an operator's act, so searching the ring is no hot path."""
    if cell.queued:
        cell.queued = False
        world.ring.remove(cell.id)


def must(world: World, workflow: str, key: bytes) -> Cell:
    """A cell that the record says exists."""
    cell = world.cells[workflow].edit(key)
    assert cell is not None, "the record names a cell that exists"
    return cell
