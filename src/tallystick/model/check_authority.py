"""Capabilities, grants, slots, policies and trusted keys under check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tallystick.errors import SchemaMismatch
from tallystick.model.catalogue_parts import Policy
from tallystick.model.check_routing import subscribed
from tallystick.model.check_work import MANIFEST, Definition, Place, Work
from tallystick.values.names import nearest

# (code, `policy#/path`, message) of everything wrong with policies read in this order.
# The judgement belongs to the room `authority`, which this one may not import.
PolicyFindings = Callable[[Sequence[Policy]], list[tuple[str, str, str]]]


def check_caps(work: Work) -> None:
    """Capability definitions, and grants under them."""
    for at, cap in work.own("defcap"):
        params = work.schema(cap.get("params"), at / "params")
        if "enforcer" in cap:
            signature = ("sys/CapCheck@1", "sys/CapVerdict@1")
            work.call(cap["enforcer"], at / "enforcer", signature)
        fields = params.type.get("record", {}) if params is not None else {}
        if params is not None or "params" not in cap:
            for word in cap.get("order", {}):
                if word not in fields:
                    message = f"its grants have no field {word}"
                    work.add(
                        "cap.bad_params", at / "order" / word, message, nearest(word, list(fields))
                    )
    names: dict[str, bool] = {}
    for i, grant in enumerate(work.wiring.get("authority", {}).get("grants", ())):
        here = Place(MANIFEST) / "authority" / "grants" / i
        if grant["name"] in names:
            message = f"{grant['name']} is granted twice"
            work.add("def.duplicate", here / "name", message, "give one of them another name")
        names[grant["name"]] = True
        cap = work.refer("defcap", grant["cap"], here / "cap") or {}
        _grant(work, here / "params", grant.get("params", {}), cap)


def _grant(work: Work, at: Place, params: Any, cap: Definition) -> None:
    if not cap:
        return
    if "params" not in cap:
        if params:
            message = f"{cap['name']} has no fields"
            work.add("cap.bad_params", at, message, "leave params out")
        return
    schema = work.schemas.get(cap["params"])
    if schema is None:
        return
    try:
        schema.admit(params, "sugar")
    except SchemaMismatch as error:
        for fault in error.errors:
            message = f"expected {fault['expected']}, got {fault['got']}"
            here = Place(at.def_name, f"{at.path}{fault['path']}")
            work.add("cap.bad_params", here, message, f"it must fit {schema.name}")


def check_slots(work: Work) -> None:
    """Bindings, and workflows whose effects nobody could ever be granted."""
    grants = _grant_types(work)
    bindings = work.wiring.get("module_bindings", {})
    for name in bindings:
        at = Place(MANIFEST) / "module_bindings" / name
        flow = work.refer("defworkflow", name, at)
        for slot, grant in bindings[name].get("slots", {}).items():
            declared = flow.get("cap_slots", {}).get(slot) if flow is not None else None
            _slot(work, at / "slots" / slot, grant, declared, grants)
    types = [defn["cap_type"] for defn in work.kinds["defcap"].values()]
    for at, flow in work.own("defworkflow"):
        for slot, wanted in flow.get("cap_slots", {}).items():
            if wanted not in types and "defcap" not in work.lost:
                message = f"no capability has the type {wanted}"
                work.add("ref.cap", at / "cap_slots" / slot, message, nearest(wanted, types))
        # A workflow that is only spawned may live on what its parents pass on (06 section 2).
        if work.wired and (at.def_name in bindings or subscribed(work, at.def_name)):
            _unbound(work, at, flow, grants)


def _grant_types(work: Work) -> dict[str, str | None]:
    """Grant -> its type; None when its capability is not known."""
    rows = work.wiring.get("authority", {}).get("grants", ())
    caps = work.kinds["defcap"]
    return {row["name"]: caps.get(row["cap"], {}).get("cap_type") for row in rows}


def _slot(
    work: Work, at: Place, grant: str, declared: str | None, grants: Mapping[str, str | None]
) -> None:
    if grant not in grants:
        hint = nearest(grant, list(grants)) or "write it under authority.grants"
        work.add("cap.unbound", at, f"there is no grant {grant}", hint)
    elif declared is not None and grants[grant] not in (None, declared):
        message = f"the slot is {declared}, the grant {grant} is {grants[grant]}"
        fitting = [name for name in grants if grants[name] == declared]
        hint = f"bind it to {fitting[0]}" if fitting else f"grant a capability of type {declared}"
        work.add("cap.type_mismatch", at, message, hint)


def _unbound(work: Work, at: Place, flow: Definition, grants: Mapping[str, str | None]) -> None:
    bound = work.wiring.get("module_bindings", {}).get(at.def_name, {}).get("slots", {})
    declared = flow.get("cap_slots", {})
    hint = f"bind it under module_bindings of {at.def_name}, or build with --authority structural"
    for slot in declared:
        if slot not in bound:
            work.add("cap.unbound", at / "cap_slots" / slot, f"slot {slot} has no grant", hint)
    # A slot bound to a grant nobody knows was named already; it counts for any type.
    held = [grants.get(grant) for grant in bound.values()]
    for i, name in enumerate(flow["effects_emitted"]):
        effect = work.kinds["defeffect"].get(name)
        if effect is None:
            continue
        wanted = effect.get("cap_type", "effect")
        if wanted not in held and None not in held and wanted not in declared.values():
            message = f"{name} needs a slot of type {wanted} and none is bound"
            work.add("cap.unbound", at / "effects_emitted" / i, message, hint)


def check_policies(work: Work, findings: PolicyFindings | None) -> None:
    """Named policies, the names in their rules, and what the room `authority` finds in them."""
    held, active = work.kinds["defpolicy"], []
    for i, name in enumerate(work.wiring.get("authority", {}).get("policies", ())):
        if work.refer("defpolicy", name, Place(MANIFEST) / "authority" / "policies" / i):
            active.append(name)
    for at, policy in work.own("defpolicy"):
        for i, rule in enumerate(policy.get("rules", ())):
            _when(work, at / "rules" / i / "when", rule.get("when", {}))
    if findings is None:
        return
    idle = [name for name in held if name not in active]
    for group in (active, *([name] for name in idle)):
        policies = [Policy(name, tuple(held[name].get("rules", ()))) for name in group]
        for code, where, message in findings(policies):
            def_name, _, path = where.partition("#")
            work.add(code, Place(def_name, path), message)


def _when(work: Work, at: Place, when: Mapping[str, Any]) -> None:
    """A misspelt name never matches, and a deny rule that never matches is a hole."""
    for word, kind in (("effect", "defeffect"), ("workflow", "defworkflow"), ("cap", "defcap")):
        name = when.get(word)
        if name is not None and not name.endswith("*") and not _active(work, word, name):
            work.refer(kind, name, at / word)


def _active(work: Work, word: str, name: str) -> bool:
    """True for a name of the active bundle: pinned cells may still ask under it."""
    if work.against is None:
        return False
    old: Mapping[str, Mapping[str, Any]] = {
        "effect": work.against.effects,
        "workflow": work.against.workflows,
        "cap": work.against.caps,
    }
    return name in old[word]


def check_trust(work: Work) -> None:
    """Trusted keys stand once, for effects that exist."""
    seen: dict[str, int] = {}
    for i, row in enumerate(work.wiring.get("trust", {}).get("executors", ())):
        at = Place(MANIFEST) / "trust" / "executors" / i
        if row["public_key"] in seen:
            message = f"the key stands at /trust/executors/{seen[row['public_key']]} already"
            hint = "write one entry with all its executors and effects"
            work.add("trust.duplicate_key", at / "public_key", message, hint)
        seen.setdefault(row["public_key"], i)
        for j, name in enumerate(row.get("effects", ())):
            if not name.endswith("*"):
                work.refer("defeffect", name, at / "effects" / j)
