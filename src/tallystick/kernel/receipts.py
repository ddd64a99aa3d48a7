"""Receipts that the kernel makes itself: denials, timeouts, cancellations, internal effects.

They carry no seal; the frame chain covers them (01 section 7).
"""

from __future__ import annotations

from tallystick.authority.denial import Denial
from tallystick.kernel.draft import Draft
from tallystick.kernel.parts import KERNEL, Cell
from tallystick.kernel.pins import known_workflow
from tallystick.kernel.world import World
from tallystick.model import envelopes
from tallystick.model.catalogue import Workflow
from tallystick.model.cells import TERMINAL
from tallystick.model.records import (
    Address,
    IntentAttached,
    IntentDenied,
    IntentOpened,
    Origin,
    ReceiptSettled,
    Stamp,
)
from tallystick.values import canon

# The cell that asked for an effect and its workflow, as far as both are still known.
Asker = tuple[Cell | None, Workflow | None]


def asker_of(world: World, origin: Origin) -> Asker:
    """Who asked: what asks for an effect has ticked, so its cell is in the world or gone."""
    _, name, _, key, _, _ = origin
    cell = world.cell((name, key))
    return cell, None if cell is None else known_workflow(world, cell)


def outcome_of(draft: Draft, origin: Origin, schema: str = envelopes.RECEIPT) -> str:
    """What becomes of a continuation: delivered, or why not."""
    return outcome_for(draft, asker_of(draft.world, origin), origin.tick_seq, schema)


def outcome_for(draft: Draft, asker: Asker, tick_seq: int, schema: str) -> str:
    """The same for who asked at that tick."""
    cell, workflow = asker
    # A re-created cell inherits nothing from the one before (I19).
    if cell is None or workflow is None or cell.born_seq > tick_seq:
        return "terminal"
    ended = draft.ended
    if cell.status in TERMINAL or (ended and cell.id in ended):
        return "terminal"
    if schema not in workflow.arms:
        return "no_arm"
    return "rejected_delivered" if schema == envelopes.REJECTED else "delivered"


# tidy: one record, all of its fields.
def settle(
    draft: Draft,
    opened: IntentOpened | IntentDenied,
    status: str,
    payload: bytes,
    *,
    stamp: Stamp | None = None,
) -> None:
    """Settle an intent from the kernel, in this frame."""
    outcome = outcome_of(draft, opened.origin)
    now = stamp.logical_ns if stamp is not None else draft.world.logical_ns
    inline, by_hash = draft.store(payload)
    delivered = outcome == "delivered"
    draft.close(
        ReceiptSettled(
            intent=opened.intent,
            status=status,
            source=KERNEL,
            executor=KERNEL,
            attempt=attempt_of(draft, opened.intent),
            started_ns=now,
            ended_ns=now,
            payload=inline,
            payload_hash=by_hash,
            stamp=stamp,
            to=_addresses(draft, opened) if delivered else (),
            outcome=outcome,
        )
    )
    if isinstance(opened, IntentDenied):
        # A denial frees its key: asked again in this very tick, the same id may be open.
        draft.settled.pop(opened.intent, None)


def deny(draft: Draft, opened: IntentOpened, why: Denial, stamp: Stamp | None = None) -> None:
    """Settle an open intent as denied: it was held, and may not go out after all.

    The record says so in `error`: a denial without it belongs to a request that never opened.
    """
    settle(draft, opened, "denied", denial_payload(why), stamp=stamp)
    made = draft.records[-1]
    assert isinstance(made, ReceiptSettled), "settling ends with the receipt"
    draft.records[-1] = made._replace(error={"code": why.code, "message": why.message[:1024]})


def attempt_of(draft: Draft, intent: bytes) -> int:
    """The current attempt of an intent; one that opens in this frame is at its first."""
    known = draft.world.intents.get(intent)
    return 1 if known is None else known.attempt


def _addresses(draft: Draft, opened: IntentOpened | IntentDenied) -> tuple[Address, ...]:
    """Where a receipt goes: once to whoever asked, and once for each who attached to it."""
    count = 1
    if isinstance(opened, IntentOpened):
        known = draft.world.intents.get(opened.intent)
        count += 0 if known is None else len(known.more)
        if opened.idempotency_key is not None:  # only those may be asked for again, also right here
            joined = (r.intent for r in draft.records if isinstance(r, IntentAttached))
            count += sum(intent == opened.intent for intent in joined)
    return (Address(opened.origin.workflow, opened.origin.key),) * count


def error_payload(kind: str, code: str, message: str, *, retryable: bool = False) -> bytes:
    """A `sys/EffectError@1` as the kernel writes it."""
    return canon.encode(
        {
            "kind": kind,
            "code": code,
            "message": message,
            "retryable": retryable,
            "retry_after_ns": None,
            "details_ref": None,
        }
    )


def denial_payload(denied: IntentDenied | Denial) -> bytes:
    """A `sys/EffectDenial@1`: the rule that denied, as data the workflow can match on."""
    return canon.encode(
        {
            "code": denied.code,
            "stage": denied.stage,
            "message": denied.message,
            "rule": denied.rule,
            "path": denied.path,
            "retry_at_ns": None,
        }
    )


def cancel(draft: Draft, intent: bytes, code: str, stamp: Stamp | None = None) -> None:
    """Settle an open intent as cancelled."""
    opened = opened_record(draft, intent)
    payload = error_payload("cancelled", code, "the intent was cancelled")
    settle(draft, opened, "cancelled", payload, stamp=stamp)


def opened_record(draft: Draft, intent: bytes) -> IntentOpened:
    """The opening record of an intent that is open as of this point of the frame."""
    fresh = draft.opened.get(intent)
    if fresh is not None:
        return fresh
    known = draft.world.intents.get(intent)
    assert known is not None, "only an open intent is settled"
    return known.record
