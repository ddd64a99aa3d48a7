"""Workflows, effects and modules under check: could each of them run as it is written?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.errors import BadDefinition
from tallystick.model.bundle_python import read_python_bundle, requirement_faults
from tallystick.model.catalogue_build import is_key
from tallystick.model.check_work import Definition, Place, Work
from tallystick.model.limits import DEFAULTS
from tallystick.values.names import nearest

RECEIPT: Final = "sys/EffectReceiptEnvelope@1"


def check_workflows(work: Work) -> None:
    """Schemas, event shape, key, module, effects and limits of every workflow."""
    for at, flow in work.own("defworkflow"):
        for word in ("state", "event", "annotations", "key_schema"):
            work.schema(flow.get(word), at / word)
        _event(work, at, flow)
        key = work.schemas.get(flow.get("key_schema", ""))
        if key is not None and not is_key(key.type):
            message = f"{key.name} cannot be a key"
            hint = "use int, nat, text, uuid, hash or a record of these"
            work.add("workflow.bad_key_schema", at / "key_schema", message, hint)
        _implementation(work, at, flow)
        for i, effect in enumerate(flow["effects_emitted"]):
            work.refer("defeffect", effect, at / "effects_emitted" / i, "workflow.effect_unknown")
        for i, name in enumerate(flow.get("reads", ())):
            work.refer("defworkflow", name, at / "reads" / i)
        for word, value in flow.get("limits", {}).items():
            if word in DEFAULTS and value > work.limit(word):
                message = f"{word} {value} is over the manifest's {work.limit(word)}"
                hint = f"use at most {work.limit(word)}, or raise the manifest's limit"
                work.add("workflow.limit_too_high", at / "limits" / word, message, hint)


def arms_of(work: Work, flow: Definition) -> dict[str, str]:
    """Schema -> tag of a workflow's event; empty for a record, and for an event that is bad."""
    if flow["event"] not in work.schemas:
        return {}
    arms = work.kinds["defschema"][flow["event"]]["type"].get("variant", {})
    return {arm["ref"]: tag for tag, arm in arms.items() if "ref" in arm}


def _event(work: Work, at: Place, flow: Definition) -> None:
    if flow["event"] not in work.schemas:
        return
    type_, event = work.kinds["defschema"][flow["event"]]["type"], flow["event"]
    if "variant" in type_:
        seen: dict[str, bool] = {}
        for tag, arm in type_["variant"].items():
            if "ref" not in arm:
                message, hint = f"arm {tag} of {event} is not a ref", "give its type a name"
                work.add("workflow.bad_event", at / "event", message, hint)
            elif arm["ref"] in seen:
                message = f"{arm['ref']} stands in two arms, so wrapping it would be a guess"
                work.add("workflow.bad_event", at / "event", message, "keep one of the two arms")
            else:
                seen[arm["ref"]] = True
    elif "record" not in type_:
        hint = "make it a record, or a variant of refs"
        message = f"{event} is neither record nor variant"
        work.add("workflow.bad_event", at / "event", message, hint)
    if flow["effects_emitted"] and RECEIPT not in arms_of(work, flow):
        message = f"{at.def_name} asks for effects and cannot see their receipts"
        hint = f'add an arm {{"ref": "{RECEIPT}"}} to {event}'
        work.add("workflow.no_receipt_arm", at / "event", message, hint)


def _implementation(work: Work, at: Place, flow: Definition) -> None:
    here = at / "impl" / "module"
    module = work.refer("defmodule", flow["impl"]["module"], here)
    if module is None:
        return
    name, kind = flow["impl"]["module"], module["runtime"]["kind"]
    if module.get("pure"):
        hint = "put the workflow into a module without a pure table"
        work.add("workflow.pure_module", here, f"{name} is pure and runs no workflow", hint)
    elif kind == "external":
        hint = "an external module performs effects; use python or wasm"
        work.add("module.bad_runtime", here, f"{name} is external and runs no workflow", hint)
    else:
        _entrypoint(work, at / "impl" / "entrypoint", flow["impl"]["entrypoint"], module)


def check_effects(work: Work) -> None:
    """Schemas, executor and capability type of every effect."""
    types = [defn["cap_type"] for defn in work.kinds["defcap"].values()]
    for at, effect in work.own("defeffect"):
        for word in ("params", "receipt", "error", "progress"):
            work.schema(effect.get(word), at / word)
        module = work.refer("defmodule", effect["impl"]["module"], at / "impl" / "module")
        if module is not None:
            _entrypoint(work, at / "impl" / "entrypoint", effect["impl"]["entrypoint"], module)
            if module["runtime"]["kind"] == "external" and "timeout_ns" not in effect:
                message = "an external effect without a deadline may stay open for ever"
                hint = "write timeout_ns"
                work.add("effect.no_timeout", at / "timeout_ns", message, hint)
        wanted = effect.get("cap_type", "effect")
        if wanted not in types and "defcap" not in work.lost:
            message = f"no capability has the type {wanted}, so nobody can be granted it"
            hint = nearest(wanted, types) or f"write a defcap with cap_type {wanted}"
            work.add("ref.cap", at / "cap_type", message, hint)


def check_modules(work: Work) -> None:
    """Pure tables, and artifacts when they are at hand."""
    for at, module in work.own("defmodule"):
        runtime = module["runtime"]
        for entry, row in module.get("pure", {}).items():
            here = at / "pure" / entry
            work.schema(row["input"], here / "input")
            work.schema(row["output"], here / "output")
            _entrypoint(work, here, entry, module)
        if runtime["kind"] == "external" and module.get("pure"):
            message = "an external module performs effects and has no pure functions"
            work.add("module.bad_runtime", at / "pure", message, "use python or wasm")
        if work.artifacts is not None and "artifact" in runtime:
            _artifact(work, at / "runtime" / "artifact", runtime["artifact"], work.artifacts)


def _entrypoint(work: Work, at: Place, entry: str, module: Definition) -> None:
    """A Python entrypoint is `module:object`, of a file that is there."""
    if module["runtime"]["kind"] != "python":
        return
    path, colon, called = entry.partition(":")
    if not (path and colon and called):
        message = f"{entry} is not a Python entrypoint"
        work.add("module.no_entrypoint", at, message, "write module:object")
        return
    files = _files(work, module["runtime"].get("artifact", {}))
    stem = path.replace(".", "/")
    wanted = (f"{stem}.py", f"{stem}/__init__.py")
    if files is not None and not any(
        file == end or file.endswith(f"/{end}") for file in files for end in wanted
    ):
        hint = nearest(wanted[0], files) or f"add {wanted[0]} to the module's sources"
        work.add("module.no_entrypoint", at, f"no file of the module is {wanted[0]}", hint)


def _files(work: Work, artifact: Mapping[str, Any]) -> list[str] | None:
    """The paths of a python_bundle, None when it is not at hand or cannot be read."""
    listing = (work.artifacts or {}).get(artifact.get("root_hash", ""))
    if listing is None:
        return None
    try:
        return [path for path, _ in read_python_bundle(listing)["files"]]
    except BadDefinition:
        # `_artifact` has said so, once for the module.
        return None


def _artifact(
    work: Work, at: Place, artifact: Mapping[str, str], held: Mapping[str, bytes]
) -> None:
    hash_text = artifact.get("root_hash", artifact.get("hash", ""))
    if hash_text not in held:
        message = f"the artifact {hash_text} is not there"
        work.add("module.no_artifact", at, message, "build the module, and its bundle again")
        return
    if artifact["kind"] != "python_bundle":
        return
    try:
        made = read_python_bundle(held[hash_text])
    except BadDefinition as error:
        work.add(error.code, at, error.message, error.hint)
        return
    for path, file in made["files"]:
        if file not in held:
            work.add("module.no_artifact", at, f"the content of {path} is not there")
    for fault in requirement_faults(made):
        work.add("module.requirement_mismatch", at, fault, "vendor it again")
