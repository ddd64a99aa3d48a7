"""A good bundle in parts, and the same with one thing wrong: what the tests of the check read."""

# tidy: the bundle is one table of definitions.

from __future__ import annotations

import copy

from tallystick.authority.policy import policy_findings
from tallystick.model.bundle_python import python_bundle
from tallystick.model.catalogue import Catalogue
from tallystick.model.check import check
from tallystick.model.definitions import definition_hash
from tallystick.model.manifest_sources import read_sources
from tallystick.values import canon


def catalogue_of(documents):
    sources = read_sources(documents)
    nodes = {definition_hash(made): made for made in sources.definitions}
    return Catalogue.load(sources.manifest, nodes.__getitem__)  # type: ignore[arg-type]


def found_in(documents, against=None, artifacts=None):
    active = None if against is None else catalogue_of(against)
    return check(read_sources(documents), active, artifacts=artifacts, policies=policy_findings)


def errors_in(*arguments, **more):
    found = found_in(*arguments, **more)
    return [(f.code, f.def_name, f.path) for f in found if not f.warning]


TEXT, NAT = {"text": {}}, {"nat": {}}
WASM = b"\0asm"
ROOT, FILES = python_bundle(
    {"orders/__init__.py": b"", "vendor/left-1.0/left.py": b""}, vendored=[("left", "1.0")]
)
KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def named(name):
    return f"com.acme/{name}"


def schema(name, type_):
    return {"$kind": "defschema", "name": named(name), "type": type_}


def call(entrypoint, module="keys@1"):
    return {"module": named(module), "entrypoint": entrypoint}


def pure(input_, output):
    return {"input": input_, "output": output}


MIGRATION = pure("sys/MigrateState@1", "sys/MigratedState@1")
GOOD = {
    "created1": schema("Created@1", {"record": {"id": TEXT}}),
    "created2": schema("Created@2", {"record": {"id": TEXT, "n": NAT, "in": {"record": {
        "id": {"where": {"type": TEXT, "max_len": 9}}}}}}),
    "noted": schema("Noted@1", {"record": {"id": TEXT}}),
    "event": schema("Event@1", {"variant": {
        "Created": {"ref": named("Created@2")}, "Noted": {"ref": named("Noted@1")},
        "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"}}}),
    "state": schema("State@1", {"record": {"phase": {"variant": {"New": {"unit": {}}}}}}),
    "id": schema("Id@1", {"where": {"type": TEXT, "min_len": 1}}),
    "cap_params": schema("PrintCap@1", {"record": {"queues": {"option": {"set": TEXT}}}}),
    "orders": {"$kind": "defmodule", "name": named("orders@1"), "runtime": {
        "kind": "python", "artifact": {"kind": "python_bundle", "root_hash": ROOT}}},
    "keys": {"$kind": "defmodule", "name": named("keys@1"),
        "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module",
                                                 "hash": canon.hash_of(WASM)}},
        "pure": {"id_of": pure(named("Created@2"), named("Id@1")),
                 "begin": pure(named("Created@2"), named("State@1")),
                 "up": pure(named("Created@1"), named("Created@2")),
                 "state": MIGRATION,
                 "may": pure("sys/CapCheck@1", "sys/CapVerdict@1")}},
    "outside": {"$kind": "defmodule", "name": named("outside@1"), "runtime": {"kind": "external"}},
    "flow": {"$kind": "defworkflow", "name": named("flow@1"), "state": named("State@1"),
        "event": named("Event@1"), "key_schema": named("Id@1"),
        "effects_emitted": [named("print@1"), "sys/timer.set@1"], "cap_slots": {"p": "print"},
        "reads": [named("plain@1")], "limits": {"fuel": 5}, "state_version": 4,
        "accepts_state_versions": [3], "impl": call("orders:flow", "orders@1")},
    "plain": {"$kind": "defworkflow", "name": named("plain@1"), "state": named("State@1"),
        "event": named("Noted@1"), "effects_emitted": [], "impl": call("orders:p", "orders@1")},
    "print": {"$kind": "defeffect", "name": named("print@1"), "params": named("Noted@1"),
        "receipt": named("Noted@1"), "cap_type": "print", "timeout_ns": 5,
        "impl": call("printer", "outside@1")},
    "cap": {"$kind": "defcap", "name": named("print@1"), "cap_type": "print",
        "params": named("PrintCap@1"), "enforcer": call("may"), "order": {"queues": "subset"}},
    "policy": {"$kind": "defpolicy", "name": named("main@1"), "rules": [
        {"when": {"effect": named("print@1"), "workflow": "com.acme/*", "cap": named("print@1")},
         "where": "{{ params.id == 'x' }}", "decision": "deny"},
        {"decision": "allow"}]},
    "idle": {"$kind": "defpolicy", "name": named("idle@1"), "rules": [{"decision": "deny"}]},
    "secret": {"$kind": "defsecret", "name": "pay/key@1", "binding_id": "env:KEY"},
    "upcast": {"$kind": "defupcast", "name": named("up@1"), "from": named("Created@1"),
        "to": named("Created@2"), "impl": call("up")},
    "migrate1": {"$kind": "defmigration", "name": named("m1@1"), "workflow": named("flow@1"),
        "from": 1, "to": 2, "impl": call("state")},
    "migrate2": {"$kind": "defmigration", "name": named("m2@1"), "workflow": named("flow@1"),
        "from": 2, "to": 4, "impl": call("state")},
    "manifest": {"$kind": "manifest", "limits": {"fuel": 5},
        "routing": {"subscriptions": [
            {"event": named("Created@2"), "workflow": named("flow@1"), "key_field": "in.id",
             "init_state": {"phase": "New"},
             "filter": {"origin": ["external", "workflow:com.acme/plain@1", "workflow:x/*"]}},
            {"event": named("Created@2"), "workflow": named("flow@1"), "key_fn": call("id_of"),
             "init_fn": call("begin")},
            {"event": named("Event@1"), "workflow": named("flow@1"), "key_field": "$value.id"},
            {"event": named("Noted@1"), "workflow": named("plain@1")}]},
        "module_bindings": {named("flow@1"): {"slots": {"p": "printer", "timer": "timers"}}},
        "authority": {"policies": [named("main@1")], "grants": [
            {"name": "printer", "cap": named("print@1"), "params": {"queues": ["a"]}},
            {"name": "timers", "cap": "sys/timer@1"}]},
        "trust": {"executors": [{"executors": ["printer"], "public_key": KEY,
                                 "effects": [named("print@1"), "sys/*"]}]}},
}  # fmt: skip
ARTIFACTS = {**FILES, canon.hash_of(WASM): WASM}


def changed(**parts):
    """The good bundle with some of its parts replaced, or removed by None."""
    made = {**copy.deepcopy(GOOD), **parts}
    return [made[part] for part in made if made[part] is not None]


def altered(part, **fields):
    return changed(**{part: {**copy.deepcopy(GOOD[part]), **fields}})


def wired(path, value):
    """The good bundle with one member of its manifest replaced."""
    manifest = copy.deepcopy(GOOD["manifest"])
    inner = manifest
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed(manifest=manifest)


def subscribed(i=0, **fields):
    row = {**GOOD["manifest"]["routing"]["subscriptions"][i], **fields}
    kept = {key: row[key] for key in row if row[key] is not None}
    return wired(["routing", "subscriptions", i], kept)
