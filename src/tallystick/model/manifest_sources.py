"""Sources to canonical: every document lowered, read, and listed in one manifest.

This is what a build, a check and an export share; it stops at nothing and reports everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tallystick.model.definitions import Finding, read_definition, refusal
from tallystick.model.lower import lower
from tallystick.model.manifest import assemble, read_manifest
from tallystick.values import canon


@dataclass(frozen=True, slots=True)
class Sources:
    """Canonical definitions and manifest; `manifest` is None when an error was found.

    `draft` is the manifest's wiring as it was read, so that a check can go on after an error; it
    is None only when the manifest source itself cannot be read.
    `lost` are the kinds of definitions of which at least one cannot be read.
    """

    definitions: tuple[dict[str, Any], ...]
    manifest: dict[str, Any] | None
    findings: tuple[Finding, ...]
    draft: dict[str, Any] | None = None
    lost: frozenset[str] = frozenset()

    @property
    def refused(self) -> bool:
        """True when at least one finding is an error."""
        return any(not finding.warning for finding in self.findings)


def read_sources(documents: Iterable[Any]) -> Sources:
    """The canonical form of all documents of a bundle, and everything that is wrong with them.

    Without a manifest among them, every definition is active and nothing is wired.
    """
    found: list[Finding] = []
    lowered = lower([document for document in documents if _shallow(document, found)])
    found.extend(lowered.findings)
    definitions: list[dict[str, Any]] = []
    lost: list[str] = []
    for raw in lowered.definitions:
        made, problems = read_definition(raw)
        found.extend(problems)
        if made is not None:
            definitions.append(made)
        else:
            lost.append(str(raw.get("$kind")))
    source = lowered.manifest or {}
    draft, _ = read_manifest(source)
    manifest, problems = assemble(definitions, source)
    found.extend(problems)
    if any(not finding.warning for finding in found):
        manifest = None
    return Sources(tuple(definitions), manifest, tuple(found), draft, frozenset(lost))


def _shallow(document: Any, found: list[Finding]) -> bool:
    """True when a document nests no deeper than a canonical one, so that reading it can recurse."""
    level = [document]
    # A document may be a list of definitions, which stands outside them.
    for _ in range(canon.DEPTH_MAX + 1):
        level = [
            item
            for held in level
            if isinstance(held, Mapping | list | tuple)
            for item in (held.values() if isinstance(held, Mapping) else held)
        ]
    if level:
        message = f"a source nests deeper than {canon.DEPTH_MAX} levels"
        found.append(Finding("def.bad_value", "", "", message, "give inner types a name"))
    return not level


def canonical_sources(documents: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Canonical definitions and manifest; refuses with the first problem that is an error."""
    sources = read_sources(documents)
    if sources.manifest is None:
        raise refusal(list(sources.findings))
    return list(sources.definitions), sources.manifest
