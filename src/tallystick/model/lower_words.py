"""The words of the lowering: its refusals, and what its two halves share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# K-24: exactly these words; people search for them.
REFUSALS: Final[Mapping[str, str]] = {
    "legacy.defplan": (
        "defplan is gone: write a defworkflow, or a playbook if an operator owns the steps"
    ),
    "legacy.triggers": (
        "triggers are gone: list the event and its workflow under routing.subscriptions"
    ),
    "legacy.inboxes": "routing.inboxes is gone: submit an event to the world",
    "legacy.plan_record": "plan-era records cannot be folded: import the state as events",
}
MIXED_HINT: Final = "write the document wholly in air_version 2"
NOTE_HINT: Final = "`tally bundle check --canonical` prints the canonical form"


@dataclass(frozen=True, slots=True)
class Context:
    """What the definitions became, as the manifest's half needs to know it."""

    definitions: list[dict[str, Any]]
    kinds: Mapping[str, str]
    rewritten: set[tuple[str, str]]
    derived: list[tuple[tuple[str, str], tuple[str, str]]]

    def named(self, kind: str) -> list[str]:
        """The names of all definitions of a kind."""
        return [str(d.get("name", "")) for d in self.definitions if d.get("$kind") == kind]

    def workflows_of(self, module: str) -> list[str]:
        """The workflows that a module implements, in order."""
        return [
            str(d.get("name", ""))
            for d in self.definitions
            if d.get("$kind") == "defworkflow"
            and isinstance(d.get("impl"), Mapping)
            and d["impl"].get("module") == module
        ]
