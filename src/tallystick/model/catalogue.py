"""The catalogue: a manifest with everything it names found, compiled and ready for hot paths.

Kernel, authority and modules read definitions here and nowhere else.
A catalogue is immutable; an upgrade makes another one, and a pinned cell keeps its old one.
`sys/` definitions are ambient: a manifest need not list them, and its hash still fixes them,
because a published one never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallystick.model import catalogue_build as build
from tallystick.model import sys_definitions
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
    grant_hash,
)
from tallystick.model.catalogue_pinned import Node, Pinned, pin, refused
from tallystick.model.limits import Limits
from tallystick.values import canon
from tallystick.values.names import nearest
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
    "grant_hash",
]


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
        # tidy: one row per field of the part; splitting the table would hide it.
        pinned = pin(manifest, node)
        kinds = pinned.by_kind
        limits = Limits.of(manifest.get("limits", {}))
        schemas = build.schemas_of(pinned)
        modules = {
            n: build.module_of(d, pinned.hashes["defmodule", n])
            for n, d in kinds["defmodule"].items()
        }
        workflows = {
            n: build.workflow_of(d, pinned, schemas, modules, limits)
            for n, d in kinds["defworkflow"].items()
        }
        caps = {
            n: build.cap_of(d, pinned.hashes["defcap", n], schemas, modules)
            for n, d in kinds["defcap"].items()
        }
        authority = manifest.get("authority", {})
        digest = canon.digest(manifest)
        return cls(
            manifest=manifest,
            hash=digest,
            hash_text=canon.text_of(digest),
            schemas=schemas,
            modules=modules,
            workflows=workflows,
            effects={
                n: build.effect_of(d, pinned.hashes["defeffect", n], schemas, modules)
                for n, d in kinds["defeffect"].items()
            },
            caps=caps,
            policies=_policies(authority, pinned),
            secrets=kinds["defsecret"],
            upcasts=_upcasts(pinned, schemas, modules),
            migrations=_migrations(pinned, modules),
            subscriptions=_subscriptions(manifest, schemas, workflows, modules),
            bindings={
                n: b.get("slots", {}) for n, b in manifest.get("module_bindings", {}).items()
            },
            grants={g["name"]: build.grant_of(g, caps) for g in authority.get("grants", ())},
            flows=tuple(authority.get("flows", ())),
            budgets=tuple(authority.get("budgets", ())),
            limits=limits,
            trust=_trust(manifest),
        )


def _policies(authority: Mapping[str, Any], pinned: Pinned) -> tuple[Policy, ...]:
    path = "manifest/authority/policies"
    return tuple(
        Policy(name, tuple(pinned.get("defpolicy", name, "ref.policy", path).get("rules", ())))
        for name in authority.get("policies", ())
    )


def _upcasts(
    pinned: Pinned, schemas: Mapping[str, Schema], modules: Mapping[str, Module]
) -> dict[str, Upcast]:
    made: dict[str, Upcast] = {}
    for name, defn in pinned.by_kind["defupcast"].items():
        for end in ("from", "to"):
            build.schema_of(schemas, defn[end], f"{name}/{end}")
        call = build.call_of(defn["impl"], modules, f"{name}/impl", "upcast.not_pure")
        assert call is not None
        if defn["from"] in made:
            message = f"{made[defn['from']].name} also reads {defn['from']}"
            raise refused("schema.upcast_ambiguous", message, f"{name}/from")
        made[defn["from"]] = Upcast(name, defn["from"], defn["to"], *call)
    return made


def _migrations(pinned: Pinned, modules: Mapping[str, Module]) -> dict[tuple[str, int], Migration]:
    made: dict[tuple[str, int], Migration] = {}
    for name, defn in pinned.by_kind["defmigration"].items():
        flow = defn["workflow"]
        pinned.get("defworkflow", flow, "ref.workflow", f"{name}/workflow")
        call = build.call_of(defn["impl"], modules, f"{name}/impl")
        assert call is not None
        made[flow, defn["from"]] = Migration(name, flow, defn["from"], defn["to"], *call)
    return made


def _subscriptions(
    manifest: Mapping[str, Any],
    schemas: Mapping[str, Schema],
    workflows: Mapping[str, Workflow],
    modules: Mapping[str, Module],
) -> tuple[Subscription, ...]:
    # tidy: one row per field of the part; splitting the table would hide it.
    made: list[Subscription] = []
    # Ours come after the listed ones (02 section 3).
    given = [*manifest.get("routing", {}).get("subscriptions", ()), *sys_definitions.SUBSCRIPTIONS]
    for i, row in enumerate(given):
        path, flow = f"manifest/routing/subscriptions/{i}", row["workflow"]
        build.schema_of(schemas, row["event"], f"{path}/event")
        if flow not in workflows:
            hint = nearest(flow, list(workflows))
            message = f"{flow} is not in the manifest"
            raise refused("ref.workflow", message, f"{path}/workflow", hint)
        init, state = row.get("init_state"), workflows[flow].state
        at = f"{path}/init_state"
        made.append(
            Subscription(
                event=row["event"],
                workflow=flow,
                key_field=row.get("key_field"),
                key_fn=build.call_of(row.get("key_fn"), modules, f"{path}/key_fn"),
                create_if_missing=row.get("create_if_missing", True),
                origins=tuple(row.get("filter", {}).get("origin", ())),
                tags=tuple(row.get("filter", {}).get("tags", ())),
                init_state=None
                if init is None
                else build.fitted(state, init, "routing.bad_init", at),
                init_fn=build.call_of(row.get("init_fn"), modules, f"{path}/init_fn"),
            )
        )
    return tuple(made)


def _trust(manifest: Mapping[str, Any]) -> tuple[TrustedKey, ...]:
    return tuple(
        TrustedKey(
            tuple(key.get("executors", ())),
            tuple(key.get("effects", ())),
            bytes.fromhex(key["public_key"]),
        )
        for key in manifest.get("trust", {}).get("executors", ())
    )
