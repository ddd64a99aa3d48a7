"""Policies: an ordered list of rules, first match wins, none denies.

Theory of operation.
A rule has a static half (`when`, patterns over names) and an optional dynamic half (`where`, an
expression over the request).
Which rules can match at all depends only on names, so that answer is computed once for each
combination of names and kept: judging walks a short list that ends at the first rule without
`where`, and a world with one unconditional allow pays one lookup.
A fault in `where` denies; it never skips a rule, because a skipped rule is a hole (X-24).
A rule without `origin` matches workflow requests only, so a broad allow never covers the node's
or governance's own (K-22).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tallystick.authority.denial import Denial
from tallystick.errors import BadDefinition
from tallystick.model.catalogue import Policy
from tallystick.values import canon
from tallystick.values.expr import (
    Expression,
    ExpressionFault,
    Run,
    compile_expression,
    shared_run,
    truth,
)

STAGE = "policy"
RULES_MAX = 1000
WHEN_KEYS = ("effect", "cap", "cap_type", "grant", "origin", "workflow", "tags")
# Combinations of names seen in one world are few; the bound is for a hostile caller.
TRACKS_MAX = 4096


class PolicyFacts(NamedTuple):
    """A request as policy sees it; only the kernel fills `origin`; no key is empty bytes."""

    effect: str
    cap: str
    cap_type: str
    grant: str
    origin: Mapping[str, Any]
    workflow: str
    tags: tuple[str, ...]
    params: Any
    key: bytes
    now_ns: int


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """The rule that matched; `rule` is its index in its policy, `id` its own name."""

    policy: str
    rule: int
    id: str | None
    decision: str
    approval: Mapping[str, Any] | None
    reason: str | None


Patterns = tuple[str, ...]
Names = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule; patterns are exact names or end in `*`."""

    when: tuple[tuple[str, Patterns], ...]
    where: Expression | None
    verdict: PolicyVerdict
    outcome: PolicyVerdict | Denial
    label: str

    def fits(self, facts: PolicyFacts) -> bool:
        """True when every key of `when` matches; the dynamic half is not asked."""
        return fits(self.when, facts)


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a world, in order."""

    rules: tuple[Rule, ...]
    _tracks: dict[Names, tuple[Rule, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def compile(cls, policies: Sequence[Policy]) -> Rules:
        """The rules of policies read as one list.

        Refuses more than 1,000 rules, an unknown key or decision, and a bad expression.
        """
        rules = tuple(
            _rule(policy.name, index, raw)
            for policy in policies
            for index, raw in enumerate(policy.rules)
        )
        if len(rules) > RULES_MAX:
            raise BadDefinition(
                f"{len(rules)} rules are over {RULES_MAX}", code="policy.too_many_rules"
            )
        return cls(rules)

    def judge(self, facts: PolicyFacts) -> PolicyVerdict | Denial:
        """Stage 4 of admission: allow, require_approval, or a denial that names its rule."""
        run: Run | None = None
        for rule in self._fitting(facts):
            where = rule.where
            if where is None:
                return rule.outcome
            if run is None:
                run = shared_run(scope_of(facts))
            try:
                said = where.evaluate_in(run)
                if said is not False and truth(said):
                    return rule.outcome
            except ExpressionFault as fault:
                message = f"where of rule {rule.label} failed: {fault.code} {fault.message}"
                return Denial(STAGE, "policy.expression_fault", message, rule.label, None)
        return Denial(STAGE, "policy.no_match", "no rule allows the request", None, None)

    def standing(self, facts: PolicyFacts) -> PolicyVerdict | Denial | None:
        """What these names are always told; None when parameters, key or time have a say."""
        track = self._fitting(facts)
        return track[0].outcome if track and track[0].where is None else None

    def _fitting(self, facts: PolicyFacts) -> tuple[Rule, ...]:
        names = names_of(facts)
        track = self._tracks.get(names)
        return self._track(names, facts) if track is None else track

    def _track(self, names: Names, facts: PolicyFacts) -> tuple[Rule, ...]:
        """The rules that can match these names, up to the first that always does."""
        found: list[Rule] = []
        for rule in self.rules:
            if rule.fits(facts):
                found.append(rule)
                if rule.where is None:
                    break
        if len(self._tracks) >= TRACKS_MAX:
            self._tracks.clear()
        self._tracks[names] = track = tuple(found)
        return track


def names_of(facts: PolicyFacts) -> Names:
    """All that a `when` can ask for; equal names meet equal rules and flows."""
    effect, cap, cap_type, grant, origin, workflow, tags, _, _, _ = facts
    return effect, grant, workflow, cap, cap_type, origin["kind"], tags


def fits(when: tuple[tuple[str, Patterns], ...], facts: PolicyFacts) -> bool:
    """True when every pattern of a `when` matches the facts."""
    for name, patterns in when:
        if name == "tags":
            if not any(matches(patterns, tag) for tag in facts.tags):
                return False
        elif not matches(patterns, _fact(facts, name)):
            return False
    return True


def scope_of(facts: PolicyFacts, *, reads_key: bool = True) -> dict[str, Any]:
    """What an expression may read; the key is its value, null where a workflow has none."""
    effect, cap, _, grant, origin, workflow, tags, params, key, now_ns = facts
    return {
        "effect": effect,
        "params": params,
        "origin": origin,
        "workflow": workflow,
        "key": canon.decode(key) if key and reads_key else None,
        "tags": list(tags),
        "cap": cap,
        "grant": grant,
        "now_ns": now_ns,
    }


def matches(patterns: Patterns, name: Any) -> bool:
    """True when some pattern is the name, or ends in `*` and begins it."""
    for pattern in patterns:
        if pattern == name:
            return True
        if pattern.endswith("*") and type(name) is str and name.startswith(pattern[:-1]):
            return True
    return False


def _fact(facts: PolicyFacts, name: str) -> Any:
    match name:
        case "effect":
            return facts.effect
        case "cap":
            return facts.cap
        case "cap_type":
            return facts.cap_type
        case "grant":
            return facts.grant
        case "workflow":
            return facts.workflow
        case _:
            return facts.origin["kind"]


def _rule(policy: str, index: int, raw: Mapping[str, Any]) -> Rule:
    path = f"/rules/{index}"
    decision = raw.get("decision")
    if decision not in ("allow", "deny", "require_approval"):
        raise _bad(policy, path + "/decision", f"decision {decision!r} is not known")
    source = raw.get("where")
    where: Expression | None = None
    if source is not None:
        try:
            where = compile_expression(source, strict=True)
        except ExpressionFault as fault:
            raise _bad(policy, path + "/where", f"{fault.code} {fault.message}") from fault
    name = raw.get("id")
    reason = raw.get("reason")
    label = f"{policy} rule {index}" + (f' "{name}"' if name else "")
    verdict = PolicyVerdict(policy, index, name, decision, raw.get("approval"), reason)
    outcome: PolicyVerdict | Denial = verdict
    if decision == "deny":
        message = f"denied by {label}" + (f": {reason}" if reason else "")
        outcome = Denial(STAGE, "policy.denied", message, label, None)
    when = when_of(policy, f"{path}/when", raw.get("when") or {})
    return Rule(when, where, verdict, outcome, label)


def when_of(owner: str, path: str, when: Mapping[str, Any]) -> tuple[tuple[str, Patterns], ...]:
    """The compiled patterns of a `when`; without an origin it is the workflow's."""
    for key in when:
        if key not in WHEN_KEYS:
            raise _bad(owner, f"{path}/{key}", f"when has no key {key}")
    found: list[tuple[str, Patterns]] = []
    for key in WHEN_KEYS:
        value = when.get(key)
        if value is None and key == "origin":
            value = "workflow"
        if value is not None:
            found.append((key, (value,) if isinstance(value, str) else tuple(value)))
    return tuple(found)


def _bad(policy: str, path: str, message: str) -> BadDefinition:
    code = "policy.bad_expression" if path.endswith("/where") else "policy.bad_rule"
    return BadDefinition(message, code=code, where={"def": policy, "path": path})


# ---- findings for the checker ---------------------------------------------------------------


def policy_findings(policies: Sequence[Policy]) -> list[tuple[str, str, str]]:
    """What is wrong with policies before they run: (code, `policy#/path`, message), in order.

    Finds expressions that cannot be compiled, and rules behind one that always matches first.
    """
    findings: list[tuple[str, str, str]] = []
    before: list[Rule] = []
    for policy in policies:
        for index, raw in enumerate(policy.rules):
            try:
                rule = _rule(policy.name, index, raw)
            except BadDefinition as bad:
                at = f"{policy.name}#{bad.where['path']}"
                findings.append((bad.code, at, bad.message))
                continue
            shadow = next((one for one in before if _broader(one, rule)), None)
            if shadow is not None:
                at = f"{policy.name}#/rules/{index}"
                message = f"never reached: {shadow.label} always matches first"
                findings.append(("policy.unreachable", at, message))
            elif rule.where is None:
                before.append(rule)
    return findings


def _broader(one: Rule, other: Rule) -> bool:
    """True when every request that fits `other` fits `one`, which asks nothing more."""
    narrow = dict(other.when)
    for name, patterns in one.when:
        held = narrow.get(name)
        if held is None or not all(_covered(patterns, pattern) for pattern in held):
            return False
    return True


def _covered(patterns: Patterns, pattern: str) -> bool:
    """`a.*` covers `a.b` and `a.b*`; a star alone covers all."""
    for wide in patterns:
        if wide == pattern or (wide.endswith("*") and pattern.startswith(wide[:-1])):
            return True
    return False
