"""What every part of the check shares: the definitions at hand, and how a name is looked up.

A definition that was refused is known by name, so that one mistake is reported once and not again
at every place that refers to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tallystick.model import sys_definitions
from tallystick.model.catalogue import Catalogue
from tallystick.model.catalogue_parts import Call
from tallystick.model.definitions_shapes import Finding, step
from tallystick.model.limits import DEFAULTS
from tallystick.model.manifest import SECTIONS
from tallystick.model.manifest_sources import Sources
from tallystick.values import names
from tallystick.values.names import nearest
from tallystick.values.schema import Schema

Definition = Mapping[str, Any]
MANIFEST: Final = "manifest"

_REF: Final[Mapping[str, str]] = {
    "defschema": "ref.schema",
    "defmodule": "ref.module",
    "defworkflow": "ref.workflow",
    "defeffect": "ref.effect",
    "defcap": "ref.cap",
    "defpolicy": "ref.policy",
    "defsecret": "ref.secret",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: the definition and the path inside it."""

    def_name: str
    path: str = ""

    def __truediv__(self, key: object) -> Place:
        return Place(self.def_name, step(self.path, key))


@dataclass(slots=True)
class Work:
    """One run of the check.

    `kinds` is what the manifest lists, ours included; `defined` is what could be read at all.
    `broken` names what could not and `lost` the kinds of it; `faulty` are paths of the manifest
    that were refused before.
    """

    kinds: Mapping[str, Mapping[str, Definition]]
    defined: Mapping[str, Mapping[str, Definition]]
    broken: frozenset[str]
    lost: frozenset[str]
    faulty: tuple[str, ...]
    wiring: Mapping[str, Any]
    wired: bool
    against: Catalogue | None
    artifacts: Mapping[str, bytes] | None
    schemas: dict[str, Schema] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)

    def add(self, code: str, at: Place, message: str, hint: str = "") -> None:
        """Note a problem."""
        self.found.append(Finding(code, at.def_name, at.path, message, hint))

    @property
    def whole(self) -> bool:
        """True when everything could be read, so that what is absent is really absent."""
        return self.wired and not self.broken

    def blamed(self, at: Place) -> bool:
        """True when something below this place of the manifest was refused already."""
        return any(path.startswith(f"{at.path}/") for path in self.faulty)

    def own(self, kind: str) -> list[tuple[Place, Definition]]:
        """The listed definitions of a kind that are not ours, each with its place."""
        held = self.kinds[kind]
        return [(Place(name), held[name]) for name in held if not names.is_reserved(name)]

    def refer(self, kind: str, name: str, at: Place, code: str = "") -> Definition | None:
        """The listed definition of a name; notes why there is none."""
        held = self.kinds[kind]
        if name in held:
            return held[name]
        if name in self.defined[kind]:
            message = f"{name} is defined and not listed in the manifest"
            hint = f"list it under {_SECTION[kind]}, or leave that list out"
            self.add("ref.unlisted", at, message, hint)
        elif name not in self.broken:
            self.add(code or _REF[kind], at, f"{name} is not defined", nearest(name, list(held)))
        return None

    def schema(self, name: str | None, at: Place) -> Schema | None:
        """The compiled schema of a name, None for no name; notes a name nobody defines."""
        if name is None or self.refer("defschema", name, at) is None:
            return None
        return self.schemas.get(name)

    def call(
        self,
        call: Mapping[str, str],
        at: Place,
        signature: Sequence[str | None] = (None, None),
        code: str = "module.no_entrypoint",
    ) -> Call | None:
        """The (input, output) schemas of a pure function; notes one that is not there (K-02).

        `signature` is what it must read and answer; None leaves an end open.
        """
        module = self.refer("defmodule", call["module"], at / "module")
        if module is None:
            return None
        entry, table = call["entrypoint"], module.get("pure", {})
        if entry not in table:
            message = f"{call['module']} has no pure function {entry}"
            hint = nearest(entry, list(table)) or f"declare it under pure of {call['module']}"
            self.add(code, at / "entrypoint", message, hint)
            return None
        made = (table[entry]["input"], table[entry]["output"])
        for word, wanted, found in zip(("reads", "answers"), signature, made, strict=True):
            if wanted is not None and found != wanted:
                message = f"{entry} {word} {found}, here it is called with {wanted}"
                if word == "answers":
                    message = f"{entry} answers {found}, here {wanted} is needed"
                hint = f"declare {wanted} in the pure table, or name another function"
                self.add("module.no_entrypoint", at / "entrypoint", message, hint)
        return made

    def limit(self, name: str) -> int:
        """A limit of the manifest."""
        found: int = self.wiring.get("limits", {}).get(name, DEFAULTS[name])
        return found

    def subscriptions(self) -> list[tuple[Place, Mapping[str, Any]]]:
        """The listed subscriptions, each with its place."""
        rows = self.wiring.get("routing", {}).get("subscriptions", ())
        at = Place(MANIFEST) / "routing" / "subscriptions"
        return [(at / i, row) for i, row in enumerate(rows)]


_SECTION: Final = {kind: section for section, kind in SECTIONS.items()}


def work_of(
    sources: Sources, against: Catalogue | None, artifacts: Mapping[str, bytes] | None
) -> Work:
    """The work that sources leave to do, as far as they could be read."""
    wiring = sources.draft or {}
    defined: dict[str, dict[str, Definition]] = {kind: {} for kind in SECTIONS.values()}
    for defn in sources.definitions:
        defined[defn["$kind"]][defn["name"]] = defn
    kinds: dict[str, dict[str, Definition]] = {}
    for section, kind in SECTIONS.items():
        listed = wiring.get(section)
        mine = list(defined[kind]) if listed is None else [row["name"] for row in listed]
        held = defined[kind]
        kinds[kind] = {**sys_definitions.of_kind(kind), **{n: held[n] for n in mine if n in held}}
    errors = [finding for finding in sources.findings if not finding.warning]
    broken = frozenset(finding.def_name for finding in errors)
    faulty = tuple(finding.path for finding in errors if finding.def_name == MANIFEST)
    wired = sources.draft is not None
    return Work(kinds, defined, broken, sources.lost, faulty, wiring, wired, against, artifacts)
