"""Defects of intents, receipts, forks and activation."""

from __future__ import annotations

from tallystick.kernel import admit, fold_effects, quiescence, settle
from tallystick.kernel.draft import Answer, Draft
from tallystick.kernel.fold_mail import must
from tallystick.model.effects import intent_by_key
from tallystick.model.records import ReceiptSettled
from tests.simulation.planted.swap import swapped

_settle_receipt = settle.settle_receipt
_close = fold_effects._close
_deliver = fold_effects._deliver
_named = quiescence.named


def _settles_again(*statuses):
    """A receipt for an intent that has settled so is taken once more."""
    # tidy: one defect in two places, which must fit each other.

    def settle_receipt(world, given):
        receipt = given.receipt
        if world.recent.get(receipt.intent) not in statuses or receipt.world != world.id:
            return _settle_receipt(world, given)
        draft = Draft(world)
        draft.add(
            ReceiptSettled(
                intent=receipt.intent,
                status=receipt.status,
                source="executor",
                executor=receipt.executor,
                attempt=receipt.attempt,
                started_ns=receipt.started_ns,
                ended_ns=receipt.ended_ns,
                to=(),
                outcome="no_arm",
                payload=receipt.payload,
                seal=dict(receipt.seal),
                key_id=receipt.seal["key"],
                stamp=draft.stamp(given.sample),
            )
        )
        return draft.frame(Answer("settled", world.seq + 1))

    def close(world, record):
        known = world.intents.get(record.intent) is not None
        return _close(world, record) if known else (None, [])

    return swapped((settle, "settle_receipt", settle_receipt), (fold_effects, "_close", close))


def duplicate_receipt_settles_twice():
    return _settles_again("ok")


def late_receipt_after_cancel_settles():
    return _settles_again("cancelled")


def receipt_routed_by_table():
    def deliver(world, cell, schema, came):
        _, first = next(iter(world.cells[cell.id.workflow].entries()))
        _deliver(world, must(world, *first.id), schema, came)

    return swapped((fold_effects, "_deliver", deliver))


def intent_id_without_key():
    def nameless(asker, effect, key):
        return intent_by_key(asker._replace(key=b""), effect, key)

    return swapped((admit, "intent_by_key", nameless))


def fork_redispatches():
    return swapped((fold_effects, "hold_all", lambda _world, _kind, _modes: None))


def apply_ignores_open_intents():
    def named(world, *most):
        first, _ = _named(world, *most)
        kept = [
            blocker
            for blocker in first
            if blocker.kind != "intent_open" and blocker.detail.get("status") != "waiting"
        ]
        return kept, len(kept)

    return swapped((quiescence, "named", named))


DEFECTS = {
    "duplicate receipt settles twice": duplicate_receipt_settles_twice,
    "late receipt after cancel settles": late_receipt_after_cancel_settles,
    "receipt routed by table": receipt_routed_by_table,
    "intent id without key": intent_id_without_key,
    "fork re-dispatches": fork_redispatches,
    "apply ignores open intents": apply_ignores_open_intents,
}
