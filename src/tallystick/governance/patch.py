"""Patches: a change written down, compiled against the active bundle into one candidate (X-19).

Theory of operation.
Each operation names what it finds (`pre_hash`) and what it leaves; so a patch that was written for
another manifest either still means the same, or is refused by the operation that does not.
The result is one whole bundle, read and checked like any other: nothing is changed in place.
A bundle that somebody brings is derived into a patch, so that every proposal has one.
"""

# tidy: one document format, its operations and its refusals.
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn

from tallystick.authority.policy import policy_findings
from tallystick.errors import BadDefinition, Conflict
from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.check import check_bundle, shown
from tallystick.model.lower_words import REFUSALS
from tallystick.model.manifest import SECTIONS as KINDS
from tallystick.model.manifest_sources import read_sources
from tallystick.values import canon, names

VERSION: Final = "2"
OPERATIONS_MAX: Final = 10_000

# Section -> where it stands in the manifest, and what it is when it is absent.
_PLACES: Final[Mapping[str, tuple[tuple[str, ...], Any]]] = {
    "subscriptions": (("routing", "subscriptions"), []),
    "module_bindings": (("module_bindings",), {}),
    "grants": (("authority", "grants"), []),
    "policies": (("authority", "policies"), []),
    "flows": (("authority", "flows"), []),
    "budgets": (("authority", "budgets"), []),
    "limits": (("limits",), {}),
    "trust": (("trust",), {}),
    "principals": (("governance", "principals"), []),
    "rules": (("governance", "rules"), {}),
}
SECTIONS: Final = tuple(_PLACES)
# Operations of older patches: the section and the field that holds its new value.
_OLDER: Final[Mapping[str, tuple[str, str]]] = {
    "set_routing_subscriptions": ("subscriptions", "subscriptions"),
    "set_routing_events": ("subscriptions", "subscriptions"),
    "set_module_bindings": ("module_bindings", "bindings"),
}
_GONE: Final[Mapping[str, str]] = {
    "set_triggers": "legacy.triggers",
    "set_routing_inboxes": "legacy.inboxes",
}


class Compiled(NamedTuple):
    """A patch and what it makes of the active bundle."""

    bundle: Bundle
    patch: dict[str, Any]
    summary: dict[str, Any]


class Blobs:
    """Artifacts by text hash, read from a blob store when they are asked for."""

    def __init__(self, get: Callable[[bytes], bytes | None]) -> None:
        self._get = get

    def __contains__(self, hash_text: object) -> bool:
        return isinstance(hash_text, str) and self._get(canon.raw_of(hash_text)) is not None

    def __getitem__(self, hash_text: str) -> bytes:
        found = self._get(canon.raw_of(hash_text))
        if found is None:
            raise KeyError(hash_text)
        return found


def bundle_of(manifest: bytes, blobs: Blobs) -> Bundle:
    """The bundle of a manifest whose nodes and artifacts are in a blob store."""
    document: dict[str, Any] = canon.decode(blobs[canon.text_of(manifest)])
    rows = [row for section in KINDS for row in document.get(section, ())]
    nodes = [canon.decode(blobs[row["hash"]]) for row in rows]
    return make_bundle(nodes, document, blobs)  # type: ignore[arg-type]  # asked by key only


def compiled(patch: Any, active: Bundle, artifacts: Blobs) -> Compiled:
    """The one candidate of a patch; refuses one that does not fit the active bundle.

    `gov.bad_patch` a document that is none, `gov.stale_base` another base,
    `gov.pre_hash_mismatch` an operation that finds something else, `gov.reserved_name` our names,
    `legacy.*` what is gone; and everything that `bundle check` refuses.
    """
    given = _document(patch)
    base = canon.hash(active.manifest)
    if given["base_manifest_hash"] != base:
        raise Conflict(
            "the patch was made for another manifest",
            code="gov.stale_base",
            where={"base": given["base_manifest_hash"], "active": base},
            hint="`tally gov propose --rebase P` makes a new one for the active manifest",
        )
    work = _Work(active)
    for number, operation in enumerate(_lowered(given["patches"])):
        work.apply(number, operation)
    candidate = checked(work.bundle(artifacts), active)
    return Compiled(candidate, given, summary_of(active, candidate))


def derived(candidate: Bundle, active: Bundle) -> Compiled:
    """A bundle that somebody brings, with the patch that leads to it from the active one."""
    checked(candidate, active)
    patch = {
        "version": VERSION,
        "base_manifest_hash": canon.hash(active.manifest),
        "patches": list(_operations(active, candidate)),
    }
    return Compiled(candidate, patch, summary_of(active, candidate))


def rebased(patch: Mapping[str, Any], active: Bundle, artifacts: Blobs) -> Compiled:
    """The same operations for the manifest that is active now; refuses one that finds another."""
    moved = {**patch, "base_manifest_hash": canon.hash(active.manifest)}
    return compiled(moved, active, artifacts)


def checked(candidate: Bundle, active: Bundle) -> Bundle:
    """The candidate, if `bundle check` against the active bundle finds no error."""
    found = check_bundle(candidate, active.catalogue(), policies=policy_findings)
    errors = [shown(finding) for finding in found if not finding.warning]
    if errors:
        first = errors[0]
        raise BadDefinition(
            f"{first['def']}{first['path']}: {first['message']}",
            code=first["code"],
            where={"path": first["path"], "def": first["def"], "findings": errors[:100]},
            hint=first["hint"],
        )
    return candidate


def summary_of(active: Bundle, candidate: Bundle) -> dict[str, Any]:
    """What a candidate adds, removes and changes, by kind, name and section."""
    old, new = _definitions(active), _definitions(candidate)
    return {
        "added": [_row(key) for key in sorted(new.keys() - old.keys())],
        "removed": [_row(key) for key in sorted(old.keys() - new.keys())],
        "changed": [
            _row(key)
            for key in sorted(old.keys() & new.keys())
            if _hash(old, key) != _hash(new, key)
        ],
        "sections": [
            name
            for name in SECTIONS
            if _section(active.manifest, name) != _section(candidate.manifest, name)
        ],
    }


# ---- reading --------------------------------------------------------------------------------

Definitions = dict[tuple[str, str], dict[str, Any]]


def _definitions(bundle: Bundle) -> Definitions:
    return {(node["$kind"], node["name"]): node for node in bundle.definitions()}


def _row(key: tuple[str, str]) -> dict[str, str]:
    return {"kind": key[0].removeprefix("def"), "name": key[1]}


def _hash(nodes: Definitions, key: tuple[str, str]) -> str:
    return canon.hash(nodes[key])


def _section(manifest: Mapping[str, Any], name: str) -> Any:
    path, absent = _PLACES[name]
    found: Any = manifest
    for word in path:
        found = found.get(word, {})
    return found or absent


def _document(patch: Any) -> dict[str, Any]:
    good = (
        isinstance(patch, Mapping)
        and sorted(patch) == ["base_manifest_hash", "patches", "version"]
        and patch["version"] in (VERSION, "1")
        and isinstance(patch["base_manifest_hash"], str)
        and isinstance(patch["patches"], list)
        and len(patch["patches"]) <= OPERATIONS_MAX
        and all(isinstance(each, Mapping) and len(each) == 1 for each in patch["patches"])
    )
    if not good:
        _bad("a patch has version, base_manifest_hash and a list of patches", None)
    return dict(patch)


def _lowered(patches: list[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every operation by its present name; what has no successor is refused in fixed words."""
    for number, one in enumerate(patches):
        ((verb, body),) = one.items()
        if not isinstance(body, Mapping):
            _bad(f"{verb} is no operation", number)
        if verb in _GONE:
            raise BadDefinition(REFUSALS[_GONE[verb]], code=_GONE[verb], where={"op": number})
        if verb in _OLDER:
            section, field = _OLDER[verb]
            value = body.get(field, [] if section == "subscriptions" else {})
            yield "set_section", {**_pre(body), "section": section, "value": value}
        elif verb == "set_defaults":
            if "policy" in body:
                value = [] if body["policy"] is None else [body["policy"]]
                yield "set_section", {"section": "policies", "value": value}
            if "cap_grants" in body:
                yield "set_section", {"section": "grants", "value": body["cap_grants"]}
        elif verb == "set_section" and "pre_hash" not in body:
            _bad("set_section says the pre_hash of the section", number)
        else:
            yield verb, body


def _pre(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"pre_hash": body["pre_hash"]} if "pre_hash" in body else {}


def _bad(message: str, number: int | None) -> NoReturn:
    where = {"path": "/patches" if number is None else f"/patches/{number}"}
    raise BadDefinition(message, code="gov.bad_patch", where=where)


# ---- applying -------------------------------------------------------------------------------


class _Work:
    """The definitions and the wiring while operations are applied to them."""

    def __init__(self, active: Bundle) -> None:
        self._nodes = _definitions(active)
        self._wiring = {key: value for key, value in active.manifest.items() if key not in KINDS}

    def apply(self, number: int, operation: tuple[str, Mapping[str, Any]]) -> None:
        """One operation; refuses what does not find what it says."""
        verb, body = operation
        act = {
            "add_def": self._add,
            "replace_def": self._replace,
            "remove_def": self._remove,
            "set_section": self._set,
        }.get(verb)
        if act is None:
            _bad(f"{verb} is no operation of a patch", number)
        act(number, body)

    def bundle(self, artifacts: Blobs) -> Bundle:
        """What came out, as a bundle."""
        sources = read_sources([*self._nodes.values(), self._wiring])
        if sources.manifest is None:
            first = next(each for each in sources.findings if not each.warning)
            where = {"path": first.path, "def": first.def_name}
            raise BadDefinition(first.message, code=first.code, where=where, hint=first.hint)
        return make_bundle(sources.definitions, sources.manifest, artifacts)  # type: ignore[arg-type]  # asked by key only

    def _add(self, number: int, body: Mapping[str, Any]) -> None:
        for node in _read(number, body.get("node"), body.get("kind")):
            key = (node["$kind"], node["name"])
            there = self._nodes.get(key)
            if there is not None and there != node:
                _mismatch(number, key[1], None, canon.hash(there))
            self._nodes[key] = node

    def _replace(self, number: int, body: Mapping[str, Any]) -> None:
        key = self._found(number, body)
        made = _read(number, body.get("new_node"), body.get("kind"))
        if [(node["$kind"], node["name"]) for node in made] != [key]:
            _bad(f"the new node is not {key[1]}", number)
        self._nodes[key] = made[0]

    def _remove(self, number: int, body: Mapping[str, Any]) -> None:
        del self._nodes[self._found(number, body)]

    def _found(self, number: int, body: Mapping[str, Any]) -> tuple[str, str]:
        """The definition that an operation names, if it is the one that it expects."""
        kind, name = _kind(number, body.get("kind")), body.get("name")
        if not isinstance(name, str):
            _bad("the operation names nothing", number)
        if names.is_reserved(name):
            _reserved(number, name)
        there = self._nodes.get((kind, name))
        found = None if there is None else canon.hash(there)
        if found is None or found != body.get("pre_hash"):
            _mismatch(number, name, body.get("pre_hash"), found)
        return kind, name

    def _set(self, number: int, body: Mapping[str, Any]) -> None:
        section = str(body.get("section"))
        if section not in _PLACES or "value" not in body:
            _bad(f"a section is one of {', '.join(SECTIONS)}", number)
        found = canon.hash(_section(self._wiring, section))
        if "pre_hash" in body and body["pre_hash"] != found:
            _mismatch(number, section, body["pre_hash"], found)
        *above, last = _PLACES[section][0]
        place = self._wiring
        for word in above:
            place[word] = place = dict(place.get(word, {}))
        place[last] = body["value"]


def _kind(number: int, given: Any) -> str:
    word = f"def{str(given).removeprefix('def')}"
    if word == "defplan":
        raise BadDefinition(REFUSALS["legacy.defplan"], code="legacy.defplan", where={"op": number})
    if word not in KINDS.values():
        _bad(f"{given!r} is no kind of definition", number)
    return word


def _read(number: int, node: Any, kind: Any) -> list[dict[str, Any]]:
    """A definition in canonical form; an older spelling may become two."""
    wanted = _kind(number, kind)
    if not isinstance(node, Mapping):
        _bad("the operation brings no node", number)
    if isinstance(node.get("name"), str) and names.is_reserved(node["name"]):
        _reserved(number, node["name"])
    sources = read_sources([{"$kind": wanted, **node}])
    errors = [finding for finding in sources.findings if not finding.warning]
    if errors:
        first = errors[0]
        where = {"path": f"/patches/{number}{first.path}", "def": first.def_name}
        raise BadDefinition(first.message, code=first.code, where=where, hint=first.hint)
    return list(sources.definitions)


def _mismatch(number: int, name: str, expected: str | None, found: str | None) -> NoReturn:
    raise Conflict(
        f"operation {number} expects {expected or 'nothing'} as {name} and finds {found or 'none'}",
        code="gov.pre_hash_mismatch",
        where={"op": number, "name": name, "expected": expected, "found": found},
        hint="write the operation for what is active now",
    )


def _reserved(number: int, name: str) -> NoReturn:
    raise BadDefinition(
        f"{name} is ours and in every world",
        code="gov.reserved_name",
        where={"op": number, "name": name},
        hint="use a namespace of your own",
    )


# ---- deriving -------------------------------------------------------------------------------


def _operations(active: Bundle, candidate: Bundle) -> Iterator[dict[str, Any]]:
    old, new = _definitions(active), _definitions(candidate)
    for key in sorted(new):
        kind, name = key
        if key not in old:
            yield {"add_def": {"kind": kind.removeprefix("def"), "node": new[key]}}
        elif old[key] != new[key]:
            body = {**_row(key), "pre_hash": canon.hash(old[key]), "new_node": new[key]}
            yield {"replace_def": body}
    for key in sorted(old):
        if key not in new:
            yield {"remove_def": {**_row(key), "pre_hash": canon.hash(old[key])}}
    for name in SECTIONS:
        before, after = (_section(each.manifest, name) for each in (active, candidate))
        if before != after:
            body = {"section": name, "pre_hash": canon.hash(before), "value": after}
            yield {"set_section": body}


__all__ = ["Blobs", "Compiled", "bundle_of", "compiled", "derived", "rebased"]
