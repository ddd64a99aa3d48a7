"""The definitions of the simulated program, and the bundle that they make."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tallystick.model.manifest import manifest_hash
from tallystick.model.manifest_sources import canonical_sources
from tallystick.testing import program
from tallystick.values import canon

_TEXT: Final[Any] = {"text": {}}
_NAT: Final[Any] = {"nat": {}}
_WORDS: Final[Any] = {"list": _TEXT}
_SCRIPTED: Final[Any] = {"order": _TEXT, "todo": _WORDS}
_OUTSIDE: Final = "sim/outside@1"

_SCHEMAS: Final[Mapping[str, Any]] = {
    "sim/Key@1": _TEXT,
    program.START: {"record": _SCRIPTED},
    program.BEGIN: {"record": _SCRIPTED},
    program.TOUCH: {"record": _SCRIPTED},
    program.POKE: {"record": _SCRIPTED},
    program.DEPOSIT: {"record": {"account": _TEXT, "amount": _NAT, "ref": _NAT}},
    program.POSTED: {"record": {"account": _TEXT, "amount": _NAT}},
    "sim/script.State@1": {
        "record": {"order": _TEXT, "log": _WORDS, "todo": _WORDS, "open": _NAT, "seen_ns": _NAT}
    },
    "sim/account.State@1": {"record": {"total": _NAT, "refs": {"list": _NAT}}},
    "sim/ledger.State@1": {"record": {"count": _NAT, "seen": _WORDS}},
    "sim/ChargeParams@1": {"record": {"order": _TEXT, "note": _TEXT}},
    "sim/ChargeReceipt@1": {"record": {"ref": _TEXT}},
}


class Bundle(NamedTuple):
    """A manifest by digest, and every blob that it names."""

    manifest: bytes
    blobs: Mapping[bytes, bytes]


class Held:
    """The blobs of a bundle, as a store that nobody writes to."""

    def __init__(self, blobs: Mapping[bytes, bytes]) -> None:
        self._blobs = blobs

    def get(self, digest: bytes) -> bytes | None:
        """The bytes behind a digest."""
        return self._blobs.get(digest)

    def put(self, digest: bytes, data: bytes) -> None:
        """Never asked for."""
        raise AssertionError(digest, data)

    def place(self) -> bytes:
        """Never asked for: no world stands on it."""
        raise AssertionError


def _short(name: str) -> str:
    return name.split("/")[1].split("@", maxsplit=1)[0]


def _event(spec: program.Spec) -> dict[str, Any]:
    arms = {tag: {"ref": schema} for schema, tag in spec.arms.items()}
    return {"$kind": "defschema", "name": spec.event, "type": {"variant": arms}}


def _workflow(name: str, spec: program.Spec) -> dict[str, Any]:
    made: dict[str, Any] = {
        "$kind": "defworkflow",
        "name": name,
        "state": f"sim/{spec.reducer}.State@1",
        "event": spec.event,
        "effects_emitted": sorted(spec.effects),
        "lifecycle": spec.lifecycle,
        "on_fault": spec.on_fault,
        "impl": {"module": program.MODULE, "entrypoint": _short(name)},
    }
    if spec.keyed:
        made["key_schema"] = "sim/Key@1"
    if spec.effects:
        made["context"] = "sys/WorkflowContext@1"
        made["cap_slots"] = {"any": "effect", "time": "timer", "work": "workflow"}
    return made


def documents(limits: Mapping[str, int]) -> list[dict[str, Any]]:
    """All sources of the program under given limits."""
    made: list[dict[str, Any]] = [
        {"$kind": "defschema", "name": name, "type": type_} for name, type_ in _SCHEMAS.items()
    ]
    made += {spec.event: _event(spec) for spec in program.SPECS.values()}.values()
    made += [_workflow(name, spec) for name, spec in program.SPECS.items()]
    python = {
        "kind": "python",
        "python": "3.11",
        "artifact": {"kind": "python_bundle", "root_hash": "sha256:" + "1" * 64},
    }
    made += [
        {"$kind": "defmodule", "name": program.MODULE, "runtime": python},
        {"$kind": "defmodule", "name": _OUTSIDE, "runtime": {"kind": "external"}},
        {
            "$kind": "defeffect",
            "name": program.CHARGE,
            "params": "sim/ChargeParams@1",
            "receipt": "sim/ChargeReceipt@1",
            "impl": {"module": _OUTSIDE, "entrypoint": "outside"},
        },
        {
            "$kind": "defpolicy",
            "name": "sim/all@1",
            "rules": [{"id": "all", "when": {"origin": "workflow"}, "decision": "allow"}],
        },
        _manifest(limits),
    ]
    return made


def _manifest(limits: Mapping[str, int]) -> dict[str, Any]:
    routes = []
    for event, workflow, key_field, create in program.ROUTES:
        route: dict[str, Any] = {"event": event, "workflow": workflow}
        if key_field is not None:
            route["key_field"] = key_field
        if not create:
            route["create_if_missing"] = False
        routes.append(route)
    caps = {"any": "sys/effect@1", "time": "sys/timer@1", "work": "sys/workflow@1"}
    bound = [name for name, spec in program.SPECS.items() if spec.effects]
    return {
        "$kind": "manifest",
        "air_version": "2",
        "routing": {"subscriptions": routes},
        "authority": {
            "grants": [{"name": slot, "cap": cap, "params": {}} for slot, cap in caps.items()],
            "policies": ["sim/all@1"],
        },
        "module_bindings": {name: {"slots": {slot: slot for slot in caps}} for name in bound},
        "limits": dict(limits),
    }


def built(sources: list[dict[str, Any]]) -> Bundle:
    """The bundle of some sources."""
    definitions, manifest = canonical_sources(sources)
    blobs = {}
    for node in [*definitions, manifest]:
        data = canon.encode(node)
        blobs[canon.digest_of(data)] = data
    return Bundle(canon.raw_of(manifest_hash(manifest)), blobs)


@lru_cache(maxsize=64)
def _built(limits: tuple[tuple[str, int], ...]) -> Bundle:
    return built(documents(dict(limits)))


def bundle_of(limits: Mapping[str, int]) -> Bundle:
    """The bundle of the program under given limits; built once for each."""
    return _built(tuple(sorted(limits.items())))
