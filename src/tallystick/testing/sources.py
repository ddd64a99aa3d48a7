"""The sources behind an app, however a test names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tallystick.errors import BadDefinition
from tallystick.kernel.catalogues import Catalogues
from tallystick.model.bundle import make_bundle
from tallystick.model.manifest_sources import canonical_sources
from tallystick.modules.runners import Library
from tallystick.modules.source import app_of
from tallystick.values import canon
from tallystick.workflow.build import build
from tallystick.workflow.bundle import Bundle

_POLICY = "testing/denied@1"


class Built(NamedTuple):
    """An app as this process knows it, the bundle that a world is made of, and compiled code."""

    app: Bundle
    bundle: Any
    library: Library
    catalogues: Catalogues


def built(app: Any, denied: Any = ()) -> Built:
    """An app made ready for worlds; what is built already is taken as it is.

    The bundle is always built from source text in the lane, also when the app was imported.
    """
    if isinstance(app, Built):
        return app
    files = sources_of(app) if isinstance(app, Bundle) else files_of(app)
    loaded = app_of(files)
    known = app if isinstance(app, Bundle) else loaded
    bundle = build(loaded, files)
    if denied:
        bundle = _denying(bundle, [known.name_of(effect) for effect in denied])
    return Built(known, bundle, Library(), Catalogues())


def files_of(source: str | bytes | Path | Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of an artifact: from text, from a path, or as they are."""
    if isinstance(source, Path):
        return {source.name: source.read_bytes()}
    if isinstance(source, str):
        source = source.encode()
    return {"app.py": source} if isinstance(source, bytes) else dict(source)


def sources_of(app: Bundle) -> dict[str, bytes]:
    """The file in which the workflows of an imported app stand."""
    paths = {Path(spec.tick.__code__.co_filename) for spec in app.workflows.values()}
    if len(paths) != 1 or not next(iter(paths)).is_file():
        message = f"the sources of {app.namespace} are not one file"
        hint = "give the files by path: TestWorld({'app.py': data})"
        raise BadDefinition(message, code="lane.no_bundle", hint=hint)
    path = next(iter(paths))
    return {path.name: path.read_bytes()}


def _denying(bundle: Any, effects: list[str]) -> Any:
    """The same bundle with a rule before all others that refuses these effects."""
    rules = [
        {"id": f"no-{number}", "when": {"effect": name}, "decision": "deny"}
        for number, name in enumerate(effects)
    ]
    policy = {"$kind": "defpolicy", "name": _POLICY, "rules": rules}
    manifest = dict(bundle.manifest)
    manifest["policies"] = [*manifest.get("policies", ()), {"name": _POLICY}]
    authority = dict(manifest["authority"])
    authority["policies"] = [_POLICY, *authority["policies"]]
    manifest["authority"] = authority
    sources = canonical_sources([*bundle.definitions(), policy, manifest])
    artifacts = {hash_: held.data for hash_, held in bundle.artifacts.items()}
    return make_bundle(*sources, artifacts)


def in_wasm(app: Any, code: bytes) -> Built:
    """The same definitions with a WASM module where the Python code was.

    The module exports each workflow under the name of its function or class.
    """
    made = built(app)
    hash_text = canon.hash_of(code)
    definitions = [_moved(dict(each), hash_text) for each in made.bundle.definitions()]
    manifest: dict[str, Any] = dict(made.bundle.manifest)
    for section, rows in manifest.items():
        if isinstance(rows, list):
            manifest[section] = [{"name": row["name"]} for row in rows]
    sources = canonical_sources([*definitions, manifest])
    bundle = make_bundle(*sources, {hash_text: code})
    return Built(made.app, bundle, Library(), Catalogues())


def _moved(definition: dict[str, Any], hash_text: str) -> dict[str, Any]:
    runs = definition.get("runtime", {}).get("kind")
    if definition["$kind"] == "defmodule" and runs in ("python", "wasm"):
        artifact = {"kind": "wasm_module", "hash": hash_text}
        definition["runtime"] = {"kind": "wasm", "artifact": artifact}
    if definition["$kind"] == "defworkflow":
        entry = definition["impl"]["entrypoint"].rpartition(":")[2]
        definition["impl"] = {**definition["impl"], "entrypoint": entry}
        definition["determinism"] = "strict"
    return definition
