"""Older spellings inside a TickOutput, lowered before the envelope is checked (02 section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lower_output(output: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """A decoded TickOutput in canonical names; `kinds` maps an effect's older kind to its name.

    A field written in both spellings keeps the older one, so that the envelope check refuses it.
    """
    made = dict(output)
    if "events" in made and "domain_events" not in made:
        made["domain_events"] = made.pop("events")
    if isinstance(made.get("effects"), list):
        made["effects"] = [
            _output_effect(item, kinds) if isinstance(item, Mapping) else item
            for item in made["effects"]
        ]
    return made


def _output_effect(item: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    made = dict(item)
    if "kind" in made and "effect" not in made:
        kind = made.pop("kind")
        made["effect"] = kinds.get(kind, kind) if isinstance(kind, str) else kind
    for old, new in (("params_cbor", "params"), ("correlation_id", "issuer_ref")):
        if old in made and new not in made:
            made[new] = made.pop(old)
    return made
