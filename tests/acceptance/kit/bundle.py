"""The bundles that nodes of the kit serve: workflows, and leave to call what is on loopback."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

from tallystick.model.bundle import make_bundle
from tallystick.model.bundle_python import python_bundle
from tallystick.model.manifest_sources import read_sources
from tallystick.workflow.build import documents

_FOLDER: Final = Path(__file__).parent.parent / "world"
WORLDS: Final = {"charges": _FOLDER / "charges.py", "tools": _FOLDER / "tools.py"}
ALLOW: Final = {
    "$kind": "defpolicy",
    "name": "kit/all@1",
    "rules": [
        {
            "id": "no-delete",
            "when": {"effect": "sys/http.request@1"},
            "where": "{{ params.method == 'DELETE' }}",
            "decision": "deny",
        },
        {"id": "all", "when": {"origin": "workflow"}, "decision": "allow"},
    ],
}
_LOOP: Final = {"hosts": ["127.0.0.1"], "schemes": ["http"], "cidrs": ["127.0.0.0/8"]}
GRANTS: Final = [
    {"name": "loop", "cap": "sys/http.out@1", "params": _LOOP},
    # 127.0.0.2 stands for a server in the open; 127.0.0.1 is what nobody may reach.
    {"name": "front", "cap": "sys/http.out@1", "params": {"cidrs": ["127.0.0.2/32"]}},
    {"name": "time", "cap": "sys/timer@1", "params": {}},
    {"name": "till", "cap": "sys/effect@1", "params": {}},
    {"name": "files", "cap": "sys/file@1", "params": {"roots": ["project"], "ops": ["write"]}},
    {
        "name": "shell",
        "cap": "sys/shell@1",
        "params": {"programs": ["/bin/sh", "/bin/bash"], "env": ["TOOLS_KEY"]},
    },
]
# The slots of each workflow, and the grant that each is bound to; `llm` is bound to none.
SLOTS: Final[dict[str, dict[str, str]]] = {
    "kit/charge@1": {"web": "http.out", "time": "timer"},
    "kit/bill@1": {"till": "effect"},
    "kit/slip@1": {"till": "effect"},
    "kit/trier@1": {"web": "http.out", "llm": "llm"},
    "tools/fetcher@1": {"web": "http.out"},
    "tools/keeper@1": {"files": "file"},
    "tools/runner@1": {"shell": "shell"},
}


def _app(name: str) -> Any:
    """The app of a source, imported under the name that it has in its artifact."""
    spec = importlib.util.spec_from_file_location(name, WORLDS[name])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.app


@cache
def zipped(name: str = "charges", web: str = "loop") -> bytes:
    """A bundle as one file; `web` names the grant that requests over HTTP have."""
    root, artifacts = python_bundle({f"{name}.py": WORLDS[name].read_bytes()})
    *made, manifest = documents(_app(name), root)
    bound = {}
    for defn in made:
        slots = SLOTS.get(defn.get("name", ""), {})
        if defn["$kind"] == "defworkflow" and slots:
            defn["cap_slots"] = slots
            grants = {slot: web if slot == "web" else slot for slot in slots if slot != "llm"}
            bound[defn["name"]] = {"slots": grants}
    authority = {"grants": GRANTS, "policies": ["kit/all@1"]}
    wired = {**manifest, "authority": authority, "module_bindings": bound}
    sources = read_sources([*made, ALLOW, wired])
    assert sources.manifest is not None, sources.findings
    return make_bundle(sources.definitions, sources.manifest, artifacts).to_zip()
