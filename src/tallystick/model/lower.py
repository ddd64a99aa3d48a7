"""Older spellings, lowered to the canonical ones by one pure function (02 section 4).

What comes out has only canonical names, so hash and export never see an older spelling (K-32).
Each document that was rewritten gets the warning `legacy.note`.
What has no successor is refused in fixed words that say what to write instead (K-24).

The order matters: definitions first, because the manifest's lists, targets and bindings are
lowered by looking at what the definitions became.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tallystick.model import sys_definitions
from tallystick.model.definitions_shapes import Finding, step
from tallystick.model.lower_manifest import lower_manifest
from tallystick.model.lower_words import MIXED_HINT, NOTE_HINT, REFUSALS, Context
from tallystick.values import names

__all__ = ["REFUSALS", "Lowered", "lower"]

Raw = dict[str, Any]

_FIRST: Final[Mapping[str, frozenset[str]]] = {
    "defmodule": frozenset({"module_kind", "wasm_hash", "abi"}),
    "defeffect": frozenset({"kind", "params_schema", "receipt_schema", "origin_scope"}),
    "defcap": frozenset({"schema"}),
    "manifest": frozenset({"defaults"}),
}
_SECOND: Final[Mapping[str, frozenset[str]]] = {
    "defmodule": frozenset({"runtime", "pure"}),
    "defeffect": frozenset(
        {"params", "receipt", "impl", "error", "progress", "idempotent", "pure", "timeout_ns"}
    ),
    "defcap": frozenset({"params", "order"}),
    "manifest": frozenset(
        {"workflows", "authority", "governance", "limits", "trust", "upcasts", "migrations"}
    ),
}
_WHEN: Final[Mapping[str, str]] = {
    "effect_kind": "effect",
    "cap_name": "grant",
    "origin_kind": "origin",
    "origin_name": "workflow",
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """Definitions and manifest in canonical names, not yet checked field by field."""

    definitions: tuple[Raw, ...]
    manifest: Raw | None
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class _Work:
    """What has been read so far."""

    definitions: list[Raw] = field(default_factory=list)
    manifests: list[Raw] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=lambda: dict(sys_definitions.effect_kinds()))
    # (kind, name) of each definition whose hash an older manifest cannot know.
    rewritten: set[tuple[str, str]] = field(default_factory=set)
    # ((kind, name) of the document, (kind, name) of what it also became).
    derived: list[tuple[tuple[str, str], tuple[str, str]]] = field(default_factory=list)

    def add(self, code: str, name: str, path: str, message: str, hint: str = "") -> None:
        self.findings.append(Finding(code, name, path, message, hint))


def lower(documents: Iterable[Any]) -> Lowered:
    """All documents of a bundle's sources, a document being an object or a list of objects."""
    work = _Work()
    flat = _flat(documents, work)
    for raw in flat:
        if raw.get("$kind") == "defeffect" and isinstance(raw.get("kind"), str):
            work.kinds.setdefault(raw["kind"], str(raw.get("name", "")))
    for raw in flat:
        _take(raw, work)
    manifest = None
    if work.manifests:
        context = Context(work.definitions, work.kinds, work.rewritten, work.derived)
        manifest = lower_manifest(work.manifests, context, work.findings)
    return Lowered(tuple(work.definitions), manifest, tuple(work.findings))


def _flat(documents: Iterable[Any], work: _Work) -> list[Raw]:
    flat: list[Raw] = []
    for document in documents:
        for raw in document if isinstance(document, list | tuple) else (document,):
            if isinstance(raw, Mapping):
                flat.append(dict(raw))
            else:
                work.add("def.unknown_kind", "", "", "a definition is an object with $kind")
    return flat


def _take(raw: Raw, work: _Work) -> None:
    kind, name = str(raw.get("$kind", "")), str(raw.get("name", ""))
    if kind == "defplan":
        work.add("legacy.defplan", name, "/$kind", REFUSALS["legacy.defplan"])
    elif _is_plan_record(raw):
        work.add("legacy.plan_record", name, "", REFUSALS["legacy.plan_record"])
    elif _mixed(kind, raw):
        message = "fields of air_version 1 and of air_version 2 stand in one document"
        work.add("legacy.mixed_versions", name, "", message, MIXED_HINT)
    elif kind == "manifest":
        work.manifests.append(raw)
    else:
        made = _LOWER.get(kind, _same)(raw, work)
        work.definitions.extend(made)
        if made != [raw]:
            work.rewritten.update((m["$kind"], str(m.get("name", ""))) for m in made)
            message = "written in an older spelling"
            work.add("legacy.note", name, "", message, NOTE_HINT)


def _is_plan_record(raw: Raw) -> bool:
    # Plan-era journals wrote `kind: plan_started`, `plan_result`, `plan_ended`; exports `record`.
    word = raw.get("record", raw.get("kind") if "$kind" not in raw else None)
    return isinstance(word, str) and word.lower().startswith("plan")


def _mixed(kind: str, raw: Raw) -> bool:
    if kind == "defpolicy":
        whens = [rule.get("when") for rule in _objects(raw.get("rules"))]
        used = frozenset(key for when in whens if isinstance(when, Mapping) for key in when)
        return bool(used & frozenset(_WHEN)) and bool(used & frozenset(_WHEN.values()))
    first = bool(frozenset(raw) & _FIRST.get(kind, frozenset())) or raw.get("air_version") == "1"
    return first and bool(frozenset(raw) & _SECOND.get(kind, frozenset()))


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


# ---- definitions ----------------------------------------------------------------------------


def _same(raw: Raw, _work: _Work) -> list[Raw]:
    return [raw]


def _schema(raw: Raw, _work: _Work) -> list[Raw]:
    return [{**raw, "type": _type(raw["type"])}] if "type" in raw else [raw]


def _type(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.get("ref") == "sys/ReducerContext@1":
            return {**value, "ref": "sys/WorkflowContext@1"}
        return {key: _type(value[key]) for key in value}
    return value


def _module(raw: Raw, work: _Work) -> list[Raw]:
    if not frozenset(raw) & _FIRST["defmodule"]:
        return [raw]
    name = str(raw.get("name", ""))
    gone = {*_FIRST["defmodule"], "key_schema"}
    module = {key: raw[key] for key in raw if key not in gone}
    runtime: Raw = {"kind": "wasm"}
    if "wasm_hash" in raw:
        runtime["artifact"] = {"kind": "wasm_module", "hash": raw["wasm_hash"]}
    module["runtime"] = runtime
    given = raw.get("abi")
    abi: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    _check_first_module(raw, abi, work)
    if raw.get("module_kind") == "pure" or "pure" in abi:
        module["pure"] = {"run": abi.get("pure", {})}
        return [module]
    face = abi.get("workflow", abi.get("reducer", {}))
    flow: Raw = {"$kind": "defworkflow", "name": name, "effects_emitted": []}
    if isinstance(face, Mapping):
        flow |= face
    if "key_schema" in raw:
        flow["key_schema"] = raw["key_schema"]
    flow["impl"] = {"module": name, "entrypoint": "step"}
    work.derived.append((("defmodule", name), ("defworkflow", name)))
    return [module, *_workflow(flow, work)]


def _check_first_module(raw: Raw, abi: Mapping[str, Any], work: _Work) -> None:
    """Name what the lowering would otherwise drop in silence."""
    name, kind = str(raw.get("name", "")), raw.get("module_kind", "workflow")
    if kind not in ("workflow", "reducer", "pure"):
        message = f"{kind!r} is not a kind of module"
        work.add("def.bad_value", name, "/module_kind", message, "write workflow or pure")
    for key in abi:
        if key not in ("workflow", "reducer", "pure"):
            message = f"there is no field {key!r} here"
            work.add("def.unknown_field", name, step("/abi", key), message)


def _workflow(raw: Raw, work: _Work) -> list[Raw]:
    made = dict(raw)
    if made.get("context") == "sys/ReducerContext@1":
        made["context"] = "sys/WorkflowContext@1"
    if made.get("determinism") == "decision_log":
        made["determinism"] = "checked"
    if isinstance(made.get("effects_emitted"), list):
        made["effects_emitted"] = [
            _effect_name(word, f"/effects_emitted/{i}", raw, work)
            for i, word in enumerate(made["effects_emitted"])
        ]
    return [made]


def _effect_name(word: Any, path: str, raw: Raw, work: _Work) -> Any:
    if not isinstance(word, str) or "/" in word:
        return word
    if word not in work.kinds:
        message = f"no effect has the kind {word!r}"
        hint = "define it with a defeffect, and name that"
        work.add("workflow.effect_unknown", str(raw.get("name", "")), path, message, hint)
    return work.kinds.get(word, word)


def _op(raw: Raw, work: _Work) -> list[Raw]:
    kind = raw.get("op_kind")
    if kind not in ("workflow", "effect"):
        return [raw]
    made = {key: raw[key] for key in raw if key not in ("op_kind", kind)}
    made["$kind"] = f"def{kind}"
    inner = raw.get(kind)
    if isinstance(inner, Mapping):
        made |= inner
    return _LOWER[made["$kind"]](made, work)


def _effect(raw: Raw, work: _Work) -> list[Raw]:
    if not frozenset(raw) & _FIRST["defeffect"]:
        return [raw]
    name = str(raw.get("name", ""))
    made = {key: raw[key] for key in raw if key not in _FIRST["defeffect"]}
    for old, new in (("params_schema", "params"), ("receipt_schema", "receipt")):
        if old in raw:
            made[new] = raw[old]
    # The first version bound an executor to the kind alone: an external module of the same name.
    made["impl"] = {"module": name, "entrypoint": raw.get("kind", "")}
    work.derived.append((("defeffect", name), ("defmodule", name)))
    return [made, {"$kind": "defmodule", "name": name, "runtime": {"kind": "external"}}]


def _cap(raw: Raw, work: _Work) -> list[Raw]:
    made = {key: raw[key] for key in raw if key != "schema"}
    enforcer = made.get("enforcer")
    if isinstance(enforcer, Mapping) and "entrypoint" not in enforcer:
        made["enforcer"] = {**enforcer, "entrypoint": "run"}
    if "schema" not in raw:
        return [made]
    inner, name = raw["schema"], str(raw.get("name", ""))
    if isinstance(inner, str) or (isinstance(inner, Mapping) and list(inner) == ["ref"]):
        made["params"] = inner if isinstance(inner, str) else inner["ref"]
        return [made]
    called = f"{names.stem_of(name)}.params@{name.rpartition('@')[2]}"
    made["params"] = called
    work.derived.append((("defcap", name), ("defschema", called)))
    return [made, {"$kind": "defschema", "name": called, "type": _type(inner)}]


def _policy(raw: Raw, work: _Work) -> list[Raw]:
    if not isinstance(raw.get("rules"), list):
        return [raw]
    rules = [
        _rule(rule, f"/rules/{i}", raw, work) if isinstance(rule, Mapping) else rule
        for i, rule in enumerate(raw["rules"])
    ]
    return [{**raw, "rules": rules}]


def _rule(rule: Mapping[str, Any], path: str, raw: Raw, work: _Work) -> Raw:
    when = rule.get("when")
    if not isinstance(when, Mapping):
        return dict(rule)
    made = {_WHEN.get(key, key): when[key] for key in when}
    if "effect_kind" in when:
        at = step(step(path, "when"), "effect_kind")
        made["effect"] = _effect_name(when["effect_kind"], at, raw, work)
    if when.get("origin_kind") == "reducer":
        made["origin"] = "workflow"
    return {**rule, "when": made}


_LOWER: Final = {
    "defschema": _schema,
    "defmodule": _module,
    "defworkflow": _workflow,
    "defop": _op,
    "defeffect": _effect,
    "defcap": _cap,
    "defpolicy": _policy,
}
