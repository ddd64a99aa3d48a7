"""The manifest: which definitions are active, and how they are wired.

Canonical form: lists of definitions sorted by name, each name pinned to its hash; subscriptions
and policies in their order; limits and rules equal to their default removed; empty sections
absent, except `schemas modules workflows effects`.
`sys/` names are never listed: they are ambient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tallystick.model import limits, sys_definitions
from tallystick.model.definitions import CALL, WHEN, overrides, refusal, storable
from tallystick.model.definitions_shapes import (
    ABSENT,
    Field,
    Finding,
    Findings,
    Table,
    choice,
    data,
    fields_of,
    flag,
    hash_text,
    items,
    mapping,
    name,
    nat,
    positive,
    record,
    slot,
    step,
    text,
    trimmed,
)
from tallystick.values import canon, names
from tallystick.values.names import nearest

# Section of the manifest -> kind of its definitions.
SECTIONS: Final[Mapping[str, str]] = {
    "schemas": "defschema",
    "modules": "defmodule",
    "workflows": "defworkflow",
    "effects": "defeffect",
    "caps": "defcap",
    "policies": "defpolicy",
    "secrets": "defsecret",
    "upcasts": "defupcast",
    "migrations": "defmigration",
}
_ALWAYS: Final = ("schemas", "modules", "workflows", "effects")
_REF_CODES: Final[Mapping[str, str]] = {
    "schemas": "ref.schema",
    "modules": "ref.module",
    "workflows": "ref.workflow",
    "effects": "ref.effect",
    "caps": "ref.cap",
    "policies": "ref.policy",
    "secrets": "ref.secret",
    "upcasts": "ref.schema",
    "migrations": "ref.workflow",
}


def _entry(value: Any, path: str, out: Findings) -> Any:
    if isinstance(value, str):
        return _ENTRY({"name": value}, path, out)
    return _ENTRY(value, path, out)


def _origin(value: Any, path: str, out: Findings) -> Any:
    if isinstance(value, str) and (
        value in ("external", "system", "governance") or value.startswith("workflow:")
    ):
        return value
    hint = "use external, system, governance or workflow:<name or prefix*>"
    return out.add("def.bad_value", path, f"{value!r} is not an origin", hint)


def _public_key(value: Any, path: str, out: Findings) -> Any:
    if isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef"):
        return value
    return out.add("trust.bad_key", path, "a public key is 64 lower-case hex digits")


def _limits(value: Any, path: str, out: Findings) -> Any:
    made = overrides(value, path, out)
    if not isinstance(made, dict):
        return made
    return {key: made[key] for key in made if made[key] != limits.DEFAULTS.get(key)}


_ENTRY: Final = record({"name": Field(name), "hash": Field(hash_text, ABSENT)})
_FILTER: Final[Table] = {"origin": Field(items(_origin), []), "tags": Field(items(text), [])}
_SUBSCRIPTION: Final[Table] = {
    "event": Field(name),
    "workflow": Field(name),
    "key_field": Field(text, ABSENT),
    "key_fn": Field(CALL, ABSENT),
    "create_if_missing": Field(flag, default=True),
    "filter": Field(record(_FILTER), {}),
    "init_state": Field(data, ABSENT),
    "init_fn": Field(CALL, ABSENT),
}
_GRANT: Final[Table] = {
    "name": Field(slot),
    "cap": Field(name),
    "params": Field(data, {}),
    "expires_ns": Field(nat, ABSENT),
}
_OPEN: Final[Table] = {word: Field(positive, ABSENT) for word in ("world", "workflow", "cell")}
_FLOW: Final[Table] = {
    "name": Field(slot),
    "match": Field(WHEN, {}),
    "max_open": Field(record(_OPEN), ABSENT),
    "keyed": Field(record({"key": Field(text), "max_open": Field(positive, ABSENT)}), ABSENT),
    "rate": Field(
        record({"count": Field(positive), "per_ns": Field(positive), "burst": Field(positive, 1)}),
        ABSENT,
    ),
    "budget": Field(record({"name": Field(slot), "cost": Field(text)}), ABSENT),
    "over": Field(choice("queue", "deny"), "queue"),
    "queue_max": Field(positive, ABSENT),
}
_BUDGET: Final[Table] = {
    "name": Field(slot),
    "unit": Field(choice("calls", "tokens", "cents")),
    "limit": Field(nat),
    "scope": Field(choice("world", "workflow", "cell", "key"), "world"),
    "window_ns": Field(positive, ABSENT),
}
_PRINCIPAL: Final[Table] = {
    "id": Field(text),
    "kind": Field(choice("human", "service", "workflow")),
    "roles": Field(items(text), []),
    "scopes": Field(items(text), []),
    "key": Field(text, ABSENT),
}
_RULES: Final[Table] = {
    "require": Field(items(choice("shadow", "prove")), ["shadow"]),
    "approvals": Field(nat, 1),
    "author_may_approve": Field(flag, default=True),
    "signed": Field(flag, default=False),
    "beyond_quiescence": Field(flag, default=True),
}
_TRUST: Final[Table] = {
    "executors": Field(items(text), []),
    "effects": Field(items(text), []),
    "public_key": Field(_public_key),
}
_AUTHORITY: Final[Table] = {
    "grants": Field(items(record(_GRANT), 10_000), []),
    "policies": Field(items(name), []),
    "flows": Field(items(record(_FLOW)), []),
    "budgets": Field(items(record(_BUDGET)), []),
}
_GOVERNANCE: Final[Table] = {
    "principals": Field(items(record(_PRINCIPAL)), []),
    "rules": Field(record(_RULES), {}),
}
_BINDING: Final = record({"slots": Field(mapping(slot, slot), {})})

MANIFEST: Final[Table] = {
    **{section: Field(items(_entry), ABSENT) for section in SECTIONS},
    "routing": Field(record({"subscriptions": Field(items(record(_SUBSCRIPTION)), [])}), {}),
    "module_bindings": Field(trimmed(mapping(name, _BINDING)), {}),
    "authority": Field(record(_AUTHORITY), {}),
    "governance": Field(record(_GOVERNANCE), {}),
    "limits": Field(_limits, {}),
    "trust": Field(record({"executors": Field(items(record(_TRUST)), [])}), {}),
}


def read_manifest(source: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[Finding]]:
    """A manifest source with its wiring canonical, or None, and everything that is wrong."""
    out = Findings("manifest")
    rest = {key: source[key] for key in source if key not in ("$kind", "air_version")}
    if source.get("air_version", "2") != "2":
        out.add("def.bad_value", "/air_version", "this node reads air_version 2")
    made = fields_of(MANIFEST, rest, "", out)
    if out.refused or not storable(made, out):
        return None, out.found
    return {"$kind": "manifest", "air_version": "2", **made}, out.found


def assemble(
    definitions: Iterable[Mapping[str, Any]], source: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The canonical manifest over canonical definitions, its hashes filled in.

    A section the source leaves out lists every given definition of its kind.
    Refuses a listed name that nothing defines, and a given hash that is not the definition's.
    """
    made, found = read_manifest(source)
    out = Findings("manifest", found)
    known: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    sections = {kind: section for section, kind in SECTIONS.items()}
    for defn in definitions:
        held = known[sections[defn["$kind"]]]
        if defn["name"] in held:
            message = f"{defn['name']} is defined twice as {defn['$kind']}"
            out.found.append(Finding("def.duplicate", defn["name"], "/name", message))
        held[defn["name"]] = canon.hash(defn)
    if made is None:
        return None, out.found
    for section in SECTIONS:
        listed = _listed(section, made.get(section), known[section], out)
        made.pop(section, None)
        if listed or section in _ALWAYS:
            made[section] = listed
    return (None if out.refused else made), out.found


def _listed(
    section: str, given: list[dict[str, str]] | None, known: Mapping[str, str], out: Findings
) -> list[dict[str, str]]:
    if given is None:
        return [{"name": word, "hash": known[word]} for word in sorted(known)]
    kind, pinned = SECTIONS[section], {}
    for i, entry in enumerate(given):
        word, path = entry["name"], step(step("", section), i)
        ambient = (kind, word) in sys_definitions.DEFINITIONS
        found = sys_definitions.hash_of(kind, word) if ambient else known.get(word)
        if found is None:
            hint = nearest(word, sorted(known))
            out.add(_REF_CODES[section], path, f"{word} is listed and not defined", hint)
        elif entry.get("hash", found) != found:
            message = f"{word} is {found}, not {entry['hash']}"
            hint = "leave the hash out: the build fills it in"
            out.add("ref.hash_mismatch", step(path, "hash"), message, hint)
        elif word in pinned:
            out.add("def.duplicate", path, f"{word} is listed twice")
        elif not names.is_reserved(word):
            pinned[word] = found
    return [{"name": word, "hash": pinned[word]} for word in sorted(pinned)]


def canonical_manifest(
    definitions: Iterable[Mapping[str, Any]], source: Mapping[str, Any]
) -> dict[str, Any]:
    """As `assemble`; refuses with the first problem that is an error."""
    made, found = assemble(definitions, source)
    if made is None:
        raise refusal(found)
    return made


def manifest_hash(manifest: Mapping[str, Any]) -> str:
    """The text hash of a canonical manifest."""
    return canon.hash(manifest)
