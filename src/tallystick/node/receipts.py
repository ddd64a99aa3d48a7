"""Receipts: an executor's outcome in the form that the kernel settles by.

Local receipts that end in the same moment share one signature (04 section 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tallystick.errors import SchemaMismatch, TallyError
from tallystick.executors.base import Failed, Ok, Outcome
from tallystick.kernel.inputs import Receipt
from tallystick.kernel.settle import statement_of
from tallystick.model.catalogue import Effect
from tallystick.node.driver import Published
from tallystick.values.seal import KeyPair, seal_batch

MESSAGE_MAX = 1024


class Ended(NamedTuple):
    """A job that is over: what came of it, when, and what becomes durable with its receipt."""

    job: Published
    outcome: Outcome
    started_ns: int
    ended_ns: int
    blobs: Mapping[bytes, bytes]


def receipts_of(pair: KeyPair, ended: Sequence[Ended]) -> list[Receipt]:
    """Sealed receipts, one signature for all of them."""
    bare = [_receipt(each) for each in ended]
    statements = [statement_of(receipt) for receipt in bare]
    seals = [pair.sign(statements[0])] if len(bare) == 1 else seal_batch(pair, statements)
    return [receipt._replace(seal=seal) for receipt, seal in zip(bare, seals, strict=True)]


def _receipt(each: Ended) -> Receipt:
    job = each.job
    effect = job.catalogue.effects[job.effect]
    status, payload = _payload(effect, each.outcome)
    usage = each.outcome.usage if isinstance(each.outcome, Ok) else None
    return Receipt(
        world=job.world,
        intent=job.intent,
        effect=job.effect,
        status=status,
        payload=payload,
        executor=job.executor,
        attempt=job.attempt,
        started_ns=each.started_ns,
        ended_ns=each.ended_ns,
        usage=usage,
        seal={},
    )


def _payload(effect: Effect, outcome: Outcome) -> tuple[str, bytes]:
    """Status and canonical payload; a value that does not fit is an error of the executor."""
    if isinstance(outcome, Ok):
        try:
            return "ok", effect.receipt.admit(outcome.value).bytes
        except SchemaMismatch as why:
            outcome = misfit(why)
    return "error", effect.error.admit(error_value(outcome)).bytes


def misfit(why: TallyError) -> Failed:
    """The outcome of an executor whose value does not fit the receipt schema of its effect."""
    return Failed("schema", "effect.bad_receipt", f"the executor's value does not fit: {why}")


def error_value(failed: Failed) -> dict[str, Any]:
    """A failure as `sys/EffectError@1`."""
    return {
        "kind": failed.kind,
        "code": failed.code,
        "message": failed.message[:MESSAGE_MAX],
        "retryable": failed.retryable,
        "retry_after_ns": failed.retry_after_ns,
        "details_ref": failed.details_ref,
    }
