"""Where a bundle is expected: a container, a folder of one, definitions, or a `.py` file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tallystick.errors import BadDefinition, Rejected
from tallystick.model.bundle import DOCUMENT, Bundle, from_members, from_zip, make_bundle
from tallystick.model.bundle_authority import structural_authority
from tallystick.model.bundle_python import is_source, python_bundle
from tallystick.model.definitions import refusal
from tallystick.model.manifest_sources import Sources, read_sources
from tallystick.modules.source import bundle_of
from tallystick.values import canon

STRUCTURAL: Final = "structural"
_DOCUMENTS: Final = (".json", ".yaml", ".yml")


def bundle_at(
    path: str | Path,
    *,
    authority: str | None = STRUCTURAL,
    vendored: Mapping[str, bytes] | None = None,
) -> Bundle:
    """The bundle behind a path; what is not built yet is built, with what was vendored for it.

    Refuses a path that holds none with `bundle.not_found`, and everything that a check refuses.
    """
    place = Path(path)
    if vendored and not is_python(place):
        raise Rejected("--vendor goes with Python sources", code="request.usage")
    if is_built(place):
        return built_bundle(place)
    if is_python(place):
        files = {**python_files(place), **(vendored or {})}
        made: Bundle = bundle_of(files, structural=authority == STRUCTURAL)
        return made
    sources, artifacts = sources_at(place)
    if authority == STRUCTURAL:
        sources = structural_authority(sources)
    if sources.manifest is None:
        raise refusal([finding for finding in sources.findings if not finding.warning])
    return make_bundle(sources.definitions, sources.manifest, artifacts)


def is_built(place: Path) -> bool:
    """True for a container, and for a folder that holds a bundle document."""
    return place.suffix == ".zip" or (place / DOCUMENT).exists()


def is_python(place: Path) -> bool:
    """True for a Python file, and for a folder of Python files without other definitions."""
    if place.is_dir():
        return not _documents(place) and any(place.glob("*.py"))
    return place.suffix == ".py" and place.exists()


def python_files(place: Path) -> dict[str, bytes]:
    """The sources of a file, or of a folder without its tests."""
    if place.is_file():
        return {place.name: place.read_bytes()}
    found: dict[str, bytes] = {}
    for path in sorted(place.rglob("*.py")):
        name = path.relative_to(place).as_posix()
        if is_source(name) and not path.name.startswith(("test_", "conftest")):
            found[name] = path.read_bytes()
    return found


def built_bundle(place: Path) -> Bundle:
    """A bundle that was built before, every byte of it hashed again."""
    if not place.exists():
        raise _not_found(place)
    if place.is_file():
        return from_zip(place.read_bytes())
    return from_members(_files(place))


def _files(place: Path) -> dict[str, bytes]:
    found = sorted(path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in found}


def sources_at(place: Path) -> tuple[Sources, dict[str, bytes]]:
    """Definitions of a file or folder, and the artifacts that they name by path."""
    if not place.exists():
        raise _not_found(place)
    if place.suffix == ".py" or (place.is_dir() and not _documents(place)):
        return _kit_sources(place)
    paths = [place] if place.is_file() else _documents(place)
    if not paths:
        raise _not_found(place)
    base = place.parent if place.is_file() else place
    artifacts: dict[str, bytes] = {}
    documents = [
        _with_artifact(document, base, artifacts) for path in paths for document in _read(path)
    ]
    return read_sources(documents), artifacts


def _kit_sources(place: Path) -> tuple[Sources, dict[str, bytes]]:
    """What Python sources define, by the authoring kit; structural authority comes later."""
    from tallystick.modules.source import bundle_of  # noqa: PLC0415  # runs the author's code

    files = python_files(place)
    if not files:
        raise _not_found(place)
    made = bundle_of(files, structural=False)
    return made.sources(), {hash_: held.data for hash_, held in made.artifacts.items()}


def _plain(path: Path) -> bool:
    return not any(part.startswith(".") for part in path.parts)


def signature(place: Path) -> tuple[tuple[str, int, int], ...]:
    """What a watcher compares: every file below a path with its size and time of change."""
    paths = [place] if place.is_file() else sorted(place.rglob("*"))
    return tuple(
        (str(path), held.st_size, held.st_mtime_ns)
        for path in paths
        if path.is_file() and _plain(path.relative_to(place) if path != place else Path())
        for held in [path.stat()]
    )


def _documents(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.suffix in _DOCUMENTS)


def _read(path: Path) -> list[Any]:
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            found = [json.loads(text)]
        else:
            found = [each for each in yaml.safe_load_all(text) if each is not None]
    except (ValueError, yaml.YAMLError) as why:
        raise BadDefinition(
            f"{path} cannot be read: {why}", code="def.bad_value", where={"path": str(path)}
        ) from why
    return [each for one in found for each in (one if isinstance(one, list) else [one])]


def _with_artifact(document: Any, base: Path, artifacts: dict[str, bytes]) -> Any:
    """A module whose artifact is `{"path": "code"}` gets that folder as its python bundle.

    A path to a `.wasm` file is a WASM module.
    """
    runtime: Any = document.get("runtime") if isinstance(document, Mapping) else None
    artifact: Any = runtime.get("artifact") if isinstance(runtime, Mapping) else None
    if not isinstance(artifact, Mapping) or "path" not in artifact:
        return document
    folder = base / str(artifact["path"])
    if folder.suffix == ".wasm" and folder.is_file():
        data = folder.read_bytes()
        hash_text = canon.hash_of(data)
        artifacts[hash_text] = data
        source = {"kind": "wasm_module", "hash": hash_text}
        return {**document, "runtime": {**runtime, "artifact": source}}
    if not folder.is_dir():
        raise _not_found(folder)
    root, made = python_bundle(
        {name: data for name, data in _files(folder).items() if name.endswith(".py")}
    )
    artifacts.update(made)
    source = {"kind": "python_bundle", "root_hash": root}
    return {**document, "runtime": {**runtime, "artifact": source}}


def _not_found(place: Path) -> Rejected:
    return Rejected(
        f"{place} holds no bundle",
        code="bundle.not_found",
        where={"path": str(place)},
        hint="give a .py file, a folder with definitions, or a .tally.zip",
    )
