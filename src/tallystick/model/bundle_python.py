"""A `python_bundle`: the sources of a Python module as one hashed list (02 section 3).

Files are listed in byte order of path; caches, byte code and dot files are left out, so that an
editor, a test run or a file manager does not change the hash.
What `--vendor` copied in stands below `vendor/<dist>-<version>/` and is listed under `requires`
with the hash of its own file list, which is checked at load; a node never installs anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tallystick.errors import BadDefinition, NotCanonical
from tallystick.values import canon, names

LANE: Final = 1
MEDIA: Final = "application/vnd.tallystick.python-bundle+cbor"
VENDOR: Final = "vendor"
_FIELDS: Final = ["$kind", "files", "lane", "requires"]


def media_of(path: str) -> str:
    """The media type of a file of a python_bundle."""
    return "text/x-python" if path.endswith(".py") else "application/octet-stream"


def is_source(path: str) -> bool:
    """False for what never belongs to a bundle: caches, byte code, dot files."""
    if path.endswith((".pyc", ".pyo")):
        return False
    return not any(part.startswith(".") or part == "__pycache__" for part in path.split("/"))


def python_bundle(
    files: Mapping[str, bytes], *, lane: int = LANE, vendored: Iterable[tuple[str, str]] = ()
) -> tuple[str, dict[str, bytes]]:
    """The root hash, and every artifact behind it: the list itself and each file, by hash.

    `files` maps paths with forward slashes to contents; `vendored` names (dist, version) pairs.
    Refuses a path that could leave the folder, and a vendored dist of which no file is there.
    """
    kept = {path: files[path] for path in files if is_source(path) or _leaves(path)}
    for path in kept:
        if _leaves(path):
            message = f"{path!r} is not a path inside the bundle"
            raise BadDefinition(message, code="def.bad_value", where={"path": path})
    listed = [[path, canon.hash_of(kept[path])] for path in sorted(kept, key=str.encode)]
    requires = [
        [dist, version, _vendored_hash(listed, dist, version)] for dist, version in sorted(vendored)
    ]
    document = canon.encode(
        {"$kind": "python_bundle", "lane": lane, "files": listed, "requires": requires}
    )
    root = canon.hash_of(document)
    return root, {root: document, **{canon.hash_of(data): data for data in kept.values()}}


def read_python_bundle(document: bytes) -> dict[str, Any]:
    """The decoded list; refuses one that `python_bundle` would not have written."""
    try:
        made = canon.decode(document)
    except NotCanonical as error:
        raise _refusal("it is not a canonical document") from error
    if type(made) is not dict or sorted(made) != _FIELDS or made["$kind"] != "python_bundle":
        raise _refusal("its fields are not lane, files and requires")
    files, requires = made["files"], made["requires"]
    if type(made["lane"]) is not int or made["lane"] < 1:
        raise _refusal("lane is not a version number")
    if not _rows(files, 2) or not _rows(requires, 3):
        raise _refusal("files or requires is not a list of rows of text that end with a hash")
    paths = [row[0] for row in files]
    if paths != sorted(dict.fromkeys(paths), key=str.encode):
        raise _refusal("files are not in byte order of path, each once")
    if any(_leaves(path) or not is_source(path) for path in paths):
        raise _refusal("a path is not that of a source inside the bundle")
    return made


def requirement_faults(made: Mapping[str, Any]) -> list[str]:
    """What is wrong with the vendored dists of a decoded list: one sentence each."""
    faults: list[str] = []
    for dist, version, wanted in made["requires"]:
        found = _files_below(made["files"], dist, version)
        if not found:
            faults.append(f"{dist} {version} is required and not in the bundle")
        elif canon.hash(found) != wanted:
            faults.append(f"{dist} {version} is not the one that was vendored")
    return faults


def vendored_in(files: Iterable[str]) -> list[tuple[str, str]]:
    """The (dist, version) pairs of which files stand below `vendor/<dist>-<version>/`."""
    found: dict[tuple[str, str], None] = {}
    for path in files:
        if is_vendored(path):
            dist, _, version = path.split("/")[1].rpartition("-")
            found[dist, version] = None
    return sorted(found)


def is_vendored(path: str) -> bool:
    """True for a file that `--vendor` copied in; the hyphen cannot stand in a package's name."""
    parts = path.split("/")
    return len(parts) > 2 and parts[0] == VENDOR and "-" in parts[1]


def _vendored_hash(listed: list[list[str]], dist: str, version: str) -> str:
    found = _files_below(listed, dist, version)
    if not found:
        message = f"{dist} {version} is required and no file of it is in the bundle"
        hint = f"copy it below {VENDOR}/{dist}-{version}/"
        raise BadDefinition(message, code="module.requirement_mismatch", hint=hint)
    return canon.hash(found)


def _files_below(listed: Iterable[list[str]], dist: str, version: str) -> list[list[str]]:
    folder = f"{VENDOR}/{dist}-{version}/"
    return [[path[len(folder) :], hash_] for path, hash_ in listed if path.startswith(folder)]


def _leaves(path: str) -> bool:
    """True for a path that is absolute, climbs, or means different things on two systems."""
    parts = path.split("/")
    return "" in parts or ".." in parts or "." in parts or "\\" in path or "\0" in path


def _rows(value: Any, width: int) -> bool:
    return type(value) is list and all(
        type(row) is list
        and len(row) == width
        and all(type(cell) is str for cell in row)
        and names.is_hash(str(row[-1]))
        for row in value
    )


def _refusal(why: str) -> BadDefinition:
    message = f"a python_bundle cannot be read: {why}"
    return BadDefinition(message, code="bundle.hash_mismatch", hint="build the bundle again")
