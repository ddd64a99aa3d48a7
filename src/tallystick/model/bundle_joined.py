"""Joining: the bundle of an app in a world that also plays playbooks or reacts to files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.definitions import refusal
from tallystick.model.manifest_sources import read_sources


def joined(bundle: Bundle, policy: Mapping[str, Any], more: Mapping[str, Any]) -> Bundle:
    """The same bundle with the wiring of another manifest behind its own.

    Grants, rules and slots of both stand side by side; of two limits the wider one holds.
    The rules come last, so that those of the app have the first word; behind one that speaks about
    everything, as that of structural authority does, they would never be asked and are left out.
    Refuses a bundle that holds them already.
    """
    theirs = bundle.sources()
    assert theirs.manifest is not None, "a built bundle has a manifest"
    rules = theirs.manifest.get("authority", {}).get("policies", ())
    asked = [] if _speaks_of_all(theirs.definitions, rules) else [policy]
    names = [each["name"] for each in asked]
    made = read_sources([*theirs.definitions, *asked, _manifest(theirs.manifest, more, names)])
    if made.manifest is None:
        raise refusal([finding for finding in made.findings if not finding.warning])
    artifacts = {name: held.data for name, held in bundle.artifacts.items()}
    return make_bundle(made.definitions, made.manifest, artifacts)


def _manifest(
    given: Mapping[str, Any], more: Mapping[str, Any], policies: list[str]
) -> dict[str, Any]:
    """Both manifests in one; of the second one's policies those that are named."""
    authority, limits = given.get("authority", {}), given.get("limits", {})
    widened = {name: max(limits.get(name, 0), most) for name, most in more["limits"].items()}
    return {
        **given,
        "policies": [*given.get("policies", ()), *({"name": name} for name in policies)],
        "authority": {
            "grants": [*authority.get("grants", ()), *more["authority"]["grants"]],
            "policies": [*authority.get("policies", ()), *policies],
        },
        "limits": {**limits, **widened},
        "module_bindings": {**given.get("module_bindings", {}), **more["module_bindings"]},
    }


def _speaks_of_all(definitions: Iterable[Mapping[str, Any]], policies: Iterable[str]) -> bool:
    """True when one of these policies has a rule without a condition."""
    asked = frozenset(policies)
    return any(
        "when" not in rule
        for each in definitions
        if each["$kind"] == "defpolicy" and each["name"] in asked
        for rule in each["rules"]
    )
