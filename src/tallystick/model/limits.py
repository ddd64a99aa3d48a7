"""Limits: a bound on everything a cell, a tick or a value may use (02 section 3).

They are part of the manifest and so of its hash: changing one is an upgrade, and an old journal
replays under the limits that were active then.
A workflow may only narrow what the manifest gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from tallystick.errors import BadDefinition
from tallystick.values.canon import SIZE_MAX

MIB: Final = 1024 * 1024
DAY_NS: Final = 86_400 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit with its default; `idempotency_window` is logical nanoseconds."""

    fuel: int = 1_000_000
    effects_max: int = 64
    events_max: int = 256
    output_bytes_max: int = MIB
    state_bytes_max: int = MIB
    inflight_max: int = 1_024
    idempotency_window: int = DAY_NS
    mailbox_max: int = 65_536
    event_bytes_max: int = MIB
    params_bytes_max: int = MIB
    receipt_bytes_max: int = MIB
    keys_max: int = 65_536
    hops_max: int = 1_000
    logs_max: int = 64
    metrics_max: int = 64
    memory_bytes: int = 64 * MIB
    history_max: int = 10_000
    inbox_max: int = 1_024

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Limits:
        """The limits of a manifest; refuses unknown names, non-numbers and impossible sizes."""
        found = next(iter(faults_in(given)), None)
        if found is not None:
            name, why = found
            raise BadDefinition(why, code="def.bad_value", where={"path": f"/limits/{name}"})
        return cls(**given)

    def narrowed(self, given: Mapping[str, Any], path: str = "/limits") -> Limits:
        """These limits with a workflow's overrides; refuses one that is over the manifest's.

        `path` is where the overrides stand, for the refusal.
        """
        Limits.of(given)
        for name in sorted(given):
            most = getattr(self, name)
            if given[name] > most:
                raise BadDefinition(
                    f"{name} {given[name]} is over the manifest's {most}",
                    code="workflow.limit_too_high",
                    where={"path": f"{path}/{name}"},
                    hint=f"use at most {most}, or raise the manifest's limit",
                )
        return replace(self, **given)


DEFAULTS: Final[Mapping[str, int]] = {field.name: field.default for field in fields(Limits)}  # type: ignore[misc]  # every field has an int default

# A value is one document, so no limit on a value's bytes may pass the document cap.
_DOCUMENT_SIZED: Final = tuple(name for name in DEFAULTS if name.endswith("_bytes_max"))


def faults_in(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each (limit name, reason) that cannot be a limit, in the order of the names."""
    found: list[tuple[str, str]] = []
    for name in sorted(given):
        value = given[name]
        if name not in DEFAULTS:
            found.append((name, f"there is no limit {name!r}"))
        elif type(value) is not int or value < 1:
            found.append((name, f"{name} is a whole number of at least 1"))
        elif name in _DOCUMENT_SIZED and value > SIZE_MAX:
            found.append((name, f"{name} is at most {SIZE_MAX}, the size of a document"))
    return found
