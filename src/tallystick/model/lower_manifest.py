"""The manifest's half of the lowering (02 section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.model import sys_definitions
from tallystick.model.definitions_shapes import Finding, step
from tallystick.model.lower_words import NOTE_HINT, REFUSALS, Context
from tallystick.values.names import nearest

Raw = dict[str, Any]

_SECTION_OF: Final[Mapping[str, str]] = {
    "defschema": "schemas",
    "defmodule": "modules",
    "defworkflow": "workflows",
    "defeffect": "effects",
    "defcap": "caps",
    "defpolicy": "policies",
}


def lower_manifest(manifests: list[Raw], context: Context, out: list[Finding]) -> Raw:
    """All manifest sources as one, in canonical names; what is wrong goes to `out`."""
    source = manifests[0]
    for other in manifests[1:]:
        source = _merged(source, other, "", out)
    made = _refused(source, out)
    if made.get("air_version") == "1":
        made["air_version"] = "2"
    _lists(made, context)
    _routing(made, context, out)
    _authority(made)
    _bindings(made, context, out)
    if made != source:
        out.append(
            Finding("legacy.note", "manifest", "", "written in an older spelling", NOTE_HINT)
        )
    return made


def _merged(one: Any, other: Any, path: str, out: list[Finding]) -> Any:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        made = dict(one)
        for key in other:
            held = key in made
            made[key] = _merged(made[key], other[key], step(path, key), out) if held else other[key]
        return made
    if isinstance(one, list) and isinstance(other, list):
        return [*one, *other]
    if one != other:
        message = f"two manifests say {one!r} and {other!r}"
        out.append(Finding("def.duplicate", "manifest", path, message, "say it once"))
    return one


def _refused(source: Raw, out: list[Finding]) -> Raw:
    made = dict(source)
    routing = dict(made["routing"]) if isinstance(made.get("routing"), Mapping) else None
    for holder, key, code, path in (
        (made, "plans", "legacy.defplan", "/plans"),
        (made, "triggers", "legacy.triggers", "/triggers"),
        (routing, "triggers", "legacy.triggers", "/routing/triggers"),
        (routing, "inboxes", "legacy.inboxes", "/routing/inboxes"),
    ):
        if holder is not None and key in holder:
            holder.pop(key)
            out.append(Finding(code, "manifest", path, REFUSALS[code]))
    if routing is not None:
        made["routing"] = routing
    return made


# ---- lists ----------------------------------------------------------------------------------


def _lists(made: Raw, context: Context) -> None:
    if isinstance(made.get("ops"), list):
        ops = made.pop("ops")
        effects = {*context.named("defeffect"), *sys_definitions.of_kind("defeffect")}
        for entry in ops:
            section = "effects" if _name(entry) in effects else "workflows"
            made[section] = [*_list(made.get(section)), entry]
    for parent, child in context.derived:
        _list_derived(made, parent, child, context)
    for kind, section in _SECTION_OF.items():
        if isinstance(made.get(section), list):
            made[section] = [_unpinned(entry, kind, context) for entry in made[section]]


def _list_derived(
    made: Raw, parent: tuple[str, str], child: tuple[str, str], context: Context
) -> None:
    """List what a listed older document also became; an absent section lists everything anyway."""
    listed = made.get(_SECTION_OF[parent[0]])
    if not isinstance(listed, list):
        return
    section = _SECTION_OF[child[0]]
    if section not in made:
        derived = {name for _, (kind, name) in context.derived if kind == child[0]}
        made[section] = [name for name in context.named(child[0]) if name not in derived]
    if not isinstance(made[section], list):
        return  # the check of that section says what is wrong with it
    named = [_name(entry) for entry in made[section]]
    if parent[1] in [_name(entry) for entry in listed] and child[1] not in named:
        made[section] = [*made[section], child[1]]


def _unpinned(entry: Any, kind: str, context: Context) -> Any:
    """The entry without its hash if that was taken over an older spelling."""
    if isinstance(entry, Mapping) and (kind, _name(entry)) in context.rewritten:
        return {key: entry[key] for key in entry if key != "hash"}
    return entry


def _list(value: Any) -> list[Any]:
    """A list as it is; what is no list is left to the check of its own section."""
    return value if isinstance(value, list) else []


def _name(entry: Any) -> str:
    return str(entry.get("name", "")) if isinstance(entry, Mapping) else str(entry)


# ---- wiring ---------------------------------------------------------------------------------


def _routing(made: Raw, context: Context, out: list[Finding]) -> None:
    routing = made.get("routing")
    if not isinstance(routing, dict):
        return
    if isinstance(routing.get("events"), list):
        events = routing.pop("events")
        routing["subscriptions"] = [*_list(routing.get("subscriptions")), *events]
    given = routing.get("subscriptions")
    if isinstance(given, list):
        routing["subscriptions"] = [
            _subscription(item, f"/routing/subscriptions/{i}", context, out)
            if isinstance(item, Mapping)
            else item
            for i, item in enumerate(given)
        ]


def _subscription(
    item: Mapping[str, Any], path: str, context: Context, out: list[Finding]
) -> Mapping[str, Any]:
    old = [key for key in ("reducer", "module", "op") if key in item]
    if not old or "workflow" in item:
        return item
    made = {key: item[key] for key in item if key not in old}
    target = str(item[old[0]])
    made["workflow"] = target
    if target in context.named("defworkflow"):
        return made
    found = context.workflows_of(target)
    at = step(path, old[0])
    if len(found) == 1:
        made["workflow"] = found[0]
    elif found:
        message = f"{target} implements {', '.join(found)}"
        hint = "name the workflow"
        out.append(Finding("routing.ambiguous_target", "manifest", at, message, hint))
    else:
        hint = nearest(target, context.named("defworkflow"))
        message = f"{target} implements no workflow"
        out.append(Finding("ref.workflow", "manifest", at, message, hint))
    return made


def _authority(made: Raw) -> None:
    authority = dict(made["authority"]) if isinstance(made.get("authority"), Mapping) else {}
    defaults = made.get("defaults")
    if isinstance(defaults, Mapping):
        for key, given, name in (
            ("policies", [defaults["policy"]] if "policy" in defaults else [], "policy"),
            ("grants", _list(defaults.get("cap_grants")), "cap_grants"),
        ):
            if given:
                authority[key] = [*_list(authority.get(key)), *given]
                defaults = {k: defaults[k] for k in defaults if k != name}
        made.pop("defaults")
        if defaults:
            # What has no successor stays, so that the check names it.
            made["defaults"] = defaults
    if isinstance(authority.get("grants"), list):
        authority["grants"] = [
            {("expires_ns" if key == "expiry_ns" else key): grant[key] for key in grant}
            if isinstance(grant, Mapping)
            else grant
            for grant in authority["grants"]
        ]
    if authority:
        made["authority"] = authority


def _bindings(made: Raw, context: Context, out: list[Finding]) -> None:
    given = made.get("module_bindings")
    if not isinstance(given, Mapping):
        return
    flows = context.named("defworkflow")
    lowered: Raw = {}
    for key in given:
        targets = [key] if key in flows else context.workflows_of(key) or [key]
        for target in targets:
            held = lowered.get(target, given[key])
            lowered[target] = _merged(held, given[key], step("/module_bindings", key), out)
    made["module_bindings"] = lowered
