"""Schemas under check: references, good types, additive change, and those nobody uses."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from tallystick.errors import BadDefinition
from tallystick.model.catalogue_build import sys_schemas
from tallystick.model.check_work import Definition, Place, Work
from tallystick.model.definitions_shapes import step
from tallystick.values import names
from tallystick.values.names import nearest
from tallystick.values.schema import compatible, compile_schema


def check_schemas(work: Work) -> None:
    """Compile what can be compiled into `work.schemas`; note the rest, each fault once."""
    work.schemas.update(sys_schemas())
    held = work.kinds["defschema"]
    refs = {name: [ref for _, ref in refs_in(held[name]["type"])] for name in held}
    reach = {name: _reach(name, refs) for name in held}
    # A schema over one that cannot be read cannot be read either, and is not to blame.
    dark = {at.def_name: True for at, defn in work.own("defschema") if _bad_refs(work, at, defn)}
    failed: dict[str, BadDefinition] = {}
    for at, defn in work.own("defschema"):
        name = at.def_name
        if name in dark or any(ref in dark for ref in reach[name]):
            continue
        try:
            work.schemas[name] = compile_schema(name, defn["type"], _resolver(work))
        except BadDefinition as error:
            failed[name] = error
    for name, why in failed.items():
        # In a circle nobody is further down, so each answers for itself.
        below = [ref for ref in reach[name] if name not in reach.get(ref, {})]
        recursive = why.code == "schema.recursive"
        if name in reach[name] if recursive else not any(ref in failed for ref in below):
            here = Place(name, f"/type{why.where.get('path', '')}")
            work.add(why.code, here, why.message)


def refs_in(type_: Any, path: str = "/type") -> Iterator[tuple[str, str]]:
    """Each (path, name) that a type expression refers to.

    A field may be called `ref` too; its type is an object, a reference is a text.
    """
    if isinstance(type_, Mapping):
        for key in type_:
            if key == "ref" and type(type_[key]) is str:
                yield step(path, key), type_[key]
            else:
                yield from refs_in(type_[key], step(path, key))


def _resolver(work: Work) -> Any:
    held = work.kinds["defschema"]
    return lambda name: held[name]["type"]


def _reach(name: str, refs: Mapping[str, list[str]]) -> dict[str, bool]:
    """Every schema that a schema refers to, near and far; itself only if it is recursive."""
    seen: dict[str, bool] = {}
    todo = list(refs[name])
    while todo:
        ref = todo.pop()
        if ref not in seen:
            seen[ref] = True
            todo.extend(refs.get(ref, ()))
    return seen


def _bad_refs(work: Work, at: Place, defn: Definition) -> bool:
    """True when a reference leads nowhere; one that is no name is the compiler's to refuse."""
    held, bad = work.kinds["defschema"], False
    for path, name in refs_in(defn["type"]):
        if name in held or not names.is_definition(name):
            continue
        bad = True
        here = Place(at.def_name, path)
        if name in work.defined["defschema"]:
            work.refer("defschema", name, here)
        elif name not in work.broken:
            hint = nearest(name, list(held))
            work.add("schema.unknown_ref", here, f"{name} is not defined", hint)
    return bad


def check_additive(work: Work) -> None:
    """01 section 5: the definition behind an active name may only grow."""
    if work.against is None:
        return
    broken: dict[str, str] = {}
    for at, _ in work.own("defschema"):
        old, new = work.against.schemas.get(at.def_name), work.schemas.get(at.def_name)
        if old is not None and new is not None:
            where = compatible(old.type, new.type)
            broken |= {} if where is None else {at.def_name: where}
    for name, where in broken.items():
        # What breaks inside a referred schema is that schema's to answer for.
        if _owner(work, name, where) in broken or _is_read_on(work, name):
            continue
        message = f"{name} is active, and this change refuses or changes old values"
        hint = f"write {names.stem_of(name)}@{names.version_of(name) + 1} and an upcast to it"
        work.add("schema.not_additive", Place(name, f"/type{where}"), message, hint)


def _is_read_on(work: Work, name: str) -> bool:
    """True for the event of a workflow whose lost arms are read as other ones by upcasts.

    Such a variant is made at each tick and never kept: what is kept are the events that its arms
    are, so it may change as long as each of them still finds an arm.
    """
    assert work.against is not None, "only asked about a change"
    variant = work.kinds["defschema"][name]["type"].get("variant")
    flows = [flow for flow in work.against.workflows.values() if flow.event.name == name]
    if not isinstance(variant, Mapping) or not flows:
        return False
    arms = {arm["ref"] for arm in variant.values() if isinstance(arm, Mapping) and "ref" in arm}
    steps = {row["from"]: row["to"] for _, row in work.own("defupcast")}
    return all(_leads_into(steps, arm, arms) for flow in flows for arm in flow.arms)


def _leads_into(steps: Mapping[str, str], start: str, ends: Container[str]) -> bool:
    for _ in range(len(steps) + 1):
        if start in ends:
            return True
        if start not in steps:
            return False
        start = steps[start]
    return False


def _owner(work: Work, name: str, where: str) -> str | None:
    """The first schema that a path inside a schema's inlined type passes into."""
    type_: Any = work.kinds["defschema"][name]["type"]
    # Names of fields and tags have no `/` and no `~`, so nothing here is escaped.
    for part in where.split("/")[1:]:
        if type(type_.get("ref")) is str or part not in type_:
            break
        type_ = type_[part]
    found = type_.get("ref") if isinstance(type_, Mapping) else None
    return found if type(found) is str else None


def check_unused(work: Work) -> None:
    """Warn of schemas that nothing active leads to."""
    held = work.kinds["defschema"]
    used: dict[str, bool] = {}
    todo = _roots(work)
    while todo:
        name = todo.pop()
        if name not in used:
            used[name] = True
            type_ = held[name]["type"] if name in held else {}
            todo.extend(ref for _, ref in refs_in(type_))
    for at, _ in work.own("defschema"):
        if at.def_name not in used:
            hint = "remove it, unless a workflow emits it for readers outside"
            work.add("schema.unused", at / "name", "no active definition uses this schema", hint)


def _roots(work: Work) -> list[str]:
    fields = {
        "defworkflow": ("state", "event", "annotations", "key_schema"),
        "defeffect": ("params", "receipt", "error", "progress"),
        "defcap": ("params",),
        "defupcast": ("from", "to"),
    }
    found = [
        defn[word]
        for kind, words in fields.items()
        for _, defn in work.own(kind)
        for word in words
        if word in defn
    ]
    for _, module in work.own("defmodule"):
        for row in module.get("pure", {}).values():
            found += (row["input"], row["output"])
    return [*found, *(row["event"] for _, row in work.subscriptions())]
