"""A world that makes one HTTP request with a secret in a header, and keeps what came back."""

from __future__ import annotations

from typing import Any, Final

from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.bundle_python import python_bundle
from tallystick.model.definitions import refusal
from tallystick.model.manifest_sources import read_sources
from tallystick.modules.python import Outcome

CALL: Final = "web/Call@1"
CALLER: Final = "web/caller@1"
HTTP: Final = "sys/http.request@1"
TELL: Final = "sys/telemetry.emit@1"
_TEXT: Final[dict[str, Any]] = {"text": {}}
_RECEIPTS: Final = {
    "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
    "Rejected": {"ref": "sys/EffectReceiptRejected@1"},
}


def bundle(binding: str) -> Bundle:
    """The bundle; the grant names loopback, and the secret may be used under it."""
    root, artifacts = python_bundle({"caller.py": b"# runs in the process of the test\n"})
    sources = read_sources(documents(root, binding))
    if sources.manifest is None:
        raise refusal(list(sources.findings))
    return make_bundle(sources.definitions, sources.manifest, artifacts)


def documents(artifact: str, binding: str) -> list[dict[str, Any]]:
    """The definitions and the manifest of the world."""
    # tidy: one table of definitions
    source = {"kind": "python_bundle", "root_hash": artifact}
    fields = {"id": _TEXT, "url": _TEXT}
    state = {"id": _TEXT, "status": _TEXT, "payload": {"bytes": {}}}
    return [
        {"$kind": "defschema", "name": "web/Id@1", "type": _TEXT},
        {"$kind": "defschema", "name": CALL, "type": {"record": fields}},
        {"$kind": "defschema", "name": "web/State@1", "type": {"record": state}},
        {
            "$kind": "defschema",
            "name": "web/Event@1",
            "type": {"variant": {"Call": {"ref": CALL}, **_RECEIPTS}},
        },
        {
            "$kind": "defmodule",
            "name": "web/code@1",
            "runtime": {"kind": "python", "python": "3.11", "artifact": source},
        },
        {
            "$kind": "defworkflow",
            "name": CALLER,
            "state": "web/State@1",
            "event": "web/Event@1",
            "key_schema": "web/Id@1",
            "effects_emitted": [HTTP],
            "cap_slots": {"web": "http.out"},
            "impl": {"module": "web/code@1", "entrypoint": "caller:caller"},
        },
        {
            "$kind": "defsecret",
            "name": "web/key@1",
            "binding_id": binding,
            "allowed_caps": ["loopback"],
        },
        {"$kind": "defpolicy", "name": "web/all@1", "rules": [{"id": "all", "decision": "allow"}]},
        _manifest(),
    ]


def _manifest() -> dict[str, Any]:
    grant = {
        "name": "loopback",
        "cap": "sys/http.out@1",
        "params": {"cidrs": ["127.0.0.0/8"]},
    }
    return {
        "$kind": "manifest",
        "air_version": "2",
        "routing": {"subscriptions": [{"event": CALL, "workflow": CALLER, "key_field": "id"}]},
        "authority": {"grants": [grant], "policies": ["web/all@1"]},
        "module_bindings": {CALLER: {"slots": {"web": "loopback"}}},
    }


def caller(state: Any, event: Any, ctx: Any) -> Outcome:
    """Ask once; keep the status and the payload of what came back."""
    del ctx
    tag, value = event["$tag"], event["$value"]
    if tag == "Call":
        reference = {"$tag": "secret", "$value": {"alias": "web/key", "version": 1}}
        params = {"method": "GET", "url": value["url"], "headers": {"X-Key": reference}}
        made = {"id": value["id"], "status": "asked", "payload": b""}
        return Outcome(made, effects=[{"effect": HTTP, "params": params, "cap_slot": "web"}])
    if state is None or tag != "Receipt":
        return Outcome(state)
    status = value["status"]["$tag"]
    return Outcome({**state, "status": status, "payload": value["receipt_payload"]}, "completed")


FUNCTIONS: Final = {("web/code@1", "caller:caller"): caller}
