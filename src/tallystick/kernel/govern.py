"""Governance inputs that the kernel itself decides: keys, grants, activation (K-20, X-19).

Proposals, shadows and approvals lie above; what reaches the kernel is their outcome.
An activation happens at quiescence, or by a plan that names every open cell at the very seq it
was proved at; otherwise it is refused with the blockers, and the state root stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.authority.denial import Denial
from tallystick.authority.flow import compile_flows
from tallystick.authority.policy import Rules
from tallystick.errors import BadDefinition, Conflict, UnknownName
from tallystick.kernel import plans, quiescence, receipts
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.inputs import Activate, RevokeGrant, RevokeKey, Sample, TrustKey
from tallystick.kernel.parts import OWN_HOLDS
from tallystick.kernel.world import World
from tallystick.model.catalogue import Catalogue
from tallystick.model.records import (
    ApplyRefused,
    BundleActivate,
    GrantRevoked,
    KeyRevoked,
    KeyTrusted,
    Stamp,
    WorldCreated,
)
from tallystick.values import canon
from tallystick.values.seal import key_id_of


class Genesis:
    """What a new world begins with: its id, its bundle, and the node's own key."""

    __slots__ = ("blobs", "bundle", "manifest", "node_key", "principal", "sample", "world")

    def __init__(
        self,
        *,
        world: str,
        sample: Sample,
        bundle: bytes,
        manifest: bytes,
        blobs: Mapping[bytes, bytes],
        node_key: bytes,
        principal: str = "node",
    ) -> None:
        self.world = world
        self.sample = sample
        self.bundle = bundle
        self.manifest = manifest
        self.blobs = blobs
        self.node_key = node_key
        self.principal = principal


def create(world: World, given: Genesis) -> Frame:
    """The first frame of a world: it is created, trusts its node, and has a manifest."""
    assert world.seq == 0, "a world is created once"
    draft = Draft(world)
    draft.blobs.update(given.blobs)
    stamp = draft.stamp(given.sample)
    draft.add(WorldCreated(given.world, given.principal, stamp))
    draft.add(
        BundleActivate(
            to=given.manifest, bundle=given.bundle, mode="genesis", principal=given.principal
        )
    )
    _trust(draft, given.node_key, (["*"], ["*"]), given.principal, None)
    catalogue = _load(given.manifest, given.blobs, world)
    _trust_listed(draft, catalogue, given.principal)
    return draft.frame(Answer("created", world.seq + 1))


def _load(manifest: bytes, blobs: Mapping[bytes, bytes], world: World) -> Catalogue:
    """The catalogue of a bundle that is not in the world yet; refuses a broken one."""

    def node(text: str) -> Any:
        digest = canon.raw_of(text)
        data = blobs.get(digest) or world.blobs.get(digest)
        if data is None:
            raise BadDefinition(
                f"{text} is not in the bundle", code="bundle.incomplete", where={"hash": text}
            )
        return canon.decode(data)

    catalogue = Catalogue.load(node(canon.text_of(manifest)), node)
    # Folding never refuses, so what it would compile is compiled here first.
    Rules.compile(catalogue.policies)
    compile_flows(catalogue.flows, catalogue.budgets)
    return catalogue


def _trust(
    draft: Draft,
    public_key: bytes,
    names: tuple[list[str], list[str]],
    principal: str,
    stamp: Stamp | None,
) -> None:
    executors, effects = names
    key = key_id_of(public_key)
    draft.add(KeyTrusted(key, public_key, executors, effects, principal, stamp))


def _trust_listed(draft: Draft, catalogue: Catalogue, principal: str) -> None:
    """Keys of the manifest become trusted at activation; a revoked one stays revoked."""
    for listed in catalogue.trust:
        if key_id_of(listed.public_key) not in draft.world.keys:
            names = (list(listed.executors), list(listed.effects))
            _trust(draft, listed.public_key, names, principal, None)


def trust_key(world: World, given: TrustKey) -> Frame:
    """Trust a key from now on; no quiescence is needed."""
    draft = Draft(world)
    known = world.keys.get(key_id_of(given.public_key))
    if known is not None and known.revoked:
        raise Conflict(
            "this key was revoked and stays revoked",
            code="key.revoked",
            where={"key": key_id_of(given.public_key)},
            hint="make a new key",
        )
    names = (list(given.executors), list(given.effects))
    _trust(draft, given.public_key, names, given.principal, draft.stamp(given.sample))
    return draft.frame(Answer("governed", world.seq + 1))


def revoke_key(world: World, given: RevokeKey) -> Frame:
    """Stop trusting a key; receipts that settled before stay settled."""
    if given.key not in world.keys:
        raise UnknownName(
            f"no key {given.key} is trusted", code="key.unknown", where={"key": given.key}
        )
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    draft.add(KeyRevoked(given.key, given.principal, given.reason, stamp))
    return draft.frame(Answer("governed", world.seq + 1))


def revoke_grant(world: World, given: RevokeGrant) -> Frame:
    """Revoke a grant at once; what derives from it dies with it."""
    derived = "~" in given.name
    if not derived and given.name not in world.active.catalogue.grants:
        raise UnknownName(
            f"no grant {given.name} in the active manifest",
            code="grant.unknown",
            where={"grant": given.name},
        )
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    draft.add(GrantRevoked(given.name, given.principal, given.reason, stamp))
    _deny_held(draft, given.name)
    return draft.frame(Answer("governed", world.seq + 1))


def _deny_held(draft: Draft, name: str) -> None:
    """Deny what is held under a revoked grant; what derives from it bears its name (`name~...`).

    What derives from a derived one is found at its release, where the whole line is asked.
    """
    for _, intent in draft.world.intents.entries():
        used = intent.record.judged.capability
        if intent.hold is None or intent.hold["kind"] not in OWN_HOLDS or used is None:
            continue
        if used.grant == name or used.grant.partition("~")[0] == name:
            message = f"grant {name} was revoked"
            denial = Denial("capability", "cap.revoked", message, path=name)
            receipts.deny(draft, intent.record, denial)


def activate(world: World, given: Activate) -> Frame:
    """Switch to another bundle, or record the refusal with its blockers."""
    catalogue = _load(given.manifest, given.blobs, world)
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    refusal = _refusal(world, given, catalogue)
    if refusal is not None:
        code, blockers, count = refusal
        draft.add(ApplyRefused(given.bundle, code, blockers, count, given.principal, stamp))
        return draft.frame(Answer("refused", world.seq + 1, None, blockers))
    draft.blobs.update(given.blobs)
    plan = None
    if given.plan is not None:
        plan, pages = plans.written(given.plan)
        draft.blobs.update(pages)
    draft.add(
        BundleActivate(
            to=given.manifest,
            bundle=given.bundle,
            mode="quiescent" if given.plan is None else "prove",
            principal=given.principal,
            from_=world.manifest,
            plan=plan,
            report_hash=given.report_hash,
            stamp=stamp,
        )
    )
    _trust_listed(draft, catalogue, given.principal)
    return draft.frame(Answer("activated", world.seq + 1))


def _refusal(
    world: World, given: Activate, catalogue: Catalogue
) -> tuple[str, list[Any], int] | None:
    if given.expect_manifest != world.manifest:
        return "gov.stale_base", [], 0
    if given.plan is None:
        found, code = quiescence.named(world), "gov.not_quiescent"
    else:
        found, code = plans.outdated(world, given.plan, catalogue), "gov.plan_outdated"
    first, count = found
    return (code, [[b.kind, b.detail] for b in first], count) if count else None
