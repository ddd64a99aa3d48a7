"""Envelopes that only the kernel makes: receipts, rejections, progress, context (02 section 5).

A receipt is delivered for every effect, so its document is joined from encoded pieces instead of
being walked through a schema; a test admits each under its `sys/` schema to prove them equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tallystick.values import canon

RECEIPT: Final = "sys/EffectReceiptEnvelope@1"
REJECTED: Final = "sys/EffectReceiptRejected@1"
PROGRESS: Final = "sys/EffectStreamFrame@1"
CANCEL: Final = "sys/CancelRequested@1"
FAULT: Final = "sys/WorkflowFault@1"
COMPLETED: Final = "sys/WorkflowCompleted@1"
CONTEXT: Final = "sys/WorkflowContext@1"

_NULL: Final = b"\xf6"
_TAG: Final = canon.head(5, 2) + canon.put_key("$tag")
_VALUE: Final = canon.put_key("$value")
_UNIT: Final = canon.head(5, 1) + canon.put_key("$tag")


def wrap(arm: str, document: bytes) -> bytes:
    """A document as the arm of a variant."""
    return b"".join((canon.PREFIX, _TAG, canon.put_key(arm), _VALUE, document[3:]))


class Asked(NamedTuple):
    """The common prefix of every continuation: who asked for what, where and when."""

    origin_workflow: str
    origin_workflow_hash: str
    origin_instance_key: bytes | None
    intent_hash: str
    effect: str
    effect_hash: str
    executor_module: str | None
    executor_module_hash: str | None
    executor_entrypoint: str | None
    params_hash: str
    issuer_ref: str | None
    emitted_at_seq: int


class Receipt(NamedTuple):
    """What a settled effect adds."""

    status: str
    receipt_payload: bytes
    settled_at_seq: int
    attempt: int
    cost_cents: int | None


class Rejection(NamedTuple):
    """What an unreadable receipt adds."""

    status: str
    error_code: str
    error_message: str
    payload_hash: str
    payload_size: int


class Frame(NamedTuple):
    """What a progress frame adds."""

    attempt: int
    seq: int
    kind: str
    payload: bytes
    payload_ref: str | None


class Ended(NamedTuple):
    """`sys/WorkflowCompleted@1`: a cell ended, with its result or its reason."""

    workflow: str
    key: bytes | None
    status: str
    result: bytes | None
    code: str | None
    message: str | None
    born_seq: int
    ended_seq: int


class Context(NamedTuple):
    """`sys/WorkflowContext@1`: all that a tick may know of time, chance and place."""

    now_ns: int
    logical_now_ns: int
    journal_height: int
    entropy: bytes
    event_hash: str
    manifest_hash: str
    workflow: str
    workflow_hash: str | None
    key: bytes | None
    cell_mode: bool
    world: str
    event_seq: int
    state_version: int


def _put_tag(value: str) -> bytes:
    return _UNIT + canon.put_key(value)


def _put_flag(value: bool) -> bytes:
    return b"\xf5" if value else b"\xf4"


Put = Callable[[Any], bytes]

# The encoder of every field name of the envelopes.
_PUT: Final[dict[str, Put]] = {
    "origin_workflow": canon.put_key,
    "origin_workflow_hash": canon.put_text,
    "origin_instance_key": canon.put_bytes,
    "intent_hash": canon.put_text,
    "effect": canon.put_key,
    "effect_hash": canon.put_text,
    "executor_module": canon.put_key,
    "executor_module_hash": canon.put_text,
    "executor_entrypoint": canon.put_key,
    "params_hash": canon.put_text,
    "issuer_ref": canon.put_text,
    "emitted_at_seq": canon.put_int,
    "status": _put_tag,
    "receipt_payload": canon.put_bytes,
    "settled_at_seq": canon.put_int,
    "attempt": canon.put_int,
    "cost_cents": canon.put_int,
    "error_code": canon.put_text,
    "error_message": canon.put_text,
    "payload_hash": canon.put_text,
    "payload_size": canon.put_int,
    "seq": canon.put_int,
    "kind": canon.put_text,
    "payload": canon.put_bytes,
    "payload_ref": canon.put_text,
    "result": canon.put_bytes,
    "code": canon.put_text,
    "message": canon.put_text,
    "born_seq": canon.put_int,
    "ended_seq": canon.put_int,
    "now_ns": canon.put_int,
    "logical_now_ns": canon.put_int,
    "journal_height": canon.put_int,
    "entropy": canon.put_bytes,
    "event_hash": canon.put_text,
    "manifest_hash": canon.put_text,
    "workflow": canon.put_key,
    "workflow_hash": canon.put_text,
    "key": canon.put_bytes,
    "cell_mode": _put_flag,
    "world": canon.put_text,
    "event_seq": canon.put_int,
    "state_version": canon.put_int,
}


def _join(*parts: Any) -> Callable[..., bytes]:
    """A document builder for tuples whose fields make one record; None is null."""
    names = [(i, j, name) for i, part in enumerate(parts) for j, name in enumerate(part._fields)]
    order = sorted((canon.put_key(name), i, j, _PUT[name]) for i, j, name in names)
    start = canon.PREFIX + canon.head(5, len(order))

    def build(*values: Any) -> bytes:
        out = [start]
        for key, i, j, put in order:
            value = values[i][j]
            out.append(key)
            out.append(_NULL if value is None else put(value))
        return b"".join(out)

    return build


receipt_document: Final = _join(Asked, Receipt)
rejection_document: Final = _join(Asked, Rejection)
progress_document: Final = _join(Asked, Frame)
context_document: Final = _join(Context)
_walked_ended: Final = _join(Ended)

_COMPLETED: Final = (
    canon.PREFIX + canon.head(5, 8) + canon.put_key("key"),
    canon.put_key("code") + _NULL + canon.put_key("result"),
    canon.put_key("status") + _put_tag("completed") + canon.put_key("message") + _NULL
    + canon.put_key("born_seq"),
    canon.put_key("workflow"),
    canon.put_key("ended_seq"),
)  # fmt: skip


# The fields of `Ended`, without their names.
_Ended = tuple[str, bytes | None, str, bytes | None, str | None, str | None, int, int]


def ended_document(ended: _Ended) -> bytes:
    """The document of an end; that of a good one is joined from larger pieces."""
    workflow, key, status, result, code, message, born_seq, ended_seq = ended
    if status != "completed" or code is not None or message is not None:
        return _walked_ended(ended)
    opening, before_result, before_born, before_workflow, before_ended = _COMPLETED
    return b"".join(
        (
            opening,
            _NULL if key is None else canon.OCTETS[len(key)] + key,
            before_result,
            _NULL if result is None else canon.OCTETS[len(result)] + result,
            before_born,
            canon.NUMBERS[born_seq],
            before_workflow,
            canon.NAMES[workflow],
            before_ended,
            canon.NUMBERS[ended_seq],
        )
    )
