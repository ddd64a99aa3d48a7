"""Definitions: one table per `$kind`, read into the one canonical form that is hashed.

The canonical form has aliases lowered (by `lower`, before this), comments dropped and fields equal
to their default removed, so that a new defaulted field never changes a hash that does not use it.
Unknown fields are refused.
References are by name; whether a name exists is asked when a manifest is assembled or loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.errors import BadDefinition, SchemaMismatch
from tallystick.model import limits
from tallystick.model.definitions_shapes import (
    ABSENT,
    BAD,
    Field,
    Finding,
    Findings,
    Shape,
    Table,
    choice,
    fields_of,
    flag,
    hash_text,
    items,
    mapping,
    name,
    positive,
    record,
    slot,
    step,
    text,
    type_expression,
)
from tallystick.values import canon, names
from tallystick.values.names import nearest

__all__ = ["KINDS", "Finding", "Findings", "canonical", "definition_hash", "read_definition"]

CONTEXT: Final = "sys/WorkflowContext@1"

CALL: Final = record({"module": Field(name), "entrypoint": Field(text)})


def _at_most(characters: int) -> Shape:
    def shape(value: Any, path: str, out: Findings) -> Any:
        if type(value) is str and len(value) <= characters:
            return value
        return out.add("def.bad_value", path, f"this is a text of at most {characters} characters")

    return shape


def overrides(value: Any, path: str, out: Findings) -> Any:
    """An object of limits; refuses names and sizes that no limit has."""
    if not isinstance(value, Mapping):
        return out.add("def.bad_value", path, "this is an object")
    kept = {key: value[key] for key in value if key != "$comment"}
    for word, why in limits.faults_in(kept):
        known = word in limits.DEFAULTS
        code = "def.bad_value" if known else "def.unknown_field"
        out.add(code, step(path, word), why, "" if known else nearest(word, list(limits.DEFAULTS)))
    return kept


def _context(value: Any, path: str, out: Findings) -> Any:
    if value == CONTEXT:
        return value
    return out.add("workflow.bad_context", path, f"the only context is {CONTEXT}")


_ARTIFACTS: Final[Mapping[str, tuple[str, str]]] = {
    "python": ("python_bundle", "root_hash"),
    "wasm": ("wasm_module", "hash"),
}
_RUNTIME: Final[Table] = {
    "kind": Field(choice("python", "wasm", "builtin", "external")),
    "python": Field(text, ABSENT),
    "artifact": Field(mapping(text, text), ABSENT),
}


def _runtime(value: Any, path: str, out: Findings) -> Any:
    made = record(_RUNTIME)(value, path, out)
    if made is BAD or "kind" not in made:
        return made
    kind, artifact = made["kind"], made.get("artifact")
    if kind not in _ARTIFACTS:
        if "python" in made or artifact is not None:
            out.add("module.bad_runtime", path, f"a module of kind {kind} has no artifact")
        return made
    word, key = _ARTIFACTS[kind]
    if artifact is None:
        hint = f'add "artifact": {{"kind": "{word}", "{key}": "sha256:..."}}'
        out.add("module.no_artifact", step(path, "artifact"), f"{kind} needs an artifact", hint)
    elif artifact.get("kind") != word:
        out.add("module.bad_runtime", step(path, "artifact"), f"the artifact of {kind} is a {word}")
    else:
        table = {"kind": Field(text), key: Field(hash_text)}
        fields_of(table, artifact, step(path, "artifact"), out)
    if kind != "python" and "python" in made:
        out.add("module.bad_runtime", step(path, "python"), f"{kind} has no Python version")
    return made


_ORDERS: Final = choice("subset", "prefix", "host", "max", "min", "equal")
_WHEN: Final[Table] = {
    "effect": Field(text, ABSENT),
    "cap": Field(text, ABSENT),
    "cap_type": Field(text, ABSENT),
    "grant": Field(text, ABSENT),
    # A rule without an origin matches `workflow` only, so that word is the default.
    "origin": Field(choice("workflow", "system", "governance"), "workflow"),
    "workflow": Field(text, ABSENT),
    "tags": Field(items(text), []),
}
WHEN: Final = record(_WHEN)
_APPROVAL: Final[Table] = {
    "by": Field(items(text)),
    "count": Field(positive, 1),
    "ttl_ns": Field(positive, ABSENT),
}
_RULE: Final[Table] = {
    "id": Field(text, ABSENT),
    "when": Field(WHEN, {}),
    "where": Field(text, ABSENT),
    "decision": Field(choice("allow", "deny", "require_approval")),
    "approval": Field(record(_APPROVAL), ABSENT),
    "reason": Field(text, ABSENT),
}
_METADATA: Final[Table] = {
    "summary": Field(_at_most(200), ""),
    "tags": Field(items(text, 16), []),
    "owners": Field(items(text, 16), []),
}
_PURE: Final = record({"input": Field(name), "output": Field(name)})

KINDS: Final[Mapping[str, Table]] = {
    "defschema": {"type": Field(type_expression)},
    "defmodule": {"runtime": Field(_runtime), "pure": Field(mapping(text, _PURE), {})},
    "defworkflow": {
        "state": Field(name),
        "event": Field(name),
        "impl": Field(CALL),
        "effects_emitted": Field(items(name)),
        "context": Field(_context, ABSENT),
        "annotations": Field(name, ABSENT),
        "key_schema": Field(name, ABSENT),
        "determinism": Field(choice("strict", "checked"), "strict"),
        "on_fault": Field(choice("fail", "suspend"), "fail"),
        "lifecycle": Field(choice("process", "entity"), "process"),
        "reads": Field(items(name, 16), []),
        "cap_slots": Field(mapping(slot, text), {}),
        "limits": Field(overrides, {}),
        "state_version": Field(positive, 1),
        "accepts_state_versions": Field(items(positive), []),
        "metadata": Field(record(_METADATA), {}),
    },
    "defeffect": {
        "params": Field(name),
        "receipt": Field(name),
        "impl": Field(CALL),
        "error": Field(name, "sys/EffectError@1"),
        "progress": Field(name, ABSENT),
        "cap_type": Field(text, "effect"),
        "idempotent": Field(flag, default=False),
        "pure": Field(flag, default=False),
        "timeout_ns": Field(positive, ABSENT),
    },
    "defcap": {
        "cap_type": Field(text),
        "params": Field(name, ABSENT),
        "enforcer": Field(CALL, ABSENT),
        "order": Field(mapping(slot, _ORDERS), {}),
    },
    "defpolicy": {"rules": Field(items(record(_RULE), 1_000), [])},
    "defsecret": {
        "binding_id": Field(text),
        "allowed_caps": Field(items(text), []),
        "expected_digest": Field(text, ABSENT),
    },
    "defupcast": {"from": Field(name), "to": Field(name), "impl": Field(CALL)},
    "defmigration": {
        "workflow": Field(name),
        "from": Field(positive),
        "to": Field(positive),
        "impl": Field(CALL),
    },
}


def read_definition(
    raw: Mapping[str, Any], *, ours: bool = False
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The canonical form of one definition, or None, and everything that is wrong with it.

    Only our own definitions (`ours`) may stand under `sys/` and may be builtin.
    """
    kind = raw.get("$kind")
    out = Findings(str(raw.get("name", "")))
    if type(kind) is not str or kind not in KINDS:
        hint = nearest(str(kind), list(KINDS))
        out.add("def.unknown_kind", "/$kind", f"{kind!r} is not a kind of definition", hint)
        return None, out.found
    called = name(raw.get("name"), "/name", out)
    rest = {key: raw[key] for key in raw if key not in ("$kind", "name")}
    made = fields_of(KINDS[kind], rest, "", out)
    if not ours:
        _refuse_ours(called, made, out)
    whole = {"$kind": kind, "name": called, **made}
    if out.refused or not storable(whole, out):
        return None, out.found
    return whole, out.found


def storable(made: Mapping[str, Any], out: Findings) -> bool:
    """True when a document can be encoded, as free data inside it need not be."""
    try:
        canon.encode(made)
    except SchemaMismatch as error:
        hint = "numbers, texts and depth have the bounds of canonical values"
        out.add("def.bad_value", "", f"this cannot be encoded: {error.message}", hint)
        return False
    return True


def _refuse_ours(called: Any, made: Mapping[str, Any], out: Findings) -> None:
    if called is not BAD and names.is_reserved(called):
        out.add("def.reserved", "/name", "sys/ is reserved", "use a namespace of your own")
    runtime = made.get("runtime")
    if isinstance(runtime, dict) and runtime.get("kind") == "builtin":
        out.add("module.bad_runtime", "/runtime/kind", "only sys/ modules are builtin")


def canonical(defn: Mapping[str, Any], *, ours: bool = False) -> dict[str, Any]:
    """The canonical form of one definition; refuses with the first problem that is an error."""
    made, found = read_definition(defn, ours=ours)
    if made is None:
        raise refusal(found)
    return made


def refusal(found: list[Finding]) -> BadDefinition:
    """The first error among findings, as an exception."""
    first = next(finding for finding in found if not finding.warning)
    where = {"path": first.path, "def": first.def_name}
    return BadDefinition(first.message, code=first.code, where=where, hint=first.hint or None)


def definition_hash(defn: Mapping[str, Any]) -> str:
    """The text hash of a canonical definition."""
    return canon.hash(defn)
