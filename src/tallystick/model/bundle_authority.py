"""`--authority structural`: authority for people who have not thought about it yet (06 section 1).

Default deny stays: what is given is written into the manifest, where a reader and a diff see it.
One unrestricted grant per capability type in use, every slot bound to it, and one rule that allows
what workflows ask for; the node's own and governance's requests stay denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tallystick.model import sys_definitions
from tallystick.model.definitions_shapes import Finding
from tallystick.model.manifest_sources import Sources, read_sources
from tallystick.values import names

POLICY: Final = "structural/allow@1"
_RULE: Final = {
    "$kind": "defpolicy",
    "name": POLICY,
    "rules": [{"id": "structural", "decision": "allow"}],
}


def structural_authority(sources: Sources) -> Sources:
    """The same sources with structural authority written out.

    A manifest that brings its own `authority` is left as it is, and so are refused sources.
    A capability type that is not defined gets no grant: the check names what stays unbound.
    """
    manifest = sources.manifest
    if manifest is None or "authority" in manifest:
        return sources
    listed = {row["name"] for row in manifest["workflows"]}
    flows = [d for d in _of(sources, "defworkflow") if d["name"] in listed]
    types = _cap_types(sources)
    caps = _caps(sources)
    slots = {flow["name"]: _slots(flow, types, caps) for flow in flows}
    used = sorted(dict.fromkeys(kind for row in slots.values() for kind in row.values()))
    bindings = _bound(manifest.get("module_bindings", {}), slots)
    made = {
        **manifest,
        "policies": [*manifest.get("policies", ()), {"name": POLICY}],
        "module_bindings": bindings,
        "authority": {
            "grants": [{"name": kind, "cap": caps[kind]} for kind in used],
            "policies": [POLICY],
        },
    }
    again = read_sources([*sources.definitions, _RULE, made])
    kept: tuple[Finding, ...] = tuple(f for f in sources.findings if f not in again.findings)
    return replace(again, findings=(*kept, *again.findings))


def _of(sources: Sources, kind: str) -> list[dict[str, Any]]:
    ours = sys_definitions.of_kind(kind).values()
    return [*ours, *(d for d in sources.definitions if d["$kind"] == kind)]


def _cap_types(sources: Sources) -> dict[str, str]:
    """Effect -> the type of capability it needs."""
    return {d["name"]: d.get("cap_type", "effect") for d in _of(sources, "defeffect")}


def _caps(sources: Sources) -> dict[str, str]:
    """Capability type -> its definition; the bundle's own comes before ours."""
    return {
        d["cap_type"]: d["name"] for d in _of(sources, "defcap") if names.is_field(d["cap_type"])
    }


def _slots(
    flow: Mapping[str, Any], types: Mapping[str, str], caps: Mapping[str, str]
) -> dict[str, str]:
    """Slot -> type: those the workflow declares, and one per type of its effects without one."""
    made = {slot: kind for slot, kind in flow.get("cap_slots", {}).items() if kind in caps}
    held = [*flow.get("cap_slots", {}).values()]
    for effect in flow["effects_emitted"]:
        kind = types.get(effect, "")
        if kind in caps and kind not in held:
            made[kind] = kind
    return made


def _bound(given: Mapping[str, Any], slots: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    made = {name: dict(given[name]) for name in given}
    for name, row in slots.items():
        if row:
            made[name] = {"slots": {**row, **made.get(name, {}).get("slots", {})}}
    return made
