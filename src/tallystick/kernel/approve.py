"""Approvals: principals decide about an intent that a rule holds for them (06 section 3).

A vote is a record with its principal; the last one that is needed releases the intent, one "no"
denies it.
What is approved is the intent id, a hash over the parameters: nobody says yes to one thing and
lets out another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.authority.approvals import key_of, may_decide
from tallystick.authority.denial import Denial
from tallystick.errors import Conflict, Forbidden, Rejected, UnknownName
from tallystick.kernel import receipts
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.inputs import Decide
from tallystick.kernel.parts import Intent
from tallystick.kernel.release import let_go
from tallystick.kernel.world import World
from tallystick.model.records import IntentApproval
from tallystick.values import canon, seal


def decide(world: World, given: Decide) -> Frame:
    """Count a vote; refuses one that is not the principal's to give."""
    intent = _held(world, given)
    detail = intent.hold["detail"]
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    _check_time(given, detail, stamp.logical_ns)
    _check_right(world, given, detail)
    _check_seal(world, given)
    made = None if given.seal is None else dict(given.seal)
    draft.add(
        IntentApproval(given.intent, given.principal, given.decision, stamp, given.comment, made)
    )
    if given.decision == "reject":
        message = f"rejected by {given.principal}"
        receipts.deny(draft, intent.record, Denial("policy", "policy.approval_rejected", message))
    elif len(detail.get("votes", ())) + 1 >= detail["count"]:
        let_go(draft, intent, "approved", stamp)
    return draft.frame(Answer("decided", world.seq + 1))


def _held(world: World, given: Decide) -> Intent:
    where = {"intent": canon.text_of(given.intent)}
    if given.decision not in ("approve", "reject"):
        raise Rejected(
            f"{given.decision!r} is no decision", code="policy.bad_decision", where=where
        )
    intent = world.intents.get(given.intent)
    if intent is None:
        raise UnknownName("no open intent has this id", code="effect.not_open", where=where)
    if intent.hold is None or intent.hold["kind"] != "approval":
        raise Conflict(
            "the intent is not held for approval",
            code="effect.not_held",
            where=where,
            hint="`tally effect why` says what it waits for",
        )
    return intent


def _check_time(given: Decide, detail: Mapping[str, Any], logical_ns: int) -> None:
    expires_ns = detail.get("expires_ns")
    if expires_ns is not None and expires_ns <= logical_ns:
        raise Conflict(
            "the time to decide is over",
            code="policy.approval_expired",
            where={"intent": canon.text_of(given.intent), "expires_ns": expires_ns},
            hint="the workflow may ask again",
        )


def _check_right(world: World, given: Decide, detail: Mapping[str, Any]) -> None:
    """The rule gives the decision to this principal, and it has not voted yet."""
    where = {"intent": canon.text_of(given.intent), "principal": given.principal}
    if not may_decide(given.principal, detail.get("by"), _governance(world).get("principals", ())):
        raise Forbidden(
            f"the rule does not give this decision to {given.principal}",
            code="policy.not_approver",
            where=where,
            hint=f"ask one of {', '.join(detail['by']) or 'nobody'}",
        )
    if given.principal in detail.get("votes", ()):
        raise Conflict(
            f"{given.principal} has voted already",
            code="policy.voted_already",
            where=where,
            hint="another principal must decide",
        )


def _check_seal(world: World, given: Decide) -> None:
    """A seal that is there must be the principal's; the rules may ask for one."""
    where = {"intent": canon.text_of(given.intent), "principal": given.principal}
    if given.seal is None:
        if _governance(world).get("rules", {}).get("signed"):
            raise Forbidden(
                "the rules ask for a sealed decision",
                code="policy.unsigned",
                where=where,
                hint="seal `approval@1` with the key of the principal",
            )
        return
    good = given.seal_ok
    if good is None:
        good = _sealed(world, given, given.seal)
    if not good:
        raise Forbidden(
            "the seal is not one of this principal over this decision",
            code="policy.bad_seal",
            where=where,
            hint="seal `approval@1` of this world and intent with the registered key",
        )


def _sealed(world: World, given: Decide, made: Mapping[str, Any]) -> bool:
    public = key_of(given.principal, _governance(world).get("principals", ()))
    at_ns = made.get("at_ns")
    if public is None or type(at_ns) is not int:
        return False
    statement = seal.approval_statement(
        world=world.id,
        intent=canon.text_of(given.intent),
        bundle=None,
        report_hash=None,
        decision=given.decision,
        principal=given.principal,
        at_ns=at_ns,
    )
    bare = {name: part for name, part in made.items() if name != "at_ns"}
    return seal.verify(public, statement, bare)


def _governance(world: World) -> Mapping[str, Any]:
    found: Mapping[str, Any] = world.active.catalogue.manifest.get("governance", {})
    return found
