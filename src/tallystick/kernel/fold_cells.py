"""Folding, part two: events, ticks and what operators do to cells."""

# tidy: everything that changes a cell stands on one page.
from __future__ import annotations

from collections import deque
from hashlib import sha256
from itertools import islice
from operator import itemgetter
from typing import Final

from tallystick.kernel.fold_mail import inherit, must, push, requeue, stamped, unqueue
from tallystick.kernel.parts import (
    INLINE_STATE_MAX,
    NO_BONDS,
    NO_MAIL,
    Cell,
    Fence,
    Mail,
    with_bond,
)
from tallystick.kernel.pins import catalogue_of, unpin, workflow_of
from tallystick.kernel.world import World
from tallystick.model import envelopes, records
from tallystick.model.catalogue import Catalogue
from tallystick.model.cells import FAILED, RUNNING, SUSPENDED, TERMINAL, CellId
from tallystick.model.tuples import make
from tallystick.values import canon

PRUNE_MAX: Final = 64
_LAST_NS: Final = 2**64 - 1

# ---- events ---------------------------------------------------------------------------------


# tidy: all that one event does to its cells.
def event_admitted(world: World, record: records.EventAdmitted) -> None:
    """An event is in the world: its deliveries go to mailboxes."""
    schema, event_hash, _, hops, to, value, value_hash, given, _, idem, stamp = record
    if stamp is not None:
        stamped(world, stamp)
        if not world.expiry.empty():
            _prune_fence(world)
        if idem is not None:
            _fence(world, idem)
    if not to:
        return
    parent, now_ns, _ = inherit(world)
    told = None if given is None else event_hash
    for index, target in enumerate(to):
        workflow, key, _, arm, upcast, _, init, caps, caller = target
        cells = world.cells_of(workflow)
        cell = cells.edit(key)
        if cell is None:
            cell = cells.delta[key] = Cell(make(CellId, (workflow, key)), world.seq)
            world.cell_count += 1
        if caps is not None:
            cell.caps = caps
        if caller is not None:
            cell.callers = with_bond(cell.callers, caller)
        fields = (
            world.seq, index, schema, arm, parent, now_ns, hops, value, value_hash, init, None,
            told, None,
        )  # fmt: skip
        mail = make(Mail, fields)
        if upcast is not None:
            mail = _upcast(world, cell, mail, record, target)
        push(world, cell, mail)


def _upcast(
    world: World, cell: Cell, mail: Mail, record: records.EventAdmitted, target: records.Target
) -> Mail:
    """A delivery whose upcast value stands in for the one that came."""
    assert target.upcast is not None, "only asked of an upcast delivery"
    fits = _newer(catalogue_of(world, cell), target.upcast)
    value = target.value
    return mail._replace(value=value, value_hash=None, event_hash=record.event_hash, fits=fits)


def _newer(catalogue: Catalogue, upcast: str) -> str | None:
    """The schema that an upcast leads to: what its value is of, whatever came."""
    return next((u.to for u in catalogue.upcasts.values() if u.name == upcast), None)


def _fence(world: World, idem: records.IdemKey) -> None:
    path = sha256(idem.key).digest()
    world.fence.put(path, Fence(idem.digest, world.seq, world.logical_ns))
    world.expiry.add(_fenced_until(world, world.logical_ns), path)


def _fenced_until(world: World, at_ns: int) -> int:
    """When a key that was used then is free again."""
    window = world.active.catalogue.limits.idempotency_window
    # A window that never passes is legal: it ends with the last moment that a calendar can say.
    return min(at_ns + window, _LAST_NS)


def _prune_fence(world: World) -> None:
    """Forget keys whose window has passed, a few per input: the cost is paid in small coin."""
    for due_ns, path in world.expiry.due(world.logical_ns, PRUNE_MAX):
        world.expiry.remove(due_ns, path)
        known = world.fence.get(path)
        if known is None:
            continue
        # It was used again since, or an upgrade has made the window longer: then it stays.
        until = _fenced_until(world, known.at_ns)
        if until <= world.logical_ns:
            world.fence.remove(path)
        else:
            world.expiry.add(until, path)


def minted(world: World, record: records.GrantMinted) -> None:
    """The cell has one more grant, beside those of its workflow."""
    cell = must(world, record.workflow, record.key)
    held = cell.caps or {"slots": {}, "grants": {}}
    grant = {
        "cap": record.cap,
        "params": record.params,
        "expires_ns": None,
        "parent": None,
        "hash": record.grant_hash,
    }
    cell.caps = {
        "slots": {**held["slots"], record.slot: record.name},
        "grants": {**held["grants"], record.name: grant},
        "beside": True,
    }


# ---- ticks ----------------------------------------------------------------------------------


def _taken(world: World, cell: Cell, ended: bool) -> Mail:
    """The cell at the front of the ring is being handled."""
    ident = cell.id
    front = world.ring.popleft()
    assert front == ident, "ticks follow the order of the ring"
    cell.queued = False
    world.logical_ns += 1
    mail = cell.mailbox[0]
    world.cause = (ident, mail, ended)
    return mail


# tidy: all that one tick changes in its cell.
def ticked(world: World, record: records.Ticked) -> None:
    """A delivery was handled: the cell has its next state and status."""
    workflow, key, workflow_hash, input_seq, size, version, status, before, after, state = _OF_TICK(
        record
    )
    cell = world.cells[workflow].edit(key)
    assert cell is not None, "the record names a cell that exists"
    ended = after is None or status in TERMINAL
    mail = _taken(world, cell, ended)
    assert mail.seq == input_seq, "a tick handles the front of the mailbox"
    if len(cell.mailbox) > 1:
        cell.forget_first()
    else:
        cell.mailbox = NO_MAIL
    cell.last_seq = world.seq
    cell.last_active_ns = world.logical_ns
    cell.workflow_hash = workflow_hash
    cell.state_version = version
    cell.status = status
    if after is None:
        _deleted(world, cell)
    else:
        cell.size = size
        cell.state_hash = after
        if state is not None:
            cell.state = state
        elif after != before:
            cell.state = None  # over the inline size: read from the blob store when it is needed
        if size <= INLINE_STATE_MAX:
            ident, resident = cell.id, world.resident
            world.resident_bytes += size - resident.pop(ident, 0)
            resident[ident] = size  # behind all others: it is the youngest now
            if world.resident_bytes > world.settings.resident_bytes_max:
                _spill(world)
        if ended:
            _ended(world, cell)
    if ended and cell.pin is not None:
        unpin(world, cell)
    if cell.mailbox:
        requeue(world, cell)


def migrated(_world: World, _record: records.StateMigrated) -> None:
    """Evidence: the tick of the same frame holds what came of it."""


def unpinned(world: World, record: records.CellUnpinned) -> None:
    """The cell goes on under the active manifest."""
    unpin(world, must(world, record.workflow, record.key))


# What folding takes of a tick: cell, code, place, size, version, status, the digests, the state.
_OF_TICK: Final = itemgetter(0, 1, 2, 4, 7, 8, 9, 15, 16, 17)


def _spill(world: World) -> None:
    """Move the oldest dirty states out of memory; they stay logically dirty (K-41).

    They go in lots, because a dictionary is slow at giving up its first entry again and again.
    """
    resident = world.resident
    while world.resident_bytes > world.settings.resident_bytes_max and resident:
        for ident in list(islice(resident, 1 + len(resident) // 16)):
            world.resident_bytes -= resident.pop(ident)
            cell = world.cell(ident)
            if cell is not None and cell.state is not None and cell.state_hash is not None:
                world.blobs.put(cell.state_hash, cell.state)
                cell.state = None


def _deleted(world: World, cell: Cell) -> None:
    """State null: the cell is gone, or begins again for the mail that still waits (K-35)."""
    for intent in cell.keyed:
        world.keyed.remove(intent)
    cell.keyed = cell.inflight = cell.callers = NO_BONDS
    cell.caps = None
    cell.state = None
    cell.state_hash = None
    cell.size = 0
    cell.workflow_hash = None  # it begins again: its next tick is its first
    cell.born_seq = world.seq
    active, name = world.active, cell.id.workflow
    kept = [mail for mail in cell.mailbox if active.begins(name, mail)]
    cell.mailbox = deque(kept) if kept else NO_MAIL
    if cell.id.key and not kept:
        world.cells_of(cell.id.workflow).remove(cell.id.key)
        world.cell_count -= 1
    elif cell.status in TERMINAL and kept:
        cell.status = RUNNING


def _ended(world: World, cell: Cell) -> None:
    """A cell that ended takes no more mail; a completed entity goes on with what waits."""
    entity = workflow_of(world, cell).lifecycle == "entity"
    if cell.status == FAILED or not entity:
        cell.mailbox = NO_MAIL
        return
    cell.callers = NO_BONDS  # they are answered in this frame; who calls it again is one more
    if cell.mailbox:
        cell.status = RUNNING


def faulted(world: World, record: records.WorkflowFaulted) -> None:
    """A delivery ended in a fault: the cell fails, or waits with the entry at the front."""
    cell = must(world, record.workflow, record.key)
    _taken(world, cell, record.action != "suspended")
    cell.last_active_ns = world.logical_ns
    if record.action == "suspended":
        cell.status = SUSPENDED  # the faulting entry stays at the front
        return
    cell.last_seq = world.seq
    cell.status = FAILED
    cell.mailbox = NO_MAIL
    unpin(world, cell)


# ---- operators ------------------------------------------------------------------------------


def suspended(world: World, record: records.CellSuspended) -> None:
    """Mail waits from here on."""
    stamped(world, record.stamp)
    cell = must(world, record.workflow, record.key)
    unqueue(world, cell)
    cell.status = SUSPENDED


def resumed(world: World, record: records.CellResumed) -> None:
    """The cell goes on with its mail."""
    stamped(world, record.stamp)
    cell = must(world, record.workflow, record.key)
    cell.status = RUNNING
    requeue(world, cell)


def skipped(world: World, record: records.CellSkipped) -> None:
    """The front entry is gone; only a suspended cell is skipped, and none of those is queued."""
    stamped(world, record.stamp)
    cell = must(world, record.workflow, record.key)
    init = cell.mailbox[0].init
    cell.forget_first()
    if init is not None and cell.workflow_hash is None and isinstance(cell.mailbox, deque):
        # A cell that has not ticked yet still begins with the state it was given.
        cell.mailbox[0] = cell.mailbox[0]._replace(init=init)


def cancel_requested(world: World, record: records.CellCancelRequested) -> None:
    """The cell is asked to cancel by an ordinary delivery."""
    stamped(world, record.stamp)
    cell = must(world, record.workflow, record.key)
    value = canon.encode(
        {
            "reason": record.reason,
            "principal": record.principal,
            "deadline_ns": record.deadline_ns,
        }
    )
    mail = Mail(
        seq=world.seq,
        index=0,
        schema=envelopes.CANCEL,
        arm=workflow_of(world, cell).arms[envelopes.CANCEL],
        parent=record.stamp.entropy,
        now_ns=record.stamp.now_ns,
        hops=0,
        value=value,
    )
    push(world, cell, mail)


def cell_failed(world: World, record: records.CellFailed) -> None:
    """The cell ended from outside its own code."""
    stamped(world, record.stamp)
    cell = must(world, record.workflow, record.key)
    unqueue(world, cell)
    cell.status = FAILED
    cell.last_seq = world.seq
    cell.mailbox = NO_MAIL
    unpin(world, cell)
