"""Capacity, the fifth stage: is there room in every flow that an intent meets (06 section 4)?

An intent takes room in all of its flows or in none; without room it waits, or is denied as the
flow says.
Receipts, cancellations and time never come here, so a full flow drains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tallystick.authority.denial import Denial
from tallystick.authority.flow import STAGE, Flow, claims_of
from tallystick.authority.policy import PolicyFacts
from tallystick.kernel.draft import Draft
from tallystick.kernel.levels import Claims, Levels, Waiting, ends_of, place_of
from tallystick.model.records import Origin

_SCOPES = ("world", "workflow", "cell")  # in the order of `ends_of`


class Taken(NamedTuple):
    """What an intent claims, and the hold under which it waits."""

    claims: list[dict[str, Any]] | None
    hold: dict[str, Any] | None


class Tight(NamedTuple):
    """A flow without room: too many are open, or it is too early."""

    flow: Flow
    why: str
    place: str


def levels_of(draft: Draft) -> Levels:
    """The levels as of this point of the frame."""
    if draft.levels is None:
        draft.levels = Levels(draft.world.levels)
    return draft.levels


def take_room(
    draft: Draft, facts: PolicyFacts, origin: Origin, intent: bytes, *, held: bool
) -> Taken | Denial:
    """Take room for an intent that opens, or a place in the queue, or a denial.

    What is held for people reserves its cost; it asks for room when they have decided.
    """
    flows = draft.world.active.flows
    claims = claims_of(flows, facts)
    if isinstance(claims, Denial) or not claims:
        return claims if isinstance(claims, Denial) else Taken(None, None)
    levels = levels_of(draft)
    denied = _over_budget(levels, flows, claims)
    if denied is not None:
        return denied
    tight = [] if held else tight_in(levels, flows, claims, (origin, facts.now_ns))
    denied = _refused(levels, tight)
    if denied is not None:
        return denied
    levels.reserve(claims)
    if held:
        return Taken(claims, None)
    if not tight:
        levels.enter(claims, origin, flows, facts.now_ns)
        return Taken(claims, None)
    levels.wait(claims, Waiting(origin.tick_seq, origin.index, intent))
    detail = {"flow": tight[0].flow.name, "why": tight[0].why}
    return Taken(claims, {"kind": "capacity", "since_seq": draft.seq + 1, "detail": detail})


def tight_in(
    levels: Levels, flows: Mapping[str, Flow], claims: Claims, at: tuple[Origin, int]
) -> list[Tight]:
    """The flows that have no room for these claims now; one that is gone has always room."""
    found: list[Tight] = []
    origin, now_ns = at
    ends: dict[str, str] | None = None
    for claim in claims:
        flow = flows.get(claim["flow"])
        if flow is None:
            continue
        why = None
        if flow.most:
            ends = ends or dict(zip(_SCOPES, ends_of(origin), strict=True))
            why = _why_full(levels, flow, claim, ends)
        if why is None and flow.gap_ns is not None:
            why = "rate" if now_ns < flow.earliest_ns(levels.tat_at(place_of(claim))) else None
        if why is not None:
            found.append(Tight(flow, why, place_of(claim)))
    return found


def _why_full(
    levels: Levels, flow: Flow, claim: Mapping[str, Any], ends: Mapping[str, str]
) -> str | None:
    name = flow.name
    for scope, most in flow.most.items():
        place = f"{name} key {claim.get('key')}" if scope == "key" else name + ends[scope]
        if levels.open_at(place) >= most:
            return "open"
    return None


def _over_budget(levels: Levels, flows: Mapping[str, Flow], claims: Claims) -> Denial | None:
    asked: dict[str, int] = {}  # several flows of one intent may draw on one purse
    for claim in claims:
        budget = flows[claim["flow"]].budget
        if budget is None:
            continue
        purse = claim["budget"]
        wanted = asked[purse] = asked.get(purse, 0) + claim["cost"]
        spent, reserved = levels.budget_at(purse, claim["window"])
        free = budget.limit - spent - reserved
        if wanted > free:
            message = f"budget {budget.name}: {wanted} {budget.unit} wanted, {free} free"
            return Denial(STAGE, "flow.budget_exhausted", message, budget.name)
    return None


def _refused(levels: Levels, tight: list[Tight]) -> Denial | None:
    for flow, why, place in tight:
        if not flow.queues:
            message = f"flow {flow.name} has no room"
            return Denial(STAGE, f"flow.over_{why}", message, flow.name)
        if levels.queued_at(place) >= flow.queue_max:
            message = f"{flow.queue_max} wait in flow {flow.name} already"
            return Denial(STAGE, "flow.queue_full", message, flow.name)
    return None
