"""Continuations: the document that a receipt or a progress frame becomes for its cell.

It is built from the opening record and the settling record, when the tick needs it: opening a
world builds none.
"""

from __future__ import annotations

from typing import Any, Final

from tallystick.kernel.parts import Continuation, params_digest
from tallystick.model import envelopes
from tallystick.model.catalogue import Catalogue
from tallystick.model.records import IntentDenied, IntentOpened, ProgressNoted, ReceiptSettled
from tallystick.model.tuples import make
from tallystick.values import canon

_NO_HASH: Final = bytes(32)  # of an effect that nobody defined


def schema_of(came: ReceiptSettled | ProgressNoted) -> str:
    """The `sys/` schema under which a continuation is delivered."""
    if isinstance(came, ProgressNoted):
        return envelopes.PROGRESS
    return envelopes.REJECTED if came.status == "rejected" else envelopes.RECEIPT


# tidy: one value, all of its fields.
def plain(continuation: Continuation, seq: int, catalogue: Catalogue, payload: bytes) -> Any:
    """The plain value of a continuation: what decoding its document gives, without the bytes."""
    opened, _, waiter, came = continuation
    if isinstance(came, ProgressNoted) or came.status == "rejected":
        return canon.decode(document(continuation, seq, catalogue, payload))
    origin, issuer_ref = waiter
    _, workflow, workflow_hash, key, tick_seq, _ = origin
    effect = catalogue.effects.get(opened.effect)
    # The keys stand in canonical order, as the decoder would have met them.
    return {
        "effect": opened.effect,
        "status": {"$tag": came.status},
        "attempt": came.attempt,
        "cost_cents": None if came.usage is None else came.usage.get("cents"),
        "issuer_ref": issuer_ref,
        "effect_hash": "sha256:" + (opened.effect_hash or _NO_HASH).hex(),
        "intent_hash": "sha256:" + opened.intent.hex(),
        "params_hash": "sha256:" + params_digest(opened).hex(),
        "emitted_at_seq": tick_seq,
        "settled_at_seq": seq,
        "executor_module": None if effect is None else effect.module,
        "origin_workflow": workflow,
        "receipt_payload": payload,
        "executor_entrypoint": None if effect is None else effect.entrypoint,
        "origin_instance_key": key or None,
        "executor_module_hash": None if effect is None else effect.module_hash_text,
        "origin_workflow_hash": "sha256:" + workflow_hash.hex(),
    }


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
    fields = (
        origin.workflow,
        canon.text_of(origin.workflow_hash),
        origin.key or None,
        canon.text_of(opened.intent),
        opened.effect,
        canon.text_of(opened.effect_hash or _NO_HASH),
        None if effect is None else effect.module,
        None if effect is None else effect.module_hash_text,
        None if effect is None else effect.entrypoint,
        canon.text_of(params_digest(opened)),
        issuer_ref,
        origin.tick_seq,
    )
    return make(envelopes.Asked, fields)
