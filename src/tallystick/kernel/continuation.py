"""Continuations: the document that a receipt or a progress frame becomes for its cell.

It is built from the opening record and the settling record, when the tick needs it: opening a
world builds none.
"""

from __future__ import annotations

from typing import Any

from tallystick.kernel.parts import Continuation, params_digest
from tallystick.model import envelopes
from tallystick.model.catalogue import Catalogue
from tallystick.model.records import IntentDenied, IntentOpened, ProgressNoted, ReceiptSettled
from tallystick.model.tuples import make
from tallystick.values import canon


def schema_of(came: ReceiptSettled | ProgressNoted) -> str:
    """The `sys/` schema under which a continuation is delivered."""
    if isinstance(came, ProgressNoted):
        return envelopes.PROGRESS
    return envelopes.REJECTED if came.status == "rejected" else envelopes.RECEIPT


def plain(continuation: Continuation, seq: int, catalogue: Catalogue, payload: bytes) -> Any:
    """The plain value of a continuation: equal to decoding its document, without the bytes."""
    came = continuation.came
    if isinstance(came, ProgressNoted) or came.status == "rejected":
        return canon.decode(document(continuation, seq, catalogue, payload))
    cents = None if came.usage is None else came.usage.get("cents")
    receipt = make(envelopes.Receipt, (came.status, payload, seq, came.attempt, cents))
    return envelopes.receipt_value(_asked(continuation, catalogue), receipt)


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
    origin, issuer_ref = continuation.waiter
    # A denial may name an effect that nobody defined: then there is no executor to name.
    effect = catalogue.effects.get(opened.effect)
    effect_hash = opened.effect_hash
    fields = (
        origin.workflow,
        "sha256:" + origin.workflow_hash.hex(),
        origin.key or None,
        "sha256:" + opened.intent.hex(),
        opened.effect,
        "sha256:" + (bytes(32) if effect_hash is None else effect_hash).hex(),
        None if effect is None else effect.module,
        None if effect is None else effect.module_hash_text,
        None if effect is None else effect.entrypoint,
        "sha256:" + params_digest(opened).hex(),
        issuer_ref,
        origin.tick_seq,
    )
    return make(envelopes.Asked, fields)
