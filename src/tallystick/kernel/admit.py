"""Admission: from a requested effect to an intent or a denial (06 section 1).

Five stages in this order: declared, shape, capability, policy, capacity.
The first "no" ends it; the stages after it are not asked (K-06).
A denial is an ordinary receipt for the cell that asked, never a crash (D6).
"""

# tidy: the five stages are read as one trail.
from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from struct import Struct
from typing import Any, Final, NamedTuple

from tallystick.authority.capabilities import (
    CapabilityRequest,
    CapabilityYes,
    judge_capability,
    judge_tools,
)
from tallystick.authority.denial import Denial
from tallystick.authority.policy import PolicyFacts, PolicyVerdict
from tallystick.authority.secrets import forbidden_secret, unknown_secret
from tallystick.errors import NotCanonical, SchemaMismatch
from tallystick.kernel.active import Agreed
from tallystick.kernel.capacity import take_room
from tallystick.kernel.draft import Draft
from tallystick.kernel.grants import enforced, pass_on, slots_of
from tallystick.kernel.keys import asked_before
from tallystick.kernel.parts import CALL, CANCEL, PLAY_STEP, READ, SPAWN, Cell
from tallystick.kernel.pins import asked_under
from tallystick.kernel.world import World
from tallystick.model.abi import EffectRequest
from tallystick.model.catalogue import Effect, Grant, Workflow
from tallystick.model.effects import Asked, Asker, Site, intent_by_key, intent_by_position
from tallystick.model.records import (
    IntentAttached,
    IntentDenied,
    IntentOpened,
    Judged,
    JudgedGrant,
    JudgedRule,
    Origin,
)
from tallystick.model.tuples import make
from tallystick.values import canon
from tallystick.values.schema import Admitted
from tallystick.values.schema.references import Reference, references

# The effects that need no executor: a tick that asks for one has its receipt in the same frame.
PERFORMED: Final = frozenset({SPAWN, CALL, READ, CANCEL})
_NEVER_NS = 2**63 - 1  # the calendar's last moment
_WHEN: Final = Struct(">Q").pack
_UNKNOWN_HASH = canon.text_of(bytes(32))


class Asking(NamedTuple):
    """The tick that asks: its cell, workflow, position and logical time."""

    cell: Cell
    workflow: Workflow
    tick_seq: int
    logical_ns: int

    def asker(self) -> Asker:
        """Who asks, for the identity of an intent with a key."""
        workflow = self.workflow
        return Asker(workflow.name, workflow.hash_text, self.cell.id.key, self.cell.born_seq)


class Case(NamedTuple):
    """One effect before the five stages: who asks, at which place of the tick, for what."""

    draft: Draft
    asking: Asking
    index: int  # type: ignore[assignment]  # the ABI's word; tuple.index is not used
    wanted: EffectRequest

    def origin(self) -> Origin:
        """The recorded origin of this effect."""
        _, asking, index, _ = self
        cell, workflow, tick_seq, _ = asking
        fields = ("workflow", workflow.name, workflow.hash, cell.id.key, tick_seq, index)
        return make(Origin, fields)


class Opened(NamedTuple):
    """An effect that was admitted and that the kernel performs itself, at once."""

    intent: bytes
    effect: Effect
    params: Admitted
    issuer_ref: str | None


# The tick that asks, as it is handed down: its draft, cell, workflow, position and logical time.
Place = tuple[Draft, Cell, Workflow, int, int]


def ask(place: Place, index: int, wanted: EffectRequest) -> Opened | None:
    """Judge one effect of a tick: by a yes that stands whatever is asked, else by all stages."""
    draft, cell, workflow, tick_seq, logical_ns = place
    name, params, _, key, slot, _ = wanted
    agreed = _standing(draft.world, cell, key, (workflow.name, name, slot))
    if agreed is not None and not draft.world.active.flows:
        effect, site, held, grant, verdict, rule = agreed
        fitting = _shaped(workflow, effect, params)
        if verdict is not None and type(fitting) is Admitted and name != PLAY_STEP:
            intent = site.intent(cell.id.key, fitting.bytes, tick_seq, index)
            facts = _facts_digest(logical_ns, intent, held.hash)
            judged = make(Judged, ("ok", "ok", grant, rule, "ok", facts))
            return _opened(place, (index, wanted, intent, fitting), effect, judged)
    return judge(Case(draft, Asking(cell, workflow, tick_seq, logical_ns), index, wanted))


# tidy: the order of the questions is the rule.
def judge(case: Case) -> Opened | None:
    """Judge one effect and record the outcome; what was opened, if the kernel performs it."""
    draft, asking, index, wanted = case
    cell, workflow, tick_seq, _ = asking
    name, asked, _, key, slot, _ = wanted
    agreed = _standing(draft.world, cell, key, (workflow.name, name, slot))
    if agreed is not None:
        fitting = _shaped(workflow, agreed.effect, asked)
        if type(fitting) is Admitted and (name != PLAY_STEP or _has_tools(case, fitting)):
            intent = agreed.site.intent(cell.id.key, fitting.bytes, tick_seq, index)
            return _agree(case, intent, fitting, agreed)
    effect = _declared(case)
    if isinstance(effect, Denial):
        return _deny(case, effect, Judged("no"))
    params = _shaped(workflow, effect, asked)
    if isinstance(params, Denial):
        return _deny(case, params, Judged("ok", "no"))
    if effect.name == READ:
        unread = _undeclared_read(case, params)
        if unread is not None:
            return _deny(case, unread, Judged("no", "ok"), params)
    if key is None:
        intent = _site(case, effect).intent(cell.id.key, params.bytes, tick_seq, index)
        return _authorise(case, intent, effect, params)
    intent = intent_by_key(asking.asker(), effect.name, key)
    again = asked_before(draft, cell, workflow, intent, params)
    if isinstance(again, Denial):
        return _deny(case, again, Judged("ok", "no"), params)
    if again:
        draft.add(IntentAttached(intent, case.origin(), wanted.issuer_ref))
        return None
    return _authorise(case, intent, effect, params)


def _standing(
    world: World, cell: Cell, key: bytes | None, place: tuple[str, str, str | None]
) -> Agreed | None:
    """A yes that was given before and still holds whatever is asked; else all stages are asked."""
    if key is not None or world.revoked or not _has_usual_slots(cell):
        return None
    return world.active.standing.get(place)


def _has_usual_slots(cell: Cell) -> bool:
    """True for a cell to which a yes applies that its workflow was given before."""
    if cell.pin is not None:
        return False  # its effects are not those of the active manifest
    return cell.caps is None or "beside" in cell.caps  # else its slots are its own


def _has_tools(case: Case, params: Admitted) -> bool:
    """True unless a step asks for a tool without a grant, or with one that ends some day."""
    asking = case.asking
    slots, _ = slots_of(case.draft.world, asking.cell, asking.workflow)
    held = [slots.get(f"tool.{kind}") for kind in params.value["kinds"]]
    # An expiry has a say at each step: an agreement would outlive it until the node starts again.
    return all(grant is not None and grant.expires_ns is None for grant in held)


def _site(case: Case, effect: Effect) -> Site:
    """The prepared identity of this workflow and effect, made once per manifest."""
    workflow = case.asking.workflow
    if case.asking.cell.pin is not None:
        return Site(workflow.name, workflow.hash_text, _asked(effect.name, effect, b""))
    sites = case.draft.world.active.sites
    found = sites.get((workflow.name, effect.name))
    if found is None:
        asked = _asked(effect.name, effect, b"")
        found = sites[workflow.name, effect.name] = Site(workflow.name, workflow.hash_text, asked)
    return found


# ---- declared, shape ------------------------------------------------------------------------


def _declared(case: Case) -> Effect | Denial:
    name, workflow = case.wanted.effect, case.asking.workflow
    if name not in workflow.effects_emitted:
        message = f"{name} is not in effects_emitted of {workflow.name}"
        return Denial("declared", "effect.undeclared", message)
    effect = asked_under(case.draft.world, case.asking.cell, case.asking.workflow).effects.get(name)
    if effect is None:
        return Denial("declared", "effect.unknown", f"{name} is not in the active manifest")
    return effect


def _undeclared_read(case: Case, params: Admitted) -> Denial | None:
    """A cell reads only the workflows that its definition names (X-27)."""
    workflow = case.asking.workflow
    if params.value["workflow"] in workflow.reads:
        return None
    message = f"{params.value['workflow']} is not in reads of {workflow.name}"
    return Denial("declared", "effect.undeclared", message, path="/workflow")


def _shaped(workflow: Workflow, effect: Effect, params: bytes | Admitted) -> Admitted | Denial:
    if type(params) is not Admitted or params.schema is not effect.params:
        raw = params.bytes if isinstance(params, Admitted) else params
        try:
            params = effect.params.exact(raw) or effect.params.admit(canon.decode(raw), "native")
        except (NotCanonical, SchemaMismatch) as why:
            path = why.errors[0]["path"] if isinstance(why, SchemaMismatch) and why.errors else ""
            return Denial("shape", "effect.params_invalid", why.message, path=path)
    most = workflow.limits.params_bytes_max
    if len(params.bytes) > most:
        message = f"params have {len(params.bytes)} bytes, over {most}"
        return Denial("shape", "effect.params_invalid", message, path="")
    return params


# ---- capability, policy, capacity -----------------------------------------------------------


def _authorise(case: Case, intent: bytes, effect: Effect, params: Admitted) -> Opened | None:
    secrets = references(effect.params.node, params.value) if effect.secret else ()
    known = case.draft.world.active.catalogue.secrets
    unknown = unknown_secret(secrets, known)
    if unknown is not None:
        return _deny(case, unknown, Judged("ok", "no"), params)
    granted = _granted(case, effect, params, secrets)
    if isinstance(granted, Denial):
        return _deny(case, granted, Judged("ok", "ok"), params, intent)
    held = granted.grant
    grant = JudgedGrant(granted.slot, held.name, held.hash)
    agreed = Agreed(effect, _site(case, effect), held, grant)
    if _stands(case, agreed):
        rules = case.draft.world.active.rules
        verdict = rules.standing(_policy_facts(case, effect, params, held))
        if isinstance(verdict, PolicyVerdict) and verdict.decision == "allow":
            agreed = agreed._replace(verdict=verdict, rule=_judged_rule(verdict))
        place = (case.asking.workflow.name, effect.name, case.wanted.cap_slot)
        case.draft.world.active.standing[place] = agreed
    return _agree(case, intent, params, agreed)


def _agree(case: Case, intent: bytes, params: Admitted, agreed: Agreed) -> Opened | None:
    """Ask policy, unless it always says the same, and then capacity."""
    if agreed.verdict is not None and not case.draft.world.active.flows:
        return _open(case, intent, params, agreed)
    held, grant = agreed.held, agreed.grant
    facts = _policy_facts(case, agreed.effect, params, held)
    if agreed.verdict is None:
        verdict = case.draft.world.active.rules.judge(facts)
        if isinstance(verdict, Denial):
            digest = _facts_digest(case.asking.logical_ns, intent, held.hash)
            judged = Judged("ok", "ok", grant, None, None, digest)
            return _deny(case, verdict, judged, params, intent)
        effect, site = agreed.effect, agreed.site
        agreed = make(Agreed, (effect, site, held, grant, verdict, _judged_rule(verdict)))
    return _open(case, intent, params, agreed, facts)


def _judged_rule(verdict: PolicyVerdict) -> JudgedRule:
    return make(JudgedRule, (verdict.policy, verdict.rule, verdict.decision, verdict.id))


def _stands(case: Case, agreed: Agreed) -> bool:
    """True when the capability would say the same to any parameters, at any time, to any cell.

    Revocation and caps of a cell's own are asked for when the agreement is used.
    """
    held = agreed.held
    if held.enforcer is not None or held.expires_ns is not None or held.parent is not None:
        return False
    # Internal effects name workflows and capabilities in their parameters, others secrets.
    asks_more = agreed.effect.name in (SPAWN, CALL, READ) or agreed.effect.secret
    return not asks_more and _has_usual_slots(case.asking.cell)


def _open(
    case: Case, intent: bytes, params: Admitted, agreed: Agreed, asked: PolicyFacts | None = None
) -> Opened | None:
    """Record an intent that capability and policy have agreed to; flows are asked with facts."""
    draft, asking, index, wanted = case
    effect, _, held, grant, verdict, rule = agreed
    assert verdict is not None, "policy has spoken"
    cell, workflow, tick_seq, logical_ns = asking
    facts = _facts_digest(logical_ns, intent, held.hash)
    hold = None if verdict.decision == "allow" else _hold(verdict, draft.seq + 1, logical_ns)
    claims = None
    if asked is not None and draft.world.active.flows:
        taken = take_room(draft, asked, case.origin(), intent, held=hold is not None)
        if isinstance(taken, Denial):
            return _deny(case, taken, Judged("ok", "ok", grant, rule, "no", facts), params, intent)
        claims, hold = taken.claims, taken.hold or hold
    place = (draft, cell, workflow, tick_seq, logical_ns)
    judged = Judged("ok", "ok", grant, rule, "ok", facts)
    return _opened(place, (index, wanted, intent, params), effect, judged, (hold, claims))


# tidy: one record, all of its fields.
def _opened(
    place: Place,
    asked: tuple[int, EffectRequest, bytes, Admitted],
    effect: Effect,
    judged: Judged,
    waits: tuple[Mapping[str, Any] | None, list[dict[str, Any]] | None] = (None, None),
) -> Opened | None:
    """Record an intent that all stages have agreed to, with its hold and its claims."""
    draft, cell, workflow, tick_seq, logical_ns = place
    index, wanted, intent, params = asked
    hold, claims = waits
    _, _, issuer_ref, key, _, length = wanted
    inline, by_hash = draft.store(params.bytes)
    if length is None:
        length = effect.timeout_ns
    name = effect.name
    fields = (
        intent,
        name,
        effect.hash,
        effect.executor,
        make(Origin, ("workflow", workflow.name, workflow.hash, cell.id.key, tick_seq, index)),
        judged,
        inline,
        by_hash,
        issuer_ref,
        key,
        None if length is None else min(logical_ns + length, _NEVER_NS),
        hold,
        claims,
    )
    record = make(IntentOpened, fields)
    draft.records.append(record)
    draft.opened[intent] = record  # what follows in the frame finds it open
    # What has an executor elsewhere is left to it, what is held to its release.
    if hold is not None or name not in PERFORMED:
        return None
    return Opened(intent, effect, params, issuer_ref)


def judge_again(
    case: Case, effect: Effect, params: Admitted, *, approved: bool
) -> CapabilityYes | Denial:
    """Ask capability and policy of a held intent once more; authority is always today's."""
    active = case.draft.world.active
    secrets = references(effect.params.node, params.value) if effect.secret else ()
    unknown = unknown_secret(secrets, active.catalogue.secrets)
    if unknown is not None:
        return unknown
    granted = _granted(case, effect, params, secrets)
    if isinstance(granted, Denial):
        return granted
    verdict = active.rules.judge(_policy_facts(case, effect, params, granted.grant))
    if isinstance(verdict, Denial):
        return verdict
    if verdict.decision == "require_approval" and not approved:
        message = "by now the policy asks for an approval, and the intent was opened without one"
        return Denial("policy", "policy.approval_missing", message, verdict.id)
    return granted


def _granted(
    case: Case, effect: Effect, params: Admitted, secrets: tuple[Reference, ...]
) -> CapabilityYes | Denial:
    """The grant that agrees, also to the secrets that the parameters name."""
    granted = _capability(case, effect, params)
    if isinstance(granted, Denial) or not secrets:
        return granted
    known = case.draft.world.active.catalogue.secrets
    return forbidden_secret(secrets, known, granted.grant.name) or granted


def _origin_facts(workflow: str) -> Mapping[str, Any]:
    return {"kind": "workflow", "workflow": workflow}


def _capability(case: Case, effect: Effect, params: Admitted) -> CapabilityYes | Denial:
    world, asking = case.draft.world, case.asking
    workflow = asking.workflow
    slots, grants = slots_of(world, asking.cell, workflow)
    fields = (
        effect,
        slots,
        workflow.cap_slots,
        case.wanted.cap_slot,
        params.value,
        _origin_facts(workflow.name),
        asking.logical_ns,
        world.revoked,
        grants,
        lambda grant, question: enforced(world, grant, question),
    )
    request = make(CapabilityRequest, fields)
    verdict = judge_capability(request)
    if effect.name == PLAY_STEP and not isinstance(verdict, Denial):
        return judge_tools(request) or verdict
    if effect.name in (SPAWN, CALL) and not isinstance(verdict, Denial):
        caps = params.value["caps"]
        if caps is not None:
            given = pass_on(world, asking.cell, workflow, caps, b"")
            if isinstance(given, Denial):
                return given
    return verdict


def _policy_facts(case: Case, effect: Effect, params: Admitted, grant: Grant) -> PolicyFacts:
    asking = case.asking
    workflow = asking.workflow
    fields = (
        effect.name,
        grant.cap,
        grant.cap_type,
        grant.name,
        _origin_facts(workflow.name),
        workflow.name,
        workflow.tags,
        params.value,
        asking.cell.id.key,
        asking.logical_ns,
    )
    return make(PolicyFacts, fields)


def _facts_digest(logical_ns: int, intent: bytes, grant_hash: bytes) -> bytes:
    """The facts behind a judgement; the intent binds effect, params and cell already."""
    return sha256(b"".join((b"facts@1", intent, grant_hash, _WHEN(logical_ns)))).digest()


def _hold(verdict: PolicyVerdict, seq: int, logical_ns: int) -> Mapping[str, Any]:
    """The hold of an intent that waits for people: who may say yes, how many, until when."""
    asked = verdict.approval or {}
    detail: dict[str, Any] = {"count": asked.get("count", 1)}
    if "by" in asked:
        detail["by"] = list(asked["by"])
    if "ttl_ns" in asked:
        detail["expires_ns"] = min(logical_ns + asked["ttl_ns"], _NEVER_NS)
    return {"kind": "approval", "since_seq": seq, "detail": detail}


# tidy: one record, all of its fields.
def _deny(
    case: Case,
    why: Denial,
    judged: Judged,
    params: Admitted | None = None,
    intent: bytes | None = None,
) -> Opened | None:
    """Record a denial, and open nothing; its receipt follows at the end of the frame."""
    draft, wanted = case.draft, case.wanted
    raw = wanted.params.bytes if isinstance(wanted.params, Admitted) else wanted.params
    effect = asked_under(draft.world, case.asking.cell, case.asking.workflow).effects.get(
        wanted.effect
    )
    if intent is None:
        asked = _asked(wanted.effect, effect, raw)
        asking = case.asking
        intent = intent_by_position(asking.asker(), asked, asking.tick_seq, case.index)
    inline, by_hash = draft.store(raw if params is None else params.bytes)
    draft.add(
        IntentDenied(
            intent=intent,
            effect=wanted.effect,
            effect_hash=None if effect is None else effect.hash,
            origin=case.origin(),
            judged=judged,
            stage=why.stage,
            code=why.code,
            message=why.message,
            params=inline,
            params_hash=by_hash,
            issuer_ref=wanted.issuer_ref,
            idempotency_key=wanted.idempotency_key,
            normalised=None if params is not None else False,
            rule=why.rule,
            path=why.path,
        )
    )
    return None


def _asked(name: str, effect: Effect | None, params: bytes) -> Asked:
    """What is asked for; an effect that nobody defined has no hashes to bind."""
    if effect is None:
        return Asked(name, _UNKNOWN_HASH, "", _UNKNOWN_HASH, "", params)
    return Asked(
        effect.name,
        effect.hash_text,
        effect.module,
        effect.module_hash_text,
        effect.entrypoint,
        params,
    )
