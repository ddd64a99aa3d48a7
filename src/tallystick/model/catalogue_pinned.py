"""The definitions behind a manifest: each listed name with the node its hash pins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tallystick.errors import BadDefinition
from tallystick.model import sys_definitions
from tallystick.model.manifest import SECTIONS
from tallystick.values.names import nearest

Node = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Pinned:
    """The definitions a manifest lists, by kind and name, ours included."""

    by_kind: Mapping[str, Mapping[str, dict[str, Any]]]
    hashes: Mapping[tuple[str, str], str]

    def get(self, kind: str, name: str, code: str, path: str) -> dict[str, Any]:
        """The definition of a name; refuses with `code` when the manifest does not list it."""
        held = self.by_kind[kind]
        if name not in held:
            raise refused(code, f"{name} is not in the manifest", path, nearest(name, list(held)))
        return held[name]

    def type_of(self, name: str) -> Mapping[str, Any]:
        """The type expression of a schema; KeyError when there is none."""
        made: Mapping[str, Any] = self.by_kind["defschema"][name]["type"]
        return made


def refused(code: str, message: str, path: str, hint: str = "") -> BadDefinition:
    """The error of a definition that does not fit its place; `path` begins with its name."""
    return BadDefinition(message, code=code, where={"path": path}, hint=hint or None)


def pin(manifest: Mapping[str, Any], node: Node) -> Pinned:
    """Every definition of a manifest and every one of ours; refuses a node of another name."""
    by_kind: dict[str, dict[str, dict[str, Any]]] = {}
    hashes: dict[tuple[str, str], str] = {}
    for section, kind in SECTIONS.items():
        held = by_kind[kind] = sys_definitions.of_kind(kind)
        for name in held:
            hashes[kind, name] = sys_definitions.hash_of(kind, name)
        for entry in manifest.get(section, ()):
            name, hash_text = entry["name"], entry["hash"]
            defn = node(hash_text)
            if defn.get("$kind") != kind or defn.get("name") != name:
                message = f"{hash_text} is not the {kind} {name}"
                raise refused("ref.hash_mismatch", message, f"manifest/{section}/{name}")
            held[name] = dict(defn)
            hashes[kind, name] = hash_text
    return Pinned(by_kind, hashes)
