"""The parts of a catalogue: each active definition resolved, compiled and frozen.

A part holds what hot paths ask for, ready to use: compiled schemas instead of names, both the raw
and the text form of a hash, sets instead of lists where only membership is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallystick.model.limits import Limits
from tallystick.values import canon
from tallystick.values.schema import Admitted, Schema

# (module name, entrypoint) of a pure function.
Call = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Module:
    """An artifact; `pure` maps each pure entrypoint to its input and output schema names."""

    name: str
    hash: bytes
    runtime: str
    pure: Mapping[str, tuple[str, str]]
    artifact: str | None = None


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow with its schemas compiled and its limits already within the manifest's.

    `arms` maps the schema of each arm to its tag; it is empty when the event is a record.
    """

    name: str
    hash: bytes
    hash_text: str
    state: Schema
    event: Schema
    event_name: str
    context: bool
    annotations: Schema | None
    key: Schema | None
    effects_emitted: frozenset[str]
    lifecycle: str
    determinism: str
    on_fault: str
    reads: frozenset[str]
    cap_slots: Mapping[str, str]
    limits: Limits
    state_version: int
    accepts_state_versions: tuple[int, ...]
    module: str
    module_hash: bytes
    module_runtime: str
    entrypoint: str
    arms: Mapping[str, str]
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect with its schemas compiled; `executor` is the name a node binds.

    `secret` says that its params have a place for a reference to a secret.
    """

    name: str
    hash: bytes
    hash_text: str
    params: Schema
    receipt: Schema
    error: Schema
    progress: Schema | None
    cap_type: str
    idempotent: bool
    pure: bool
    timeout_ns: int | None
    module: str
    module_hash: bytes
    module_hash_text: str
    entrypoint: str
    runtime: str
    executor: str
    secret: bool


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which events reach which workflow, under which key, and how a missing cell begins."""

    event: str
    workflow: str
    key_field: str | None
    key_fn: Call | None
    create_if_missing: bool
    origins: tuple[str, ...]
    tags: tuple[str, ...]
    init_state: Admitted | None
    init_fn: Call | None


@dataclass(frozen=True, slots=True)
class Upcast:
    """A pure function that reads events of an older schema as the newer one."""

    name: str
    from_: str
    to: str
    module: str
    entrypoint: str


@dataclass(frozen=True, slots=True)
class Migration:
    """A pure function that carries a workflow's state from one version to another."""

    name: str
    workflow: str
    from_: int
    to: int
    module: str
    entrypoint: str


@dataclass(frozen=True, slots=True)
class Cap:
    """A capability definition; without `params` its grants have no fields."""

    name: str
    hash: bytes
    hash_text: str
    cap_type: str
    params: Schema | None
    order: Mapping[str, str]
    enforcer: Call | None


@dataclass(frozen=True, slots=True)
class Grant:
    """Authority given to a name; `hash` covers capability, params, expiry and parent."""

    name: str
    cap: str
    cap_hash: bytes
    cap_type: str
    params: dict[str, Any]
    expires_ns: int | None
    parent: str | None
    hash: bytes
    order: Mapping[str, str]
    enforcer: Call | None


def grant_hash(
    cap_hash: bytes, params: Mapping[str, Any], expires_ns: int | None, parent: bytes | None
) -> bytes:
    """The raw digest of a grant: what it allows, not what it is called (06 section 2).

    The parent enters by its own hash, which pins the whole line.
    """
    body: dict[str, Any] = {"cap_hash": canon.text_of(cap_hash), "params": dict(params)}
    if expires_ns is not None:
        body["expires_ns"] = expires_ns
    if parent is not None:
        body["parent"] = canon.text_of(parent)
    return canon.digest(body)


@dataclass(frozen=True, slots=True)
class Policy:
    """An ordered list of rules, as canonical dicts."""

    name: str
    rules: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key and the executors and effects it is trusted for."""

    executors: tuple[str, ...]
    effects: tuple[str, ...]
    public_key: bytes
