"""The policy decision: trigger and facts in, allow, deny or defer with reasons out (F-02, F-17).

Theory of operation.
`decide` is a function of three values and of nothing else: no clock, no chance, no disk, no wire.
Guards that refuse, then rules; deny beats defer beats allow, and every failing rule is named.
A fact that a rule asks for and nobody has is a denial, never a guess.
The id of a decision is the hash of the rest, so whoever has the facts can prove the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tallystick.reactions import keys
from tallystick.reactions.document import Definition
from tallystick.reactions.ids import H, text
from tallystick.values import canon
from tallystick.values.expr import Expression, ExpressionFault, compile_expression, truth

ALLOW, DENY, DEFER = "allow", "deny", "defer"
_UNDEFINED: Final = "P205"
# Which guard a refusing fact belongs to, in the order of the pipeline.
GUARDS: Final = {
    "untrusted": "trust",
    "hop_limit": "G5",
    "reentry": "G5",
    "cross_world": "G5",
    "breaker_open": "G8",
    "defer_expired": "P6",
}
_DETAILS: Final = {
    "untrusted": "nobody has pinned the hash of this definition",
    "hop_limit": "the chain of reactions is longer than max_depth",
    "reentry": "the reaction is in its own lineage",
    "cross_world": "a reaction of another world wrote the bytes",
    "defer_expired": "the deferral has lasted until its deadline",
    "breaker_open": "as many runs or tokens as the window allows have been",
}


class Opinion(NamedTuple):
    """What one guard or rule says, when it says something."""

    outcome: str
    reason: Mapping[str, str]
    wake: Mapping[str, int] | None = None


def decide(
    definition: Definition,
    trigger: Mapping[str, Any],
    facts: Mapping[str, Any],
    previous: str | None = None,
) -> dict[str, Any]:
    """The decision record (`sys/Decision@1`) over a trigger at its facts."""
    said = [*_guards(facts), *_rules(definition, trigger, facts)]
    outcome = _strongest(said)
    reasons = [dict(each.reason) for each in said if each.outcome == outcome]
    if outcome == ALLOW:
        reasons = [{"code": "rules_passed", "guard": "policy", "detail": "no rule refuses"}]
    waits = [each.wake for each in said if each.wake is not None and each.outcome == outcome]
    fingerprint = trigger_fingerprint(definition, trigger)
    made: dict[str, Any] = {
        "workflow_definition_id": definition.hash,
        "run_key": keys.run_key(definition.hash, fingerprint, trigger["target"]["target_id"]),
        "trigger_id": trigger["trigger_id"],
        "outcome": outcome,
        "reasons": sorted(reasons, key=lambda r: (r["code"], r["guard"], r["detail"])),
        "confidence_permille": _confidence(definition, trigger, facts),
        "evaluated_facts": canon.hash_of(canon.encode(dict(facts))),
        "policy_version": policy_version(definition),
        "previous_decision_id": previous,
        "wake": _earliest(waits),
    }
    return {"decision_id": text(H("decision@1", **made)), **made}


def trigger_fingerprint(definition: Definition, trigger: Mapping[str, Any]) -> str:
    """R6 for a definition's own mode."""
    return keys.fingerprint(definition["fingerprint"], trigger, trigger["changes"])


def policy_version(definition: Definition) -> str:
    """The hash of the rules alone: the same policy in two definitions has one version."""
    return text(H("policy@1", policy=definition["policy"]))


def _strongest(said: list[Opinion]) -> str:
    outcomes = {each.outcome for each in said}
    return next((word for word in (DENY, DEFER) if word in outcomes), ALLOW)


def _earliest(waits: list[Mapping[str, int]]) -> dict[str, int] | None:
    if not waits:
        return None
    return {
        "after_ms": min(wait["after_ms"] for wait in waits),
        "deadline_ms": min(wait["deadline_ms"] for wait in waits),
    }


def _guards(facts: Mapping[str, Any]) -> list[Opinion]:
    return [
        Opinion(DENY, {"code": code, "guard": guard, "detail": _DETAILS[code]})
        for code, guard in GUARDS.items()
        if facts["guards"][code]
    ]


# ---- rules ----------------------------------------------------------------------------------


def _scope(trigger: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trigger": trigger,
        "facts": facts,
        "target": trigger["target"],
        "frames": facts["frames"],
        "params": facts["params"],
    }


def _rules(
    definition: Definition, trigger: Mapping[str, Any], facts: Mapping[str, Any]
) -> list[Opinion]:
    scope = _scope(trigger, facts)
    found = [_rule(rule, scope) for rule in definition["policy"]["rules"]]
    return [each for each in found if each is not None]


def _rule(rule: Mapping[str, Any], scope: Mapping[str, Any]) -> Opinion | None:
    guard = f"policy:{rule['id']}"
    try:
        holds = truth(_compiled(rule["when"]).evaluate(scope))
    except ExpressionFault as why:
        code = "fact_missing" if why.code == _UNDEFINED else "rule_failed"
        return Opinion(DENY, {"code": code, "guard": guard, "detail": why.message})
    outcome = rule["then"] if holds else rule["else"]
    if outcome is None or outcome == ALLOW:
        return None
    detail = f"{rule['when']} is {'true' if holds else 'false'}"
    wake = None
    if outcome == DEFER:
        wake = {"after_ms": rule["wake_ms"], "deadline_ms": rule["deadline_ms"]}
    return Opinion(outcome, {"code": rule["code"], "guard": guard, "detail": detail}, wake)


def _confidence(
    definition: Definition, trigger: Mapping[str, Any], facts: Mapping[str, Any]
) -> int | None:
    """A whole number from 0 to 1000, if the policy states how sure it is; else nothing."""
    source = definition["policy"]["confidence"]
    if source is None:
        return None
    try:
        value = _compiled(source).evaluate(_scope(trigger, facts))
    except ExpressionFault:
        return None
    return min(max(value, 0), 1000) if type(value) is int else None


@lru_cache(maxsize=4096)
def _compiled(source: str) -> Expression:
    return compile_expression(source, strict=True)
