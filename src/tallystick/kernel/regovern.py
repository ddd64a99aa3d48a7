"""Governance decided again: the input that a recorded decision came from (D2).

Seals are trusted as recorded; everything else is judged anew: who may, whether the rules of that
time were met, and whether anything was open.
A refusal for a stale base and a change by plan name inputs that are not on record; they are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tallystick.kernel import inputs
from tallystick.kernel.inputs import Govern, Sample
from tallystick.kernel.world import World
from tallystick.model.records import (
    ApplyRefused,
    Approved,
    BundleActivate,
    ProposalFailed,
    Proposed,
    Proved,
    ReceiptSettled,
    Record,
    Rejected,
    Shadowed,
    Stamp,
)

_OK: Final = "ok"
_GOVERNANCE: Final = "sys/governance."
_AGAIN: Final = "gov.not_quiescent"


def again(world: World, recorded: Sequence[Record]) -> Govern | None:
    """The input of a frame of governance; None when the frame is none, or does not tell it."""
    first = recorded[0]
    if type(first) is ReceiptSettled:
        return None  # nearly all that is asked about: what an executor said is no decision
    stamp = getattr(first, "stamp", None)
    if stamp is None:
        return None
    given: Any = _input(world, first, stamp)
    if given is None:
        return None
    asked = _asked(world, recorded)
    made: Govern = given if asked is None else given._replace(intent=asked)
    return made


def _asked(world: World, recorded: Sequence[Record]) -> bytes | None:
    """The intent by which a workflow asked for it; other receipts of the frame left a queue."""
    for record in recorded:
        if isinstance(record, ReceiptSettled) and record.status == _OK:
            intent = world.intents.get(record.intent)
            if intent is not None and intent.record.effect.startswith(_GOVERNANCE):
                return record.intent
    return None


# tidy: one case for each record.
def _input(world: World, first: Record, stamp: Stamp) -> Any:
    sample = Sample(stamp.now_ns, stamp.entropy)
    match first:
        case Proposed():
            fields = (first.base, first.bundle, first.manifest, first.patch)
            said = (first.summary, first.principal, first.description, first.rebased)
            return inputs.Propose(sample, *fields, {}, *said)
        case Shadowed():
            report = (first.proposal, first.report_hash, first.complete)
            return inputs.Shadow(sample, *report, {}, first.principal)
        case Proved():
            proof = (first.proposal, first.report_hash, first.verdicts)
            return inputs.Prove(sample, *proof, {}, first.principal)
        case Approved():
            who = (first.proposal, first.principal, "approve", first.report_hash)
            return inputs.Vote(sample, *who, first.comment, first.seal, _trusted(first.seal))
        case Rejected():
            no = (first.proposal, first.principal, "reject", None)
            return inputs.Vote(sample, *no, first.comment, first.seal, _trusted(first.seal))
        case ProposalFailed():
            why = (first.proposal, first.code, first.message)
            return inputs.Fail(sample, *why, first.principal)
        case ApplyRefused() if first.code == _AGAIN and first.proposal is not None:
            return _activate(world, sample, first.principal, first.proposal)
        case BundleActivate() if first.mode == "quiescent" and first.proposal is not None:
            return _activate(world, sample, first.principal, first.proposal)
    return None


def _activate(world: World, sample: Sample, principal: str, proposal: str) -> inputs.Activate:
    nothing = b""  # the proposal says which bundle
    to = (nothing, nothing, world.manifest)
    return inputs.Activate(sample, *to, {}, principal, proposal=proposal)


def _trusted(seal: Any) -> bool | None:
    return None if seal is None else True
