"""Admission: from a requested effect to an intent or a denial (06 section 1).

Five stages in this order: declared, shape, capability, policy, capacity.
The first "no" ends it; the stages after it are not asked (K-06).
A denial is an ordinary receipt for the cell that asked, never a crash (D6).
"""

# tidy: the five stages are read as one trail.
from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from tallystick.authority.capabilities import (
    CapabilityRequest,
    CapabilityYes,
    judge_capability,
)
from tallystick.authority.denial import Denial
from tallystick.authority.enforcers import EnforcerAnswer
from tallystick.authority.policy import PolicyFacts, PolicyVerdict
from tallystick.errors import NotCanonical, SchemaMismatch
from tallystick.kernel.draft import Draft
from tallystick.kernel.grants import pass_on, slots_of
from tallystick.kernel.parts import CALL, READ, SPAWN, Cell
from tallystick.model.abi import EffectRequest, Halted
from tallystick.model.catalogue import Effect, Grant, Workflow
from tallystick.model.effects import Asked, Asker, intent_by_key, intent_by_position
from tallystick.model.records import (
    IntentAttached,
    IntentDenied,
    IntentOpened,
    Judged,
    JudgedGrant,
    JudgedRule,
    Origin,
)
from tallystick.values import canon
from tallystick.values.schema import Admitted

_UNKNOWN_HASH = canon.text_of(bytes(32))


class Asking(NamedTuple):
    """The tick that asks: its cell, workflow, position and logical time."""

    cell: Cell
    workflow: Workflow
    tick_seq: int
    logical_ns: int

    def origin(self, index: int) -> Origin:
        """The recorded origin of the effect at a position of this tick."""
        cell = self.cell
        workflow = self.workflow
        return Origin("workflow", workflow.name, workflow.hash, cell.id.key, self.tick_seq, index)

    def asker(self) -> Asker:
        """Who asks, for the identity of the intent."""
        return Asker(
            self.workflow.name, self.workflow.hash_text, self.cell.id.key, self.cell.born_seq
        )


class Opened(NamedTuple):
    """An effect that was admitted: what the kernel may do with it at once."""

    intent: bytes
    effect: Effect
    params: Admitted
    grant: Grant
    issuer_ref: str | None


def judge(draft: Draft, asking: Asking, index: int, wanted: EffectRequest) -> Opened | None:
    """Judge one effect and record the outcome; what was opened, or None."""
    effect = _declared(draft, asking, wanted)
    if isinstance(effect, Denial):
        _deny(draft, asking, index, wanted, effect, Judged("no"))
        return None
    params = _shaped(draft, effect, wanted)
    if isinstance(params, Denial):
        _deny(draft, asking, index, wanted, params, Judged("ok", "no"))
        return None
    unread = _undeclared_read(asking, effect, params)
    if unread is not None:
        _deny(draft, asking, index, wanted, unread, Judged("no", "ok"), params)
        return None
    intent = _identify(asking, index, wanted, effect, params)
    if wanted.idempotency_key is not None:
        again = _asked_before(draft, asking, intent, params)
        if isinstance(again, Denial):
            _deny(draft, asking, index, wanted, again, Judged("ok", "no"), params)
            return None
        if again:
            draft.add(IntentAttached(intent, asking.origin(index), wanted.issuer_ref))
            return None
    return _authorise(draft, asking, index, wanted, (intent, effect, params))


# ---- declared, shape ------------------------------------------------------------------------


def _declared(draft: Draft, asking: Asking, wanted: EffectRequest) -> Effect | Denial:
    if wanted.effect not in asking.workflow.effects_emitted:
        return Denial(
            "declared",
            "effect.undeclared",
            f"{wanted.effect} is not in effects_emitted of {asking.workflow.name}",
        )
    effect = draft.world.active.catalogue.effects.get(wanted.effect)
    if effect is None:
        return Denial(
            "declared", "effect.unknown", f"{wanted.effect} is not in the active manifest"
        )
    return effect


def _undeclared_read(asking: Asking, effect: Effect, params: Admitted) -> Denial | None:
    """A cell reads only the workflows that its definition names (X-27)."""
    if effect.name != READ or params.value["workflow"] in asking.workflow.reads:
        return None
    message = f"{params.value['workflow']} is not in reads of {asking.workflow.name}"
    return Denial("declared", "effect.undeclared", message, path="/workflow")


def _shaped(draft: Draft, effect: Effect, wanted: EffectRequest) -> Admitted | Denial:
    params = wanted.params
    if not isinstance(params, Admitted) or params.schema is not effect.params:
        raw = params.bytes if isinstance(params, Admitted) else params
        try:
            params = effect.params.admit(canon.decode(raw), "native")
        except (NotCanonical, SchemaMismatch) as why:
            path = why.errors[0]["path"] if isinstance(why, SchemaMismatch) and why.errors else ""
            return Denial("shape", "effect.params_invalid", why.message, path=path)
    most = draft.world.active.catalogue.limits.params_bytes_max
    if len(params.bytes) > most:
        message = f"params have {len(params.bytes)} bytes, over {most}"
        return Denial("shape", "effect.params_invalid", message, path="")
    return params


def _identify(
    asking: Asking, index: int, wanted: EffectRequest, effect: Effect, params: Admitted
) -> bytes:
    if wanted.idempotency_key is not None:
        return intent_by_key(asking.asker(), effect.name, wanted.idempotency_key)
    asked = Asked(
        effect.name,
        effect.hash_text,
        effect.module,
        effect.module_hash_text,
        effect.entrypoint,
        params.bytes,
    )
    return intent_by_position(asking.asker(), asked, asking.tick_seq, index)


def _asked_before(draft: Draft, asking: Asking, intent: bytes, params: Admitted) -> bool | Denial:
    """True when the key attaches; a denial when it was used with other parameters (D8)."""
    known = draft.keyed.get(intent)
    if known is not None:
        first = known.params_hash or sha256(known.params or b"").digest()
    else:
        entry = draft.world.keyed.get(intent)
        if entry is None:
            most = asking.workflow.limits.keys_max
            if len(asking.cell.keyed) + len(draft.keyed) >= most:
                message = f"the cell remembers {most} keys already"
                return Denial("shape", "effect.key_capacity", message)
            return False
        first = entry.params_digest()
    if first != params.digest:
        message = "this idempotency key was used with other parameters"
        return Denial("shape", "effect.key_conflict", message)
    return True


# ---- capability, policy, capacity -----------------------------------------------------------


def _authorise(
    draft: Draft,
    asking: Asking,
    index: int,
    wanted: EffectRequest,
    found: tuple[bytes, Effect, Admitted],
) -> Opened | None:
    intent, effect, params = found
    granted = _capability(draft, asking, wanted, effect, params)
    if isinstance(granted, Denial):
        _deny(draft, asking, index, wanted, granted, Judged("ok", "ok"), params, intent)
        return None
    grant = JudgedGrant(granted.slot, granted.grant.name, granted.grant.hash)
    facts = _facts_digest(asking, intent, grant)
    verdict = _policy(draft, asking, effect, params, granted.grant)
    if isinstance(verdict, Denial):
        judged = Judged("ok", "ok", grant, None, None, facts)
        _deny(draft, asking, index, wanted, verdict, judged, params, intent)
        return None
    rule = JudgedRule(verdict.policy, verdict.rule, verdict.decision, verdict.id)
    # Flows and budgets are judged here once a manifest can hold them; without any there is room.
    judged = Judged("ok", "ok", grant, rule, "ok", facts)
    inline, by_hash = draft.store(params.bytes)
    draft.add(
        IntentOpened(
            intent=intent,
            effect=effect.name,
            effect_hash=effect.hash,
            executor=effect.executor,
            origin=asking.origin(index),
            judged=judged,
            params=inline,
            params_hash=by_hash,
            issuer_ref=wanted.issuer_ref,
            idempotency_key=wanted.idempotency_key,
            timeout_at_ns=_timeout(asking, wanted, effect),
            hold=_hold(verdict, draft.seq + 1),
        )
    )
    return Opened(intent, effect, params, granted.grant, wanted.issuer_ref)


def _capability(
    draft: Draft, asking: Asking, wanted: EffectRequest, effect: Effect, params: Admitted
) -> CapabilityYes | Denial:
    world = draft.world
    slots, grants = slots_of(world, asking.cell, asking.workflow)
    verdict = judge_capability(
        CapabilityRequest(
            effect=effect,
            slots=slots,
            declared=asking.workflow.cap_slots,
            cap_slot=wanted.cap_slot,
            params=params.value,
            origin={"kind": "workflow", "workflow": asking.workflow.name},
            logical_now_ns=asking.logical_ns,
            revoked=world.revoked,
            grants=grants,
            enforce=lambda grant, question: _enforce(draft, grant, question),
        )
    )
    if isinstance(verdict, CapabilityYes) and effect.name in (SPAWN, CALL):
        caps = params.value["caps"]
        if caps is not None:
            given = pass_on(world, asking.cell, asking.workflow, caps, b"")
            if isinstance(given, Denial):
                return given
    return verdict


def _enforce(draft: Draft, grant: Grant, question: Mapping[str, Any]) -> EnforcerAnswer:
    """Ask an enforcer that a bundle brings; its fault denies."""
    assert grant.enforcer is not None, "only a grant with an enforcer is asked"
    answer = draft.world.runner.pure(*grant.enforcer, canon.encode(dict(question)), None)
    if isinstance(answer, Halted):
        raise SchemaMismatch(answer.message, code="cap.enforcer_fault")
    said = canon.decode(answer)
    return EnforcerAnswer(said["ok"] is True, said.get("field"), said.get("message"))


def _policy(
    draft: Draft, asking: Asking, effect: Effect, params: Admitted, grant: Grant
) -> PolicyVerdict | Denial:
    workflow = asking.workflow
    return draft.world.active.rules.judge(
        PolicyFacts(
            effect=effect.name,
            cap=grant.cap,
            cap_type=grant.cap_type,
            grant=grant.name,
            origin={"kind": "workflow", "workflow": workflow.name},
            workflow=workflow.name,
            tags=workflow.tags,
            params=params.value,
            key=asking.cell.id.key,
            now_ns=asking.logical_ns,
        )
    )


def _facts_digest(asking: Asking, intent: bytes, grant: JudgedGrant) -> bytes:
    """The facts behind a judgement; the intent binds effect, params and cell already."""
    return sha256(
        b"facts@1" + intent + grant.grant_hash + asking.logical_ns.to_bytes(8, "big")
    ).digest()


def _timeout(asking: Asking, wanted: EffectRequest, effect: Effect) -> int | None:
    length = effect.timeout_ns if wanted.timeout_ns is None else wanted.timeout_ns
    return None if length is None else asking.logical_ns + length


def _hold(verdict: PolicyVerdict, seq: int) -> Mapping[str, Any] | None:
    if verdict.decision != "require_approval":
        return None
    detail = None if verdict.approval is None else dict(verdict.approval)
    return {"kind": "approval", "since_seq": seq, "detail": detail}


def _deny(
    draft: Draft,
    asking: Asking,
    index: int,
    wanted: EffectRequest,
    why: Denial,
    judged: Judged,
    params: Admitted | None = None,
    intent: bytes | None = None,
) -> None:
    raw = wanted.params.bytes if isinstance(wanted.params, Admitted) else wanted.params
    effect = draft.world.active.catalogue.effects.get(wanted.effect)
    if intent is None:
        intent = _denied_identity(asking, index, wanted.effect, effect, raw)
    inline, by_hash = draft.store(raw if params is None else params.bytes)
    draft.add(
        IntentDenied(
            intent=intent,
            effect=wanted.effect,
            effect_hash=None if effect is None else effect.hash,
            origin=asking.origin(index),
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


def _denied_identity(
    asking: Asking, index: int, name: str, effect: Effect | None, raw: bytes
) -> bytes:
    """The position names a denial; an effect that nobody defined has no hashes to bind."""
    if effect is None:
        asked = Asked(name, _UNKNOWN_HASH, "", _UNKNOWN_HASH, "", raw)
    else:
        asked = Asked(
            name,
            effect.hash_text,
            effect.module,
            effect.module_hash_text,
            effect.entrypoint,
            raw,
        )
    return intent_by_position(asking.asker(), asked, asking.tick_seq, index)
