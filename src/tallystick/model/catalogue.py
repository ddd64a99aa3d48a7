"""The catalogue: a manifest with everything it names found, compiled and ready for hot paths.

Kernel, authority and modules read definitions here and nowhere else.
A catalogue is immutable; an upgrade makes another one, and a pinned cell keeps its old one.
`sys/` definitions are ambient: a manifest need not list them, and its hash still fixes them,
because a published one never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tallystick.model.catalogue_parts import (
    Cap,
    Effect,
    Grant,
    Migration,
    Module,
    Policy,
    Subscription,
    TrustedKey,
    Upcast,
    Workflow,
)
from tallystick.model.limits import Limits
from tallystick.values.schema import Schema

__all__ = [
    "Cap",
    "Catalogue",
    "Effect",
    "Grant",
    "Migration",
    "Module",
    "Policy",
    "Subscription",
    "TrustedKey",
    "Upcast",
    "Workflow",
]

Node = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The active definitions of one manifest, `sys/` included.

    `upcasts` is keyed by the schema it reads, `migrations` by (workflow, version it reads).
    """

    manifest: dict[str, Any]
    hash: bytes
    hash_text: str
    schemas: Mapping[str, Schema]
    modules: Mapping[str, Module]
    workflows: Mapping[str, Workflow]
    effects: Mapping[str, Effect]
    caps: Mapping[str, Cap]
    policies: tuple[Policy, ...]
    secrets: Mapping[str, Mapping[str, Any]]
    upcasts: Mapping[str, Upcast]
    migrations: Mapping[tuple[str, int], Migration]
    subscriptions: tuple[Subscription, ...]
    bindings: Mapping[str, Mapping[str, str]]
    grants: Mapping[str, Grant]
    flows: tuple[Mapping[str, Any], ...]
    budgets: tuple[Mapping[str, Any], ...]
    limits: Limits
    trust: tuple[TrustedKey, ...]

    @classmethod
    def load(cls, manifest: dict[str, Any], node: Node) -> Catalogue:
        """The catalogue of a canonical manifest.

        `node` gives the canonical definition behind a text hash.
        Refuses a name that nothing defines and a definition that does not fit its place.
        """
        raise NotImplementedError
