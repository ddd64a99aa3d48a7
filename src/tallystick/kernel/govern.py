"""Governance inputs: keys, grants, names, activation (K-20, X-19); proposals are in `propose`.

An activation happens at quiescence, or by a plan that names every open cell at the very seq it
was proved at; otherwise it is refused with the blockers, and the state root stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.authority.denial import Denial
from tallystick.errors import Conflict, Forbidden, UnknownName
from tallystick.kernel import plans, propose, quiescence, receipts
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.grants import grants_used, is_known
from tallystick.kernel.inputs import (
    Activate,
    MoveAlias,
    Planned,
    RevokeGrant,
    RevokeKey,
    Sample,
    TrustKey,
)
from tallystick.kernel.load import load_bundle
from tallystick.kernel.parts import is_unsent
from tallystick.kernel.proposals import APPROVED, Proposal, status_of
from tallystick.kernel.world import World
from tallystick.model.catalogue import Catalogue
from tallystick.model.cells import CellId
from tallystick.model.records import (
    AliasMoved,
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
    catalogue = load_bundle(given.manifest, given.blobs, world)
    _trust_listed(draft, catalogue, given.principal)
    return draft.frame(Answer("created", world.seq + 1))


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
    if not derived and not is_known(world, given.name):
        raise UnknownName(
            f"no grant {given.name} in the active manifest, and none was minted",
            code="grant.unknown",
            where={"grant": given.name},
            hint=f"known: {', '.join(sorted(world.active.catalogue.grants)[:20]) or 'none'}",
        )
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    draft.add(GrantRevoked(given.name, given.principal, given.reason, stamp))
    _end_open(draft, given.name, published=given.cancel_open)
    return draft.frame(Answer("governed", world.seq + 1))


def _end_open(draft: Draft, name: str, *, published: bool) -> None:
    """Deny what is held under a revoked grant, and cancel what is out if that was asked for.

    What derives from a grant bears its name (`name~...`).
    What derives from a derived one is found at its release, where the whole line is asked.
    """
    message = f"grant {name} was revoked"
    for _, intent in draft.world.intents.entries():
        if name not in grants_used(draft.world, intent):
            continue
        if is_unsent(intent.hold):
            denial = Denial("capability", "cap.revoked", message, path=name)
            receipts.deny(draft, intent.record, denial)
        elif published:
            payload = receipts.error_payload("cancelled", "cap.revoked", message)
            receipts.settle(draft, intent.record, "cancelled", payload)


def move_alias(world: World, given: MoveAlias) -> Frame:
    """A name means another world; this one is told, and is frozen if the name left it."""
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    draft.add(AliasMoved(given.alias, given.to, given.principal, stamp, given.from_))
    return draft.frame(Answer("governed", world.seq + 1))


def activate(world: World, given: Activate) -> Frame:
    """Switch to another bundle, or record the refusal with its blockers."""
    proposal = None
    if given.proposal is not None:
        proposal = _allowed(world, given, given.proposal)
    bundle, manifest = (
        (given.bundle, given.manifest) if proposal is None else (proposal.bundle, proposal.manifest)
    )
    catalogue = load_bundle(manifest, given.blobs, world)
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    refusal = _refusal(world, given, catalogue, proposal)
    if refusal is not None:
        code, blockers, count = refusal
        said = (bundle, code, blockers, count, given.principal, stamp)
        draft.add(ApplyRefused(*said, given.proposal))
        _told(draft, given, "refused", world.manifest, blockers)
        detail = {"code": code, "blockers": blockers, "count": count}
        return draft.frame(Answer("refused", world.seq + 1, None, detail))
    draft.blobs.update(given.blobs)
    plan = _plan(world, given)
    digest = None
    if plan is not None:
        digest, pages = plans.written(plan)
        draft.blobs.update(pages)
    made = _activation(world, given, proposal, (bundle, manifest), stamp)
    draft.add(made._replace(plan=digest))
    _trust_listed(draft, catalogue, given.principal)
    _told(draft, given, "applied", manifest, [])
    return draft.frame(Answer("activated", world.seq + 1))


def _plan(world: World, given: Activate) -> plans.Plan | None:
    """What happens to open cells; the one that asks for the change finishes under its old code."""
    asked = None if given.intent is None else world.intents.get(given.intent)
    if asked is None:
        return given.plan
    ident = CellId(asked.record.origin.workflow, asked.record.origin.key)
    cell = world.cell(ident)
    assert cell is not None, "a cell with open intents exists"
    return {**(given.plan or {}), ident: Planned(cell.last_seq, plans.PIN)}


def _allowed(world: World, given: Activate, ident: str) -> Proposal:
    """The proposal to apply; refuses what the rules in force do not allow yet.

    A stale one is refused on record, by `_refusal`.
    """
    propose.check_scope(world, given.principal, "apply")
    proposal = propose.known(world, ident)
    rules = propose.rules_in_force(world)
    where = {"proposal": ident}
    if given.plan is not None and not rules.beyond_quiescence:
        raise Forbidden(
            "the rules allow a change at quiescence only",
            code="gov.quiescence_only",
            where=where,
            hint="finish or cancel what is open, and apply without a plan",
        )
    # As if it were not stale: that is told on record.
    status = status_of(proposal, proposal.base, rules)
    if status != APPROVED:
        more = {"approvals": len(proposal.votes), "needed": rules.approvals}
        raise Conflict(
            f"{ident} is {status}, not approved",
            code="gov.not_approved",
            where={**where, "state": status, **more, "require": list(rules.require)},
            hint=f"`tally gov show {ident}` says what is missing",
        )
    return proposal


def _activation(
    world: World,
    given: Activate,
    proposal: Proposal | None,
    to: tuple[bytes, bytes],
    stamp: Stamp,
) -> BundleActivate:
    votes = () if proposal is None else proposal.votes
    return BundleActivate(
        to=to[1],
        bundle=to[0],
        mode="quiescent" if given.plan is None else "prove",
        principal=given.principal,
        proposal=given.proposal,
        from_=world.manifest,
        report_hash=given.report_hash or (None if proposal is None else proposal.report),
        approved_by=[{"principal": one.principal, "seq": one.seq} for one in votes] or None,
        stamp=stamp,
    )


def _told(draft: Draft, given: Activate, status: str, manifest: bytes, blockers: list[Any]) -> None:
    """Tell the workflow that asked for it, if one did."""
    named = [{"kind": kind, **detail} for kind, detail in blockers]
    answer = {
        "status": status,
        "manifest_hash": canon.text_of(manifest),
        "blockers": named,
        "code": None,
    }
    propose.settle_asked(draft, given.intent, answer)


def _refusal(
    world: World, given: Activate, catalogue: Catalogue, proposal: Proposal | None
) -> tuple[str, list[Any], int] | None:
    base = given.expect_manifest if proposal is None else proposal.base
    if base != world.manifest or given.expect_manifest != world.manifest:
        return "gov.stale_base", [], 0
    if given.plan is None:
        found, code = quiescence.named(world, given.intent), "gov.not_quiescent"
    else:
        plan = _plan(world, given) or given.plan
        found, code = plans.outdated(world, plan, catalogue), "gov.plan_outdated"
    first, count = found
    return (code, [[b.kind, b.detail] for b in first], count) if count else None
