"""Continuations: the document that a receipt or a progress frame becomes for its cell.

It is built from the opening record and the settling record, when the tick needs it: opening a
world builds none.
"""

from __future__ import annotations

from tallystick.kernel.parts import Continuation, params_digest
from tallystick.model import envelopes
from tallystick.model.catalogue import Catalogue
from tallystick.model.records import IntentDenied, IntentOpened, ProgressNoted, ReceiptSettled
from tallystick.values import canon


def schema_of(came: ReceiptSettled | ProgressNoted) -> str:
    """The `sys/` schema under which a continuation is delivered."""
    if isinstance(came, ProgressNoted):
        return envelopes.PROGRESS
    return envelopes.REJECTED if came.status == "rejected" else envelopes.RECEIPT


def document(continuation: Continuation, seq: int, catalogue: Catalogue, payload: bytes) -> bytes:
    """The canonical document of a continuation that was recorded at `seq`."""
    asked = _asked(continuation, catalogue)
    came = continuation.came
    if isinstance(came, ProgressNoted):
        frame = envelopes.Frame(came.attempt, came.seq, came.frame_kind, payload, None)
        return envelopes.progress_document(asked, frame)
    if came.status == "rejected":
        error = came.error or {"code": "", "message": ""}
        rejection = envelopes.Rejection(
            "rejected",
            error["code"],
            error["message"],
            canon.hash_of(payload),
            len(payload),
        )
        return envelopes.rejection_document(asked, rejection)
    cents = None if came.usage is None else came.usage.get("cents")
    receipt = envelopes.Receipt(came.status, payload, seq, came.attempt, cents)
    return envelopes.receipt_document(asked, receipt)


def _asked(continuation: Continuation, catalogue: Catalogue) -> envelopes.Asked:
    opened: IntentOpened | IntentDenied = continuation.opened
    waiter = continuation.waiter
    origin = waiter.origin
    # A denial may name an effect that nobody defined: then there is no executor to name.
    effect = catalogue.effects.get(opened.effect)
    effect_hash = opened.effect_hash
    return envelopes.Asked(
        origin_workflow=origin.workflow,
        origin_workflow_hash=canon.text_of(origin.workflow_hash),
        origin_instance_key=origin.key or None,
        intent_hash=canon.text_of(opened.intent),
        effect=opened.effect,
        effect_hash=canon.text_of(bytes(32) if effect_hash is None else effect_hash),
        executor_module=None if effect is None else effect.module,
        executor_module_hash=None if effect is None else effect.module_hash_text,
        executor_entrypoint=None if effect is None else effect.entrypoint,
        params_hash=canon.text_of(params_digest(opened)),
        issuer_ref=waiter.issuer_ref,
        emitted_at_seq=origin.tick_seq,
    )
