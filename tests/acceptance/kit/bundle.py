"""The bundle that every node of the kit serves: the one workflow, and leave to call loopback."""

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

SOURCE: Final = Path(__file__).parent.parent / "world" / "charges.py"
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
AUTHORITY: Final = {
    "grants": [
        {
            "name": "web",
            "cap": "sys/http.out@1",
            "params": {"hosts": ["127.0.0.1"], "schemes": ["http"], "cidrs": ["127.0.0.0/8"]},
        },
        {"name": "time", "cap": "sys/timer@1", "params": {}},
        {"name": "till", "cap": "sys/effect@1", "params": {}},
    ],
    "policies": ["kit/all@1"],
}
# The slots of each workflow; each is bound to the grant of its name, but for `llm`, which is not.
SLOTS: Final = {
    "kit/charge@1": {"web": "http.out", "time": "timer"},
    "kit/bill@1": {"till": "effect"},
    "kit/slip@1": {"till": "effect"},
    "kit/trier@1": {"web": "http.out", "llm": "llm"},
}


def _app() -> Any:
    """The app of charges.py, imported under the name that it has in its artifact."""
    spec = importlib.util.spec_from_file_location("charges", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["charges"] = module
    spec.loader.exec_module(module)
    return module.app


@cache
def zipped() -> bytes:
    """The bundle as one file."""
    root, artifacts = python_bundle({"charges.py": SOURCE.read_bytes()})
    *made, manifest = documents(_app(), root)
    for defn in made:
        if defn["$kind"] == "defworkflow":
            defn["cap_slots"] = SLOTS[defn["name"]]
    wired = {
        **manifest,
        "authority": AUTHORITY,
        "module_bindings": {
            name: {"slots": {slot: slot for slot in slots if slot != "llm"}}
            for name, slots in SLOTS.items()
        },
    }
    sources = read_sources([*made, ALLOW, wired])
    assert sources.manifest is not None, sources.findings
    return make_bundle(sources.definitions, sources.manifest, artifacts).to_zip()
