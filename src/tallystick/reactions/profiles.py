"""Policy profiles: rules plus defaults, merged into a definition before it is hashed (F-21)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.reactions.reading import Reading
from tallystick.values.yaml12 import Path

# What rules and confidence may read (P1).
RULE_NAMES: Final = frozenset(("trigger", "facts", "target", "frames", "params"))
_OUTCOMES: Final = ("deny", "defer", "allow")
_RULE_KEYS: Final = ("id", "when", "then", "else", "code", "wake", "deadline")
_EXTENDS_MAX: Final = 8

BUILT_IN: Final[Mapping[str, Mapping[str, Any]]] = {
    "standard": {},
    "careful": {
        "defaults": {"max_depth": 1, "breaker": {"runs": 5}},
        "rules": [
            {
                "id": "settled",
                # The first evaluation waits; the one that the timer wakes has waited enough.
                "when": "{{ facts.lane.evaluations > 0 or ('startup' not in trigger.flags"
                " and 'overflow' not in trigger.flags) }}",
                "else": "defer",
                "code": "unsettled",
                "wake": "30s",
            }
        ],
    },
    "manual": {
        "rules": [
            {
                "id": "manual",
                "when": "{{ trigger.kind == 'command' }}",
                "else": "deny",
                "code": "manual_only",
            }
        ]
    },
    "observe": {
        "rules": [
            {"id": "observe", "when": "{{ false }}", "else": "deny", "code": "observe_only"},
        ]
    },
}


def resolve(
    reading: Reading, name: Any, own: Mapping[str, Any], path: Path
) -> tuple[list[Any], Mapping[str, Any]]:
    """The rules and defaults of a profile, those that it extends first; reports unknown ones."""
    rules: list[Any] = []
    defaults: dict[str, Any] = {}
    seen: list[Mapping[str, Any]] = []
    while name is not None:
        found = own.get(name, BUILT_IN.get(name)) if isinstance(name, str) else None
        if not isinstance(found, Mapping) or len(seen) == _EXTENDS_MAX:
            hint = f"known: {', '.join(sorted({*own, *BUILT_IN}))}"
            reading.report("reaction.profile", path, f"no profile {name!r}", hint)
            break
        seen.append(found)
        name = found.get("extends")
    for profile in reversed(seen):
        rules += profile.get("rules") or []
        defaults.update(profile.get("defaults") or {})
    return rules, defaults


def read_rules(
    reading: Reading, given: list[Any], path: Path, before: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Rules in their one form, after those `before`; `wake_ms` belongs to a deferral."""
    made = list(before)
    for i, raw in enumerate(given):
        at: Path = (*path, i)
        rule = reading.mapping(raw, at, _RULE_KEYS)
        ident, code = rule.get("id"), rule.get("code")
        if not isinstance(ident, str) or ident in [known["id"] for known in made]:
            reading.report("reaction.bad_value", at, "a rule has an id of its own")
        verdicts: dict[str, Any] = {}
        for side in ("then", "else"):
            value = rule.get(side)
            verdicts[side] = value and reading.choice(value, _OUTCOMES, (*at, side))
        if not any(verdicts.values()):
            reading.report("reaction.bad_value", at, "a rule says what follows: then or else")
        if not isinstance(code, str) and set(verdicts.values()) & {"deny", "defer"}:
            reading.report("reaction.bad_value", at, "a rule that refuses has a code")
        made.append(
            {
                "id": str(ident),
                "when": reading.expression(rule.get("when"), (*at, "when"), RULE_NAMES),
                **verdicts,
                "code": code,
                "wake_ms": reading.duration_ms(rule.get("wake", "30s"), (*at, "wake")),
                "deadline_ms": reading.duration_ms(rule.get("deadline", "10m"), (*at, "deadline")),
            }
        )
    return made
