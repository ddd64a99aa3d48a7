"""Plans: what happens in one run, drawn from a seed before it begins.

A plan is a configuration and a list of decisions (client operations and faults).
Every decision stands alone, so that shrinking may drop any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tallystick.model.limits import DEFAULTS
from tallystick.testing.ports import MS, SECOND

Decision = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Config:
    """How a node is set up in one run; the defaults are the plainest."""

    batch: int = 1
    cell_cache: int = 4096
    resident_bytes_max: int = 1 << 28
    snapshot_every: int = 500
    burst: int = 1
    flush_ns: int = MS
    span_ns: int = 60 * SECOND
    scene: str = "script"
    limits: Mapping[str, int] = field(default_factory=dict)

    def bounds(self) -> dict[str, int]:
        """The limits of the manifest with their defaults."""
        return {**DEFAULTS, **self.limits}


@dataclass(frozen=True, slots=True)
class Plan:
    """One run, whole: the same plan gives the same trace on any machine."""

    seed: str
    config: Config
    decisions: tuple[Decision, ...]

    def without(self, gone: frozenset[int]) -> Plan:
        """The same plan with some decisions left out, by index."""
        kept = tuple(d for i, d in enumerate(self.decisions) if i not in gone)
        return replace(self, decisions=kept)

    def json(self) -> dict[str, Any]:
        """The plan as a regress file holds it."""
        config = {name: getattr(self.config, name) for name in Config.__slots__}
        config["limits"] = dict(self.config.limits)
        return {
            "seed": self.seed,
            "config": config,
            "decisions": [dict(each) for each in self.decisions],
        }

    @classmethod
    def of_json(cls, raw: Mapping[str, Any]) -> Plan:
        """The plan of a regress file."""
        return cls(raw["seed"], Config(**raw["config"]), tuple(raw["decisions"]))
