"""Proposing, reporting, voting: how a change comes to be allowed (06 section 6).

What is judged here is judged by the rules in force, never by those that a proposal brings.
A refusal changes nothing; what is taken is one record, and with it the intent of a workflow that
asked for it is settled in the same frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.authority.approvals import key_of, may_act
from tallystick.errors import Conflict, Forbidden, Rejected, UnknownName
from tallystick.kernel import receipts
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.inputs import Fail, Propose, Prove, Shadow, Vote
from tallystick.kernel.load import load_bundle
from tallystick.kernel.proposals import FINAL, Proposal, Rules, ready, rules_of, status_of
from tallystick.kernel.world import World
from tallystick.model import records
from tallystick.model.records import Record, Stamp
from tallystick.values import canon, seal

APPROVE: Final = "approve"
REJECT: Final = "reject"


def rules_in_force(world: World) -> Rules:
    """The rules that every judgement here goes by."""
    return rules_of(world.active.catalogue.manifest)


def standing(world: World, proposal: Proposal) -> str:
    """Where a proposal of this world stands now."""
    return status_of(proposal, world.manifest, rules_in_force(world))


# tidy: four refusals and one record.
def propose(world: World, given: Propose) -> Frame:
    """Take a candidate; refuses one for another base, one that cannot be loaded, and no change."""
    check_scope(world, given.principal, "propose")
    where = {"base": canon.text_of(given.base), "active": canon.text_of(world.manifest)}
    if given.base != world.manifest:
        raise stale("the patch was made for another manifest", where)
    if given.manifest == world.manifest:
        hint = "this bundle runs already: propose another one"
        raise Conflict(
            "the candidate is what is active", code="gov.no_change", where=where, hint=hint
        )
    if world.proposals.full:
        message = "too many proposals wait"
        raise Conflict(message, code="gov.too_many", where=where, hint="reject some")
    load_bundle(given.manifest, given.blobs, world)
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    draft.blobs.update(given.blobs)
    ident = f"p-{world.seq + 1}"
    draft.add(
        records.Proposed(
            ident,
            given.base,
            given.bundle,
            given.manifest,
            given.patch,
            given.summary,
            given.principal,
            stamp,
            given.description,
            given.rebased,
        )
    )
    bundle = canon.text_of(given.bundle)
    settle_asked(draft, given.intent, {"proposal": ident, "bundle": bundle})
    return draft.frame(Answer("governed", world.seq + 1, None, {"proposal": ident}))


def shadowed(world: World, given: Shadow) -> Frame:
    """Keep a shadow's report; approvals of an older report are void, and the record says so."""
    check_scope(world, given.principal, "propose")
    proposal = live(world, given.proposal)
    voided = [vote.principal for vote in proposal.votes] or None

    def record(stamp: Stamp) -> Record:
        fields = (given.proposal, given.report_hash, given.complete, given.principal, stamp)
        return records.Shadowed(*fields, voided)

    answer = {"report_hash": canon.text_of(given.report_hash), "complete": given.complete}
    return _noted(world, given, record, answer)


def proved(world: World, given: Prove) -> Frame:
    """Keep the verdicts on the open cells."""
    check_scope(world, given.principal, "propose")
    live(world, given.proposal)

    def record(stamp: Stamp) -> Record:
        fields = (given.proposal, given.report_hash, given.verdicts, given.principal, stamp)
        return records.Proved(*fields)

    answer = {"report_hash": canon.text_of(given.report_hash), "verdicts": given.verdicts}
    return _noted(world, given, record, answer)


def _noted(world: World, given: Shadow | Prove, record: Any, answer: Mapping[str, Any]) -> Frame:
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    draft.blobs.update(given.blobs)
    draft.add(record(stamp))
    settle_asked(draft, given.intent, answer)
    return draft.frame(Answer("governed", world.seq + 1, None, dict(answer)))


def vote(world: World, given: Vote) -> Frame:
    """Count a yes, or end a proposal by one no."""
    check_scope(world, given.principal, APPROVE)
    if given.decision not in (APPROVE, REJECT):
        where = {"proposal": given.proposal, "path": "/decision"}
        message = f"{given.decision!r} is no decision"
        raise Rejected(message, code="gov.bad_decision", where=where)
    approves = given.decision == APPROVE
    # A stale proposal may still be rejected: that only tidies up.
    proposal = live(world, given.proposal) if approves else known(world, given.proposal)
    rules = rules_in_force(world)
    if approves:
        _check_approval(proposal, rules, given)
    _check_seal(world, proposal, rules, given)
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    made = None if given.seal is None else dict(given.seal)
    said = (given.comment, made)
    if approves:
        fields = (given.proposal, proposal.bundle, given.principal, stamp, proposal.report)
        draft.add(records.Approved(*fields, *said))
    else:
        draft.add(records.Rejected(given.proposal, given.principal, stamp, *said))
    count = len(proposal.votes) + 1 if approves else 0
    answer = {"decision": given.decision, "approvals": count, "needed": rules.approvals}
    settle_asked(draft, given.intent, answer)
    return draft.frame(Answer("governed", world.seq + 1, None, answer))


def fail(world: World, given: Fail) -> Frame:
    """End a proposal that cannot be applied; a new one is needed, never a retry."""
    known(world, given.proposal)
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    said = (given.code, given.message[:1024])
    draft.add(records.ProposalFailed(given.proposal, *said, given.principal, stamp))
    settle_asked(
        draft,
        given.intent,
        {
            "status": "failed",
            "manifest_hash": canon.text_of(world.manifest),
            "blockers": [],
            "code": given.code,
        },
    )
    return draft.frame(Answer("failed", world.seq + 1, None, {"code": given.code}))


# ---- what all of them ask -------------------------------------------------------------------


def known(world: World, ident: str) -> Proposal:
    """A proposal that is not over; refuses any other."""
    found = world.proposals.get(ident)
    if found is None:
        raise UnknownName(
            f"no proposal {ident} here",
            code="gov.unknown_proposal",
            where={"proposal": ident},
            hint="`tally gov ls` lists them",
        )
    if found.end in FINAL:
        raise Conflict(
            f"{ident} is {found.end}",
            code="gov.wrong_state",
            where={"proposal": ident, "state": found.end},
            hint="a new proposal is needed",
        )
    return found


def live(world: World, ident: str) -> Proposal:
    """As `known`, and made for the manifest that is active now."""
    found = known(world, ident)
    if found.base != world.manifest:
        where = {
            "proposal": ident,
            "base": canon.text_of(found.base),
            "active": canon.text_of(world.manifest),
        }
        raise stale(f"{ident} was made for another manifest", where)
    return found


def stale(message: str, where: Mapping[str, Any]) -> Conflict:
    """The refusal of what was made for a manifest that is no longer active."""
    hint = "`tally gov propose --rebase P` makes a new one for the active manifest"
    return Conflict(message, code="gov.stale_base", where=where, hint=hint)


def check_scope(world: World, principal: str, scope: str) -> None:
    """Refuse a principal whom the manifest in force does not give a scope."""
    principals = world.active.catalogue.manifest.get("governance", {}).get("principals", ())
    if not may_act(principal, scope, principals):
        raise Forbidden(
            f"{principal} has no scope {scope} in this world",
            code="auth.missing_scope",
            where={"principal": principal, "scope": scope},
            hint=f"the manifest's principals say who may {scope}",
        )


# tidy: four refusals, each with its words.
def _check_approval(proposal: Proposal, rules: Rules, given: Vote) -> None:
    where = {"proposal": proposal.id, "principal": given.principal}
    if not ready(proposal, rules):
        missing = "prove" if "shadow" not in rules.require or proposal.complete else "shadow"
        raise Conflict(
            f"{proposal.id} has no complete report of a {missing}",
            code=f"gov.needs_{missing}",
            where={**where, "require": list(rules.require)},
            hint=f"`tally gov {missing} {proposal.id}` makes one",
        )
    if given.report_hash is not None and given.report_hash != proposal.report:
        raise Conflict(
            "the report that was read is not the newest",
            code="gov.report_changed",
            where={**where, "report_hash": None if proposal.report is None else _text(proposal)},
            hint="read the newest report and decide again",
        )
    if given.principal == proposal.author and not rules.author_may_approve:
        raise Forbidden(
            f"{given.principal} proposed it and may not approve it",
            code="gov.author_may_not",
            where=where,
            hint="another principal must approve",
        )
    if any(each.principal == given.principal for each in proposal.votes):
        raise Conflict(
            f"{given.principal} has voted already",
            code="gov.voted_already",
            where=where,
            hint="another principal must approve",
        )


def _text(proposal: Proposal) -> str:
    assert proposal.report is not None, "looked at before"
    return canon.text_of(proposal.report)


def _check_seal(world: World, proposal: Proposal, rules: Rules, given: Vote) -> None:
    """A seal that is there must be the principal's over this decision; rules may ask for one."""
    where = {"proposal": proposal.id, "principal": given.principal}
    if given.seal is None:
        if rules.signed:
            raise Forbidden(
                "the rules ask for a sealed decision",
                code="gov.unsigned",
                where=where,
                hint="seal `approval@1` with the key of the principal",
            )
        return
    good = given.seal_ok
    if good is None:
        good = _sealed(world, proposal, given, given.seal)
    if not good:
        raise Forbidden(
            "the seal is not one of this principal over this decision",
            code="gov.bad_seal",
            where=where,
            hint="seal `approval@1` of world, proposal, bundle and report with the registered key",
        )


def _sealed(world: World, proposal: Proposal, given: Vote, made: Mapping[str, Any]) -> bool:
    governance = world.active.catalogue.manifest.get("governance", {})
    public = key_of(given.principal, governance.get("principals", ()))
    at_ns = made.get("at_ns")
    if public is None or type(at_ns) is not int:
        return False
    statement = seal.approval_statement(
        world=world.id,
        proposal=proposal.id,
        bundle=canon.text_of(proposal.bundle),
        report_hash=None if proposal.report is None else canon.text_of(proposal.report),
        decision=given.decision,
        principal=given.principal,
        at_ns=at_ns,
    )
    bare = {name: part for name, part in made.items() if name != "at_ns"}
    return seal.verify(public, statement, bare)


def settle_asked(draft: Draft, intent: bytes | None, answer: Mapping[str, Any]) -> None:
    """Settle the intent of a workflow that asked for this, in the frame that records it."""
    if intent is None:
        return
    known_intent = draft.world.intents.get(intent)
    if known_intent is None:
        raise UnknownName("no open intent has this id", code="effect.not_open")
    record = known_intent.record
    effect = draft.world.catalogue(known_intent.manifest).effects[record.effect]
    receipts.settle(draft, record, "ok", effect.receipt.admit(dict(answer), "sugar").bytes)
