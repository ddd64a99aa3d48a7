"""Receipts: an executor's outcome in the form that the kernel settles by.

Local receipts that end in the same moment share signatures (04 section 4), sixteen one: each holds
its way to the root, 34 bytes a level, so more of them would sign less and write more (ADR 0028).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tallystick.errors import SchemaMismatch, TallyError
from tallystick.executors.base import Failed, Ok, Outcome
from tallystick.kernel.inputs import Receipt, Sample, Settle
from tallystick.kernel.settle import statement_of
from tallystick.model.catalogue import Effect
from tallystick.model.tuples import make
from tallystick.node.driver import Ticket
from tallystick.node.jobs import Published
from tallystick.values import canon
from tallystick.values.seal import KeyPair, seal_batch, usage_of

MESSAGE_MAX = 1024
SHARED_MAX: Final = 16


class Ended(NamedTuple):
    """A job that is over: what came of it, when, and what becomes durable with its receipt."""

    job: Published
    outcome: Outcome
    started_ns: int
    ended_ns: int
    blobs: Mapping[bytes, bytes]


def receipts_of(pair: KeyPair, ended: Sequence[Ended]) -> list[Receipt]:
    """Sealed receipts, one signature for each sixteen of them."""
    bare = [_fields(each) for each in ended]
    statements = [statement_of(make(Receipt, (*fields, _UNSEALED))) for fields in bare]
    seals: list[dict[str, Any]] = []
    for at in range(0, len(statements), SHARED_MAX):
        shared = statements[at : at + SHARED_MAX]
        seals += [pair.sign(shared[0])] if len(shared) == 1 else seal_batch(pair, shared)
    return [make(Receipt, (*fields, seal)) for fields, seal in zip(bare, seals, strict=True)]


def settling(ended: Ended, receipt: Receipt, sample: Sample) -> Ticket:
    """A receipt of this node on its way to the kernel, with what becomes durable beside it.

    The node has just signed it, so nobody needs to check the seal again; it waits on a full disk.
    """
    ticket = Ticket(make(Settle, (sample, receipt, True)))
    ticket.keep = True
    ticket.blobs = ended.blobs
    return ticket


_UNSEALED: Final[Mapping[str, Any]] = {}


def _fields(each: Ended) -> tuple[Any, ...]:
    """The fields of a receipt but for its seal, which is the last one."""
    job, given, started_ns, ended_ns, _ = each
    outcome = _counted(given)
    status, payload = _payload(job.catalogue.effects[job.effect], outcome)
    usage = outcome.usage if isinstance(outcome, Ok) else None
    done = (status, payload, job.executor, job.attempt, started_ns, ended_ns, usage)
    return (job.world, job.intent, job.effect, *done)


def _counted(outcome: Outcome) -> Outcome:
    """The outcome; one that used what cannot be counted is an error of its executor.

    A seal would refuse it, and with it all outcomes that share the seal.
    """
    if isinstance(outcome, Ok) and outcome.usage is not None:
        try:
            usage_of(outcome.usage)
        except SchemaMismatch as why:
            return misfit(why)
    return outcome


def _payload(effect: Effect, outcome: Outcome) -> tuple[str, bytes]:
    """Status and canonical payload; a value that does not fit is an error of the executor."""
    if isinstance(outcome, Ok):
        try:
            return "ok", effect.receipt.admit(outcome.value).bytes
        except SchemaMismatch as why:
            outcome = misfit(why)
    try:
        return "error", effect.error.admit(error_value(outcome)).bytes
    except SchemaMismatch as why:
        # Where even this does not fit, as the effect has errors of its own, the kernel says so.
        return "error", canon.encode(error_value(misfit(why)))


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
