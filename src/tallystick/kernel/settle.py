"""Settlement: what a receipt must be before it may end an intent (K-11, K-13, K-15..K-18).

In order: this world, a known intent, an open one, the current attempt, a good seal by a trusted
key, and a payload that fits.
What fails before the seal leaves evidence and nothing else; an unreadable payload settles the
intent and hurts its own cell alone.
"""

# tidy: the order of the questions is the rule, so they stand on one page.
from __future__ import annotations

from typing import Final, NamedTuple

from tallystick.authority.denial import Denial
from tallystick.errors import NotCanonical, ReceiptFault, SchemaMismatch
from tallystick.kernel import receipts
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.drain import next_release_ns
from tallystick.kernel.ending import End, end_cell
from tallystick.kernel.fold_effects import timer_of
from tallystick.kernel.inputs import Clock, Progress, Receipt, Settle
from tallystick.kernel.parts import (
    CALL,
    CANCEL,
    KERNEL,
    PLAY_STEP,
    READ,
    SPAWN,
    TIMER,
    WHATIF,
    Intent,
)
from tallystick.kernel.pins import workflow_of
from tallystick.kernel.world import World
from tallystick.model import envelopes
from tallystick.model.catalogue import Effect
from tallystick.model.cells import FAILED, CellId
from tallystick.model.records import (
    Address,
    CellFailed,
    Dropped,
    ProgressNoted,
    ReceiptSettled,
    Stamp,
)
from tallystick.model.tuples import make
from tallystick.values import canon, seal

DROPS_MAX: Final = 16
CLOCK_MAX: Final = 256
# The kernel settles these itself: no seal can fire a timer early or answer for a child (I25).
_FILE_READ: Final = "sys/file.read@1"
OWN: Final = frozenset({TIMER, SPAWN, CALL, READ, CANCEL})


def settle_receipt(world: World, given: Settle) -> Frame:
    """Settle an intent by a sealed receipt, or leave evidence that it did not."""
    sample, receipt, _ = given
    draft = Draft(world)
    stamp = draft.stamp(sample)
    intent = world.intents.get(receipt.intent)
    reason = _refusal(world, given, intent)
    if reason is not None:
        source = receipt.executor[:200]
        refused = Refused("receipt", reason, receipt.intent, receipt.payload, source)
        return drop(draft, stamp, refused)
    assert intent is not None, "the questions above have found it open"
    return settled_by(draft, stamp, intent, receipt)


def settled_by(draft: Draft, stamp: Stamp, intent: Intent, receipt: Receipt) -> Frame:
    """The frame in which a receipt settles its intent, readable or not."""
    world, opened = draft.world, intent.record
    effect = world.catalogue(intent.manifest).effects[opened.effect]
    origin = opened.origin
    asker = receipts.asker_of(world, origin)
    try:
        _check_size(world, asker, receipt.payload)
        payload = _readable(world, effect, receipt)
    except ReceiptFault as why:
        _reject(draft, stamp, intent, receipt, why)
    else:
        said = receipts.outcome_for(draft, asker, origin.tick_seq, envelopes.RECEIPT)
        draft.close(_record(draft, stamp, intent, receipt, (receipt.status, payload, said)))
    return draft.frame(make(Answer, ("settled", world.seq + 1, None, None)))


# ---- the questions --------------------------------------------------------------------------


def _refusal(world: World, given: Settle, intent: Intent | None) -> str | None:
    _, receipt, good = given
    of_world, ident, effect, _, _, executor, attempt, _, _, _, sealed = receipt
    if of_world != world.id:
        return "foreign_world"
    if intent is None:
        return _why_closed(world, ident)
    if attempt != intent.attempt:
        return "stale_attempt"
    opened = intent.record
    asked = opened.effect
    key_id = sealed.get("key")
    trust = world.keys.get(key_id) if type(key_id) is str else None
    if trust is None or executor == KERNEL or asked in OWN:
        return "untrusted_key"
    if not trust.counts_for(executor, asked):
        return "untrusted_key"
    if executor != opened.executor or effect != asked:
        return "bad_seal"
    if good is None:
        good = seal.verify(trust.public_key, statement_of(receipt), dict(sealed))
    return None if good else "bad_seal"


def _why_closed(world: World, intent: bytes) -> str:
    status = world.recent.get(intent)
    if status is None:
        return "unknown"
    return "late" if status in ("timeout", "cancelled") else "duplicate"


def statement_of(receipt: Receipt) -> bytes:
    """The statement that the seal of a receipt covers."""
    return seal.receipt_statement(
        world=receipt.world,
        intent=canon.text_of(receipt.intent),
        effect=receipt.effect,
        status=receipt.status,
        payload_hash=canon.hash_of(receipt.payload),
        executor=receipt.executor,
        attempt=receipt.attempt,
        started_ns=receipt.started_ns,
        ended_ns=receipt.ended_ns,
        usage=receipt.usage,
    )


def _bytes_max(world: World, asker: receipts.Asker) -> int:
    """How large a payload may be for the workflow that asked: it may have narrowed the limit."""
    _, workflow = asker
    limits = world.active.catalogue.limits if workflow is None else workflow.limits
    return limits.receipt_bytes_max


def _check_size(world: World, asker: receipts.Asker, payload: bytes) -> None:
    most = _bytes_max(world, asker)
    if len(payload) > most:
        message = f"payload has {len(payload)} bytes, over {most}"
        raise ReceiptFault(message, code="receipt_bytes_max")


def _readable(world: World, effect: Effect, receipt: Receipt) -> bytes:
    """The payload in canonical form under the schema that its status asks for (K-11)."""
    status, payload = receipt.status, receipt.payload
    if status == "ok":
        schema = effect.receipt
    elif status == "error":
        schema = effect.error
    else:
        message = f"an executor cannot say {status!r}"
        raise ReceiptFault(message, code="receipt.bad_status")
    try:
        plain = schema.plain(payload)
    except (NotCanonical, SchemaMismatch) as why:
        raise ReceiptFault(why.message) from why
    if effect.name == PLAY_STEP:
        schema.hand_on(payload, plain)  # the tick that it leads to reads it again
    # Our own modules read it later, and what was never here must not look like lost then.
    ref = plain["ref"] if effect.name == _FILE_READ and status == "ok" else None
    if ref is not None and world.blobs.get(canon.raw_of(ref)) is None:
        raise ReceiptFault(f"no blob {ref} came with it", code="receipt.blob_missing")
    return payload


# ---- the outcomes ---------------------------------------------------------------------------


def _reject(
    draft: Draft, stamp: Stamp, intent: Intent, receipt: Receipt, why: ReceiptFault
) -> None:
    """An unreadable receipt settles its intent; without an arm its cell fails (K-16..K-18)."""
    origin = intent.record.origin
    asker = receipts.asker_of(draft.world, origin)
    outcome = receipts.outcome_for(draft, asker, origin.tick_seq, envelopes.REJECTED)
    if outcome == "no_arm":
        outcome = "cell_failed"
    # What cannot be read may also be too large to keep: evidence is bounded like any value.
    kept = receipt.payload[: _bytes_max(draft.world, asker)]
    record = _record(draft, stamp, intent, receipt, ("rejected", kept, outcome))
    draft.close(record._replace(error={"code": why.code, "message": why.message[:1024]}))
    if outcome == "cell_failed":
        fail_cell(draft, CellId(origin.workflow, origin.key), KERNEL, "unreadable receipt", None)


def fail_cell(
    draft: Draft, ident: CellId, principal: str, reason: str, stamp: Stamp | None
) -> None:
    """Fail a cell from outside its own code, and end it."""
    cell = draft.world.cell(ident)
    assert cell is not None, "only an existing cell is failed"
    draft.add(CellFailed(ident.workflow, ident.key, principal, reason, stamp))
    workflow = workflow_of(draft.world, cell)
    code = "receipt_unreadable" if principal == KERNEL else "cancelled"
    end_cell(draft, workflow, cell, End(FAILED, None, code, reason))


# tidy: one record, all of its fields.
def _record(
    draft: Draft,
    stamp: Stamp,
    intent: Intent,
    receipt: Receipt,
    outcome: tuple[str, bytes, str],
) -> ReceiptSettled:
    status, payload, said = outcome
    _, ident, _, _, _, executor, attempt, started_ns, ended_ns, usage, sealed = receipt
    inline, by_hash = draft.store(payload)
    to: tuple[Address, ...] = ()
    if said == "delivered" or said == "rejected_delivered":  # noqa: PLR1714 - the first nearly always
        origin = intent.record.origin
        to = (make(Address, (origin.workflow, origin.key)),)
        if intent.more:
            to *= 1 + len(intent.more)
    fields = (
        ident,
        status,
        "executor" if sealed else WHATIF,
        executor,
        attempt,
        started_ns,
        ended_ns,
        to,
        said,
        inline,
        by_hash,
        None if usage is None else dict(usage),
        dict(sealed) or None,
        sealed.get("key"),
        stamp,
        None,
    )
    return make(ReceiptSettled, fields)


class Refused(NamedTuple):
    """Something that changes nothing: what it was, why, for which intent, and from whom."""

    what: str
    reason: str
    intent: bytes
    payload: bytes
    source: str


def drop(draft: Draft, stamp: Stamp, refused: Refused) -> Frame:
    """Leave evidence; at most 16 per intent and reason, unknown intents counting as one (02)."""
    world = draft.world
    intent, reason = refused.intent, refused.reason
    known = world.intents.get(intent) is not None or intent in world.recent
    if world.drops.get(intent if known else b"", {}).get(reason, 0) >= DROPS_MAX:
        return draft.frame(Answer("suppressed", world.seq, None, reason))
    draft.add(
        Dropped(
            what=refused.what,
            reason=reason,
            intent=intent if known else None,
            digest=canon.digest_of(refused.payload),
            size=len(refused.payload),
            source=refused.source,
            stamp=stamp,
        )
    )
    return draft.frame(Answer("dropped", world.seq + 1, None, reason))


# ---- progress -------------------------------------------------------------------------------


def note_progress(world: World, given: Progress) -> Frame:
    """Take a progress frame: deliver it if an arm asks for it; it settles nothing (K-27)."""
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    reason = _progress_refusal(world, given)
    if reason is not None:
        refused = Refused("progress", reason, given.intent, given.payload, "executor")
        return drop(draft, stamp, refused)
    intent = world.intents.get(given.intent)
    assert intent is not None, "the questions above have found it open"
    if receipts.outcome_of(draft, intent.record.origin, envelopes.PROGRESS) != "delivered":
        return draft.frame(Answer("live", world.seq))
    missed = given.seq - intent.progress - 1
    draft.add(
        ProgressNoted(
            intent=given.intent,
            attempt=given.attempt,
            seq=given.seq,
            frame_kind=given.kind,
            payload=given.payload,
            gap=missed or None,
            stamp=stamp,
        )
    )
    return draft.frame(Answer("noted", world.seq + 1))


def _progress_refusal(world: World, given: Progress) -> str | None:
    if given.world != world.id:
        return "foreign_world"
    intent = world.intents.get(given.intent)
    if intent is None:
        return "after_terminal" if given.intent in world.recent else "unknown"
    if given.attempt != intent.attempt:
        return "stale_attempt"
    if given.seal is not None and not _progress_sealed(world, given, intent):
        return "bad_seal"
    if given.seq <= intent.progress:
        return "non_monotonic"
    return None


def _progress_sealed(world: World, given: Progress, intent: Intent) -> bool:
    assert given.seal is not None, "only a seal that is there is checked"
    trust = world.keys.get(str(given.seal.get("key")))
    if trust is None or not trust.counts_for(intent.record.executor, intent.record.effect):
        return False
    statement = seal.progress_statement(
        world=given.world,
        intent=canon.text_of(given.intent),
        attempt=given.attempt,
        seq=given.seq,
        kind=given.kind,
        payload_hash=canon.hash_of(given.payload),
    )
    return seal.verify(trust.public_key, statement, dict(given.seal))


# ---- time -----------------------------------------------------------------------------------


def pass_time(world: World, given: Clock) -> Frame:
    """Settle the timers and timeouts that are due, a bounded number per frame (X-10, X-14)."""
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    for _, ident in world.timers.due(stamp.logical_ns, CLOCK_MAX):
        intent = world.intents.get(ident)
        assert intent is not None, "what is due is open"
        _due(draft, stamp, intent)
    return draft.frame(Answer("clock", draft.seq, None, len(draft.settled)))


def _due(draft: Draft, stamp: Stamp, intent: Intent) -> None:
    record = intent.record
    limit_ns = record.timeout_at_ns
    # Which of two ends comes first is said in the record, so a late look gives the same answer.
    if intent.hold is not None and intent.hold["kind"] == "approval":
        expires_ns = intent.hold["detail"].get("expires_ns")
        if expires_ns is not None and (limit_ns is None or expires_ns <= limit_ns):
            message = f"nobody decided before {expires_ns}"
            denial = Denial("policy", "policy.approval_expired", message)
            receipts.deny(draft, record, denial, stamp)
            return
    if record.effect == TIMER and intent.hold is None:
        params = timer_of(draft.world, record)
        if limit_ns is None or params["deliver_at_ns"] <= limit_ns:
            payload = canon.encode({"delivered_at_ns": stamp.logical_ns, "key": params["key"]})
            receipts.settle(draft, record, "ok", payload, stamp=stamp)
            return
    message = f"no receipt before {record.timeout_at_ns}"
    payload = receipts.error_payload("timeout", "effect.timeout", message, retryable=True)
    receipts.settle(draft, record, "timeout", payload, stamp=stamp)


def next_due_ns(world: World) -> int | None:
    """When the next timer or timeout is due; the node sends a Clock input then."""
    first = world.timers.first()
    due = None if first is None else first[0]
    if world.levels.queue:
        room = next_release_ns(world)
        return due if room is None else room if due is None else min(due, room)
    return due
