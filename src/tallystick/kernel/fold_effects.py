"""Folding, part three: intents, receipts and progress."""

from __future__ import annotations

from typing import Any, Final

from tallystick.kernel import continuation
from tallystick.kernel import fold_flows as flows
from tallystick.kernel.fold_mail import inherit, must, push, stamped
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.parts import (
    TIMER,
    UNSENT,
    Cell,
    Continuation,
    Intent,
    Keyed,
    Mail,
    Waiter,
    is_unsent,
    with_bond,
    without_bond,
)
from tallystick.kernel.pins import workflow_of
from tallystick.kernel.world import RECENT_MAX, World
from tallystick.model import records
from tallystick.model.envelopes import PROGRESS, RECEIPT, REJECTED
from tallystick.model.tuples import make
from tallystick.values import canon

# ---- intents and receipts -------------------------------------------------------------------


def opened(world: World, record: records.IntentOpened) -> None:
    """An intent is open: its cell waits for it, the calendar knows when it is due."""
    _, workflow, _, key, tick_seq, _ = record.origin
    cells = world.cells.get(workflow)
    cell = None if cells is None else cells.edit(key)
    # An intent keeps the effect and the receipt schema it was opened under (K-13).
    manifest = world.manifest if cell is None or cell.pin is None else cell.pin
    ident = record.intent
    intent = Intent(record, world.seq, manifest)
    if record.hold is not None:
        intent.due_ns = _held_until(record)
    elif record.effect == TIMER:
        intent.due_ns = ends_ns(world, record)
    world.intents.put(ident, intent)
    if record.flow is not None:
        flows.opened(world.levels, record, world.active.flows, world.logical_ns)
    if intent.due_ns is not None:
        world.timers.add(intent.due_ns, ident)
    if cell is not None:
        cell.inflight = with_bond(cell.inflight, ident) if cell.inflight else (ident,)
        # A key is remembered while its cell lives: not by the one that its own tick has reset.
        if record.idempotency_key is not None and cell.born_seq != tick_seq:
            cell.keyed = with_bond(cell.keyed, ident)
            world.keyed.put(ident, Keyed(record, world.seq, manifest))


def ends_ns(world: World, record: records.IntentOpened) -> int | None:
    """When an intent ends by itself: at its timeout, a timer at its time if that is sooner."""
    if record.effect != TIMER:
        return record.timeout_at_ns
    due_ns: int = timer_of(world, record)["deliver_at_ns"]
    limit_ns = record.timeout_at_ns
    return due_ns if limit_ns is None or due_ns <= limit_ns else limit_ns


def timer_of(world: World, record: records.IntentOpened) -> dict[str, Any]:
    """What a timer was asked with; its key may be so long that it stands by digest."""
    params = record.params
    if params is None:
        assert record.params_hash is not None, "parameters stand inline or by digest"
        params = read_blob(world.blobs, record.params_hash)
    found: dict[str, Any] = canon.decode(params)
    return found


def _held_until(record: records.IntentOpened) -> int | None:
    """When a held intent ends by itself: at its timeout, or when nobody approved it in time.

    A held timer does not fire: it is not out yet.
    """
    assert record.hold is not None, "only asked of a held one"
    ends = (record.timeout_at_ns, record.hold["detail"].get("expires_ns"))
    return min((end for end in ends if end is not None), default=None)


def attached(world: World, record: records.IntentAttached) -> None:
    """One more continuation is owed; for a settled key it is paid at once (D8)."""
    waiter = Waiter(record.origin, record.issuer_ref)
    intent = world.intents.edit(record.intent)
    if intent is not None:
        intent.more += (waiter,)
        return
    assert world.cause is not None, "only a tick asks"
    if world.cause[2]:
        return  # the tick that asked again has ended its cell
    known = world.keyed.get(record.intent)
    assert known is not None, "an attached key is remembered"
    assert known.settled is not None, "a key is open or settled"
    cell = must(world, record.origin.workflow, record.origin.key)
    schema = continuation.schema_of(known.settled)
    if schema not in workflow_of(world, cell).arms:
        return
    came = Continuation(known.opened, known.manifest, waiter, known.settled)
    _deliver(world, cell, schema, [came])


def denied(world: World, record: records.IntentDenied) -> None:
    """The receipt of a denial follows in the same frame."""
    world.denied.append(record)


def settled(world: World, record: records.ReceiptSettled) -> None:
    """An intent has its one terminal outcome."""
    stamp = record.stamp
    if stamp is not None:
        stamped(world, stamp)
    close = _refuse if record.status == "denied" and record.error is None else _close
    cell, came = close(world, record)
    if record.outcome in _DELIVERED:
        assert cell is not None, "nothing is delivered to a cell that is gone"
        schema = REJECTED if record.status == "rejected" else RECEIPT
        _deliver(world, cell, schema, came)


_DELIVERED: Final = frozenset({"delivered", "rejected_delivered"})
Owed = tuple[Cell | None, list[Continuation]]
"""The cell that asked, and what it is owed; None when it is gone."""


def _refuse(world: World, record: records.ReceiptSettled) -> Owed:
    """What was asked for and never opened is answered by its denial."""
    refused = world.denied.popleft()
    origin = refused.origin
    cell = world.edit_cell(origin.workflow, origin.key)
    manifest = world.manifest if cell is None or cell.pin is None else cell.pin
    return cell, [Continuation(refused, manifest, Waiter(origin, refused.issuer_ref), record)]


def _close(world: World, record: records.ReceiptSettled) -> Owed:
    """Take an intent out of the open ones; who waits for it is owed a continuation."""
    ident = record.intent
    intent = world.intents.take(ident)
    assert intent is not None, "only an open intent settles"
    if intent.due_ns is not None:
        world.timers.remove(intent.due_ns, ident)
    recent = world.recent
    recent[ident] = record.status
    if len(recent) > RECENT_MAX:
        # What is forgotten as settled is forgotten as evidence too, or it would only grow.
        forgotten, _ = recent.popitem(last=False)
        world.drops.pop(forgotten, None)
    opened = intent.record
    if opened.flow is not None:
        flows.settled(world.levels, intent, record, world.framed_seq)
    cells = world.cells.get(opened.origin.workflow)
    cell = None if cells is None else cells.edit(opened.origin.key)
    if cell is not None:
        cell.inflight = without_bond(cell.inflight, ident)
    if opened.idempotency_key is not None:
        _close_key(world, cell, record)
    return cell, _owed(intent, record)


def _close_key(world: World, cell: Cell | None, record: records.ReceiptSettled) -> None:
    """A key remembers its receipt; a denial frees it."""
    known = world.keyed.edit(record.intent)
    if known is not None and record.status == "denied":
        assert cell is not None, "a key goes with its cell"
        world.keyed.remove(record.intent)
        cell.keyed = without_bond(cell.keyed, record.intent)
    elif known is not None:
        known.settled = record
        known.settled_seq = world.seq


def _owed(
    intent: Intent, came: records.ReceiptSettled | records.ProgressNoted
) -> list[Continuation]:
    """The continuations that an intent owes: nearly always one."""
    opened, manifest = intent.record, intent.manifest
    first = make(Waiter, (opened.origin, opened.issuer_ref))
    owed = [make(Continuation, (opened, manifest, first, came))]
    if intent.more:
        owed += [make(Continuation, (opened, manifest, waiter, came)) for waiter in intent.more]
    return owed


def _deliver(world: World, cell: Cell, schema: str, came: list[Continuation]) -> None:
    """Put continuations into the mailbox of the cell that asked; no table is consulted (K-13)."""
    parent, now_ns, hops = inherit(world)
    arm = workflow_of(world, cell).arms.get(schema)
    for index, each in enumerate(came):
        fields = (
            world.seq, index, schema, arm, parent, now_ns, hops, None, None, None, each, None, None,
        )  # fmt: skip
        push(world, cell, make(Mail, fields))


def progress(world: World, record: records.ProgressNoted) -> None:
    """A progress frame goes to the cell; the intent stays open."""
    stamped(world, record.stamp)
    intent = world.intents.edit(record.intent)
    assert intent is not None, "progress is noted only for an open intent"
    intent.progress = record.seq
    origin = intent.record.origin
    cell = must(world, origin.workflow, origin.key)
    _deliver(world, cell, PROGRESS, _owed(intent, record))


def attempted(world: World, record: records.EffectAttempted) -> None:
    """Receipts of older attempts no longer settle."""
    stamped(world, record.stamp)
    intent = world.intents.edit(record.intent)
    assert intent is not None, "only an open intent is attempted again"
    intent.attempt = record.attempt
    intent.progress = 0


def released(world: World, record: records.IntentReleased) -> None:
    """A held intent may be published."""
    stamped(world, record.stamp)
    intent = world.intents.edit(record.intent)
    assert intent is not None, "only an open intent is released"
    unsent = is_unsent(intent.hold)
    if intent.record.flow is not None:
        flows.released(world.levels, intent, record, world.active.flows, world.logical_ns)
    intent.hold = None
    if record.cause == flows.QUEUED:
        intent.hold = {"kind": "capacity", "since_seq": world.seq, "detail": {}}
        _reschedule(world, intent, intent.record.timeout_at_ns)
    elif unsent:
        _reschedule(world, intent, ends_ns(world, intent.record))
    elif intent.record.effect == TIMER and intent.due_ns is not None:
        world.timers.add(intent.due_ns, record.intent)


def _reschedule(world: World, intent: Intent, due_ns: int | None) -> None:
    """From the end of its hold to its own: a timer's time, or the owner's timeout."""
    if intent.due_ns is not None:
        world.timers.remove(intent.due_ns, intent.record.intent)
    intent.due_ns = due_ns
    if due_ns is not None:
        world.timers.add(due_ns, intent.record.intent)


def approval(world: World, record: records.IntentApproval) -> None:
    """A vote is counted where it is asked for: in the hold."""
    stamped(world, record.stamp)
    intent = world.intents.edit(record.intent)
    assert intent is not None, "only an open intent is voted on"
    detail = intent.hold["detail"]
    votes = [*detail.get("votes", ()), record.principal]
    intent.hold = {**intent.hold, "detail": {**detail, "votes": votes}}


def hold_all(world: World, kind: str, modes: dict[str, Any]) -> None:
    """Hold every open intent whose effect the pending policy does not re-issue."""
    for path, _ in list(world.intents.entries()):
        intent = world.intents.edit(path)
        assert intent is not None, "an entry that is listed is there"
        mode = modes.get(intent.record.effect, modes["*"])
        before = None if intent.hold is None else intent.hold["kind"]
        # A fork is no way around an approval, which waits for people anyway.
        if mode != "suspend" or before == "approval":
            continue
        if before == "capacity":  # room alone would let it out, and nobody asked for that
            world.levels.unwait(intent.record.flow or (), flows.waiting(intent.record))
        detail = dict(UNSENT) if is_unsent(intent.hold) else None
        intent.hold = {"kind": kind, "since_seq": world.seq, "detail": detail}
        if intent.record.effect == TIMER and intent.due_ns is not None:
            world.timers.remove(intent.due_ns, path)
