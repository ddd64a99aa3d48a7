"""How each part of a catalogue is made from its canonical definition.

Names are resolved here, once.
What is refused here would otherwise surface in the middle of a tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from tallystick.errors import SchemaMismatch
from tallystick.model import sys_definitions
from tallystick.model.catalogue_parts import Call, Cap, Effect, Grant, Module, Workflow, grant_hash
from tallystick.model.catalogue_pinned import Pinned, refused
from tallystick.model.limits import Limits
from tallystick.values import canon
from tallystick.values.names import nearest
from tallystick.values.schema import Admitted, Schema, compile_schema
from tallystick.values.schema.nodes import holds_secret

_KEY_TYPES: Final = frozenset({"int", "nat", "text", "uuid", "hash"})


# ---- schemas and modules --------------------------------------------------------------------


@cache
def sys_schemas() -> Mapping[str, Schema]:
    """Our schemas, compiled once: they are the same in every catalogue."""
    resolve = sys_definitions.type_of
    return {
        name: compile_schema(name, resolve(name), resolve)
        for name in sys_definitions.of_kind("defschema")
    }


def schemas_of(pinned: Pinned) -> dict[str, Schema]:
    """Every schema of a manifest, compiled."""
    made = dict(sys_schemas())
    for name in pinned.by_kind["defschema"]:
        if name not in made:
            made[name] = compile_schema(name, pinned.type_of(name), pinned.type_of)
    return made


def schema_of(schemas: Mapping[str, Schema], name: str, path: str) -> Schema:
    """A compiled schema; refuses a name that nothing defines."""
    if name not in schemas:
        hint = nearest(name, list(schemas))
        raise refused("ref.schema", f"{name} is not in the manifest", path, hint)
    return schemas[name]


def module_of(defn: Mapping[str, Any], hash_text: str) -> Module:
    """A module; its artifact is the hash of its code, absent for builtin and external ones."""
    artifact = defn["runtime"].get("artifact", {})
    return Module(
        name=defn["name"],
        hash=canon.raw_of(hash_text),
        runtime=defn["runtime"]["kind"],
        pure={e: (io["input"], io["output"]) for e, io in defn.get("pure", {}).items()},
        artifact=artifact.get("root_hash", artifact.get("hash")),
    )


def call_of(
    call: Mapping[str, str] | None,
    modules: Mapping[str, Module],
    path: str,
    code: str = "module.no_entrypoint",
) -> Call | None:
    """A pure function; refuses one that its module does not declare as pure (K-02)."""
    if call is None:
        return None
    name, entry = call["module"], call["entrypoint"]
    if name not in modules:
        hint = nearest(name, list(modules))
        raise refused("ref.module", f"{name} is not in the manifest", path, hint)
    if entry not in modules[name].pure:
        raise refused(code, f"{name} has no pure function {entry}", path)
    return name, entry


# ---- workflows ------------------------------------------------------------------------------


def arms_of(name: str, event: str, pinned: Pinned) -> dict[str, str]:
    """Schema -> tag of a variant event; empty for a record.

    Refuses an event that is neither, an arm that is no ref, and a ref that stands twice.
    """
    path, kind = f"{name}/event", pinned.get("defschema", event, "ref.schema", f"{name}/event")
    type_ = kind["type"]
    if "record" in type_:
        return {}
    arms: dict[str, str] = {}
    for tag, arm in type_.get("variant", {}).items():
        if "ref" not in arm:
            message, hint = f"arm {tag} of {event} is not a ref", "give its type a name"
            raise refused("workflow.bad_event", message, path, hint)
        if arm["ref"] in arms:
            message = f"{arm['ref']} stands in two arms of {event}, so wrapping would be a guess"
            raise refused("workflow.bad_event", message, path)
        arms[arm["ref"]] = tag
    if not arms:
        raise refused("workflow.bad_event", f"{event} is neither record nor variant", path)
    return arms


def is_key(type_: Mapping[str, Any]) -> bool:
    """True for a type that can be the key of a cell: a plain one, or a record of plain ones."""
    ((word, inner),) = type_.items()
    if word == "record":
        return all(next(iter(member)) in _KEY_TYPES for member in map(_bare, inner.values()))
    return next(iter(_bare(type_))) in _KEY_TYPES


def _bare(type_: Mapping[str, Any]) -> Mapping[str, Any]:
    inner: Mapping[str, Any] = type_["where"]["type"] if "where" in type_ else type_
    return inner


def workflow_of(
    defn: Mapping[str, Any],
    pinned: Pinned,
    schemas: Mapping[str, Schema],
    modules: Mapping[str, Module],
    limits: Limits,
) -> Workflow:
    """A workflow, resolved; refuses one that could not run."""
    # tidy: one row per field of the part; splitting the table would hide it.
    name, impl = defn["name"], defn["impl"]
    module = _implementing(name, impl["module"], modules)
    hash_text = pinned.hashes["defworkflow", name]

    def optional(field: str) -> Schema | None:
        given = defn.get(field)
        return None if given is None else schema_of(schemas, given, f"{name}/{field}")

    key = optional("key_schema")
    if key is not None and not is_key(key.type):
        message = f"{key.name} cannot be a key: use int, nat, text, uuid, hash or a record of these"
        raise refused("workflow.bad_key_schema", message, f"{name}/key_schema")
    metadata = defn.get("metadata", {})
    return Workflow(
        name=name,
        hash=canon.raw_of(hash_text),
        hash_text=hash_text,
        state=schema_of(schemas, defn["state"], f"{name}/state"),
        event=schema_of(schemas, defn["event"], f"{name}/event"),
        event_name=defn["event"],
        context="context" in defn,
        annotations=optional("annotations"),
        key=key,
        effects_emitted=frozenset(defn["effects_emitted"]),
        lifecycle=defn.get("lifecycle", "process"),
        determinism=defn.get("determinism", "strict"),
        on_fault=defn.get("on_fault", "fail"),
        reads=frozenset(defn.get("reads", ())),
        cap_slots=defn.get("cap_slots", {}),
        limits=limits.narrowed(defn.get("limits", {}), f"{name}/limits"),
        state_version=defn.get("state_version", 1),
        accepts_state_versions=tuple(defn.get("accepts_state_versions", ())),
        module=module.name,
        module_hash=module.hash,
        module_runtime=module.runtime,
        entrypoint=impl["entrypoint"],
        arms=arms_of(name, defn["event"], pinned),
        tags=tuple(metadata.get("tags", ())),
        metadata=metadata,
    )


def _implementing(name: str, module: str, modules: Mapping[str, Module]) -> Module:
    path = f"{name}/impl/module"
    if module not in modules:
        hint = nearest(module, list(modules))
        raise refused("ref.module", f"{module} is not in the manifest", path, hint)
    found = modules[module]
    if found.pure:
        raise refused("workflow.pure_module", f"{module} is pure and runs no workflow", path)
    if found.runtime == "external":
        raise refused("module.bad_runtime", f"{module} is external and runs no workflow", path)
    return found


# ---- effects and authority ------------------------------------------------------------------


def effect_of(
    defn: Mapping[str, Any],
    hash_text: str,
    schemas: Mapping[str, Schema],
    modules: Mapping[str, Module],
) -> Effect:
    """An effect, resolved."""
    # tidy: one row per field of the part; splitting the table would hide it.
    name, impl = defn["name"], defn["impl"]
    if impl["module"] not in modules:
        hint = nearest(impl["module"], list(modules))
        message = f"{impl['module']} is not in the manifest"
        raise refused("ref.module", message, f"{name}/impl/module", hint)
    module = modules[impl["module"]]
    progress = defn.get("progress")
    params = schema_of(schemas, defn["params"], f"{name}/params")
    return Effect(
        name=name,
        hash=canon.raw_of(hash_text),
        hash_text=hash_text,
        params=params,
        receipt=schema_of(schemas, defn["receipt"], f"{name}/receipt"),
        error=schema_of(schemas, defn.get("error", "sys/EffectError@1"), f"{name}/error"),
        progress=None if progress is None else schema_of(schemas, progress, f"{name}/progress"),
        cap_type=defn.get("cap_type", "effect"),
        idempotent=defn.get("idempotent", False),
        pure=defn.get("pure", False),
        timeout_ns=defn.get("timeout_ns"),
        module=module.name,
        module_hash=module.hash,
        module_hash_text=canon.text_of(module.hash),
        entrypoint=impl["entrypoint"],
        runtime=module.runtime,
        executor=impl["entrypoint"],
        secret=holds_secret(params.node),
    )


def cap_of(
    defn: Mapping[str, Any],
    hash_text: str,
    schemas: Mapping[str, Schema],
    modules: Mapping[str, Module],
) -> Cap:
    """A capability, resolved."""
    name, params = defn["name"], defn.get("params")
    return Cap(
        name=name,
        hash=canon.raw_of(hash_text),
        hash_text=hash_text,
        cap_type=defn["cap_type"],
        params=None if params is None else schema_of(schemas, params, f"{name}/params"),
        order=defn.get("order", {}),
        enforcer=call_of(defn.get("enforcer"), modules, f"{name}/enforcer"),
    )


def grant_of(given: Mapping[str, Any], caps: Mapping[str, Cap]) -> Grant:
    """A grant; refuses params that its capability does not know."""
    path = f"manifest/authority/grants/{given['name']}"
    if given["cap"] not in caps:
        hint = nearest(given["cap"], list(caps))
        raise refused("ref.cap", f"{given['cap']} is not in the manifest", f"{path}/cap", hint)
    cap = caps[given["cap"]]
    params = given.get("params", {})
    if cap.params is not None:
        params = fitted(cap.params, params, "cap.bad_params", f"{path}/params").value
    elif params:
        raise refused("cap.bad_params", f"{cap.name} has no fields", f"{path}/params")
    expires_ns = given.get("expires_ns")
    return Grant(
        name=given["name"],
        cap=cap.name,
        cap_hash=cap.hash,
        cap_type=cap.cap_type,
        params=params,
        expires_ns=expires_ns,
        parent=None,
        hash=grant_hash(cap.hash, params, expires_ns, None),
        order=cap.order,
        enforcer=cap.enforcer,
    )


def fitted(schema: Schema, value: Any, code: str, path: str) -> Admitted:
    """A value of the manifest under its schema; refuses with `code` at the value's path."""
    try:
        return schema.admit(value, "sugar")
    except SchemaMismatch as error:
        first = error.errors[0] if error.errors else {}
        at = f"{path}{first.get('path', '')}"
        message = f"expected {first.get('expected', schema.name)}, got {first.get('got', value)}"
        raise refused(code, message, at) from error
