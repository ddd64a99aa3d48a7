"""Capabilities: a slot leads to one grant, and the grant must say yes.

Theory of operation.
Authority is never ambient: only grants bound to the cell's slots are looked at, never all grants.
The questions come in a fixed order and the first "no" ends it: is a slot bound, is it the only
one, is its type right, has it expired, was it revoked, does the enforcer agree.
A derived grant is judged with its whole line of ancestors, each by its own enforcer.
So revoking, expiring or narrowing an ancestor reaches every grandchild at once, whatever the
derived grant was written with (X-17, K-29).
Time is the journaled logical time, so a replay gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from tallystick.authority.denial import Denial
from tallystick.authority.enforcers import BUILTIN_MODULE, EnforcerAnswer, builtin
from tallystick.errors import TallyError
from tallystick.model.catalogue import Effect, Grant

STAGE = "capability"
LINEAGE_MAX = 64

Enforce = Callable[[Grant, Mapping[str, Any]], EnforcerAnswer]

# What broken data can raise inside a pure function: a fault of the enforcer, and a fault denies.
_FAULTS = (TallyError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class CapabilityRequest(NamedTuple):
    """One effect asking for authority.

    `slots` are the grants bound for this cell, `declared` the slot types of its workflow.
    `grants` finds ancestors by name; `revoked` holds the names that were revoked, ever.
    `enforce` runs enforcers that are not built in; without it such a grant cannot say yes.
    """

    effect: Effect
    slots: Mapping[str, Grant]
    declared: Mapping[str, str]
    cap_slot: str | None
    params: Any
    origin: Mapping[str, Any]
    logical_now_ns: int
    revoked: Collection[str]
    grants: Mapping[str, Grant]
    enforce: Enforce | None = None


JudgeOne = Callable[[CapabilityRequest, Grant], Denial | None]


class CapabilityYes(NamedTuple):
    """The slot that was used and the grant that agreed."""

    slot: str
    grant: Grant


def judge_capability(request: CapabilityRequest) -> CapabilityYes | Denial:
    """Stage 3 of admission: the bound grant that allows the request, or why none does."""
    slot = _find_slot(request)
    if isinstance(slot, Denial):
        return slot
    grant = request.slots[slot]
    refused = _judge_grant(request, grant)
    if refused is not None:
        return refused
    if grant.parent is not None:
        refused = _judge_ancestors(request, grant, _judge_grant)
        if refused is not None:
            return refused
    return CapabilityYes(slot, grant)


def judge_tools(request: CapabilityRequest) -> Denial | None:
    """A step of a playbook needs a living grant in `tool.<kind>` for each kind that it uses.

    What a tool is about to do is not known yet: the executor asks its grant when it is.
    """
    for kind in request.params["kinds"]:
        slot = f"tool.{kind}"
        grant = request.slots.get(slot)
        if grant is None:
            return _no("cap.unbound", f"slot {slot} is not bound to a grant", path=slot)
        refused = _judge_life(request, grant) or _judge_ancestors(request, grant, _judge_life)
        if refused is not None:
            return refused
    return None


def _find_slot(request: CapabilityRequest) -> str | Denial:
    wanted = request.effect.cap_type
    slot = request.cap_slot
    slots = request.slots
    if slot is None:
        found = [name for name in slots if slots[name].cap_type == wanted]
        if len(found) == 1:
            slot = found[0]
        elif not found:
            return _no("cap.unbound", f"no bound slot has type {wanted}")
        else:
            names = ", ".join(sorted(found))
            return _no("cap.ambiguous", f"slots {names} all have type {wanted}; name one")
    elif slot not in slots:
        return _no("cap.unbound", f"slot {slot} is not bound to a grant", path=slot)
    declared = request.declared.get(slot, wanted)
    held = slots[slot].cap_type
    if declared != wanted or held != wanted:
        wrong = declared if declared != wanted else held
        return _no("cap.type_mismatch", f"slot {slot} is {wrong}, not {wanted}", path=slot)
    return slot


def _judge_grant(request: CapabilityRequest, grant: Grant) -> Denial | None:
    refused = _judge_life(request, grant)
    if refused is not None or grant.enforcer is None:
        return refused
    return _ask_enforcer(request, grant)


def _judge_life(request: CapabilityRequest, grant: Grant) -> Denial | None:
    expires = grant.expires_ns
    if expires is not None and request.logical_now_ns >= expires:
        return _no("cap.expired", f"grant {grant.name} expired at {expires}", path=grant.name)
    if grant.name in request.revoked:
        return _no("cap.revoked", f"grant {grant.name} was revoked", path=grant.name)
    return None


def _judge_ancestors(request: CapabilityRequest, grant: Grant, judge: JudgeOne) -> Denial | None:
    """Every ancestor must still agree; one that is gone counts as revoked."""
    seen = 0
    child = grant
    while child.parent is not None:
        seen += 1
        parent = request.grants.get(child.parent)
        if parent is None or seen > LINEAGE_MAX:
            message = f"grant {grant.name} derives from {child.parent}, which is gone"
            return _no("cap.revoked", message, path=child.parent)
        refused = judge(request, parent)
        if refused is not None:
            return refused
        child = parent
    return None


def _ask_enforcer(request: CapabilityRequest, grant: Grant) -> Denial | None:
    question = {
        "cap": grant.cap,
        "grant": grant.name,
        "cap_params": grant.params,
        "effect": request.effect.name,
        "params": request.params,
        "origin": request.origin,
        "logical_now_ns": request.logical_now_ns,
    }
    assert grant.enforcer is not None
    module, entrypoint = grant.enforcer
    try:
        if module == BUILTIN_MODULE:
            answer = builtin(entrypoint, question)
        elif request.enforce is None:
            return _fault(grant, f"no runner for enforcer {module}")
        else:
            answer = request.enforce(grant, question)
    except _FAULTS as error:
        return _fault(grant, f"enforcer {module}: {type(error).__name__}")
    if answer.ok:
        return None
    field = answer.field
    message = answer.message or "the grant does not cover the request"
    return _no("cap.exceeded", f"grant {grant.name}: {message}", path=field)


def _fault(grant: Grant, message: str) -> Denial:
    return _no("cap.enforcer_fault", f"grant {grant.name}: {message}", path=grant.name)


def _no(code: str, message: str, *, path: str | None = None) -> Denial:
    return Denial(STAGE, code, message, None, path)
