"""What `tally bundle check` refuses (02 section 7).

Everything is reported in one run: each finding has a stable code, the definition and the path
inside it, a sentence, and a hint that says what to do.
A definition that cannot be read is reported once, not at each place that refers to it.
Nothing runs here: a bundle is judged by what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tallystick.model.bundle import Bundle
from tallystick.model.catalogue import Catalogue
from tallystick.model.check_authority import (
    PolicyFindings,
    check_caps,
    check_policies,
    check_slots,
    check_trust,
)
from tallystick.model.check_change import check_migrations, check_upcasts
from tallystick.model.check_flows import check_effects, check_modules, check_workflows
from tallystick.model.check_routing import check_routing
from tallystick.model.check_schemas import check_additive, check_schemas, check_unused
from tallystick.model.check_work import work_of
from tallystick.model.definitions import Finding
from tallystick.model.manifest_sources import Sources

__all__ = ["PolicyFindings", "check", "check_bundle", "shown"]

# What to do about a code whose finding has nothing more precise to say.
HINTS: Final[Mapping[str, str]] = {
    "def.bad_name": "write namespace/Name@1 for a definition, a plain word for a slot or grant",
    "def.unknown_kind": "write $kind as one of the kinds of definitions",
    "def.unknown_field": "remove the field, or correct its spelling",
    "def.missing_field": "add the field",
    "def.bad_value": "write a value of the kind that is named",
    "def.duplicate": "keep one of them, or give one another name or version",
    "module.bad_runtime": "use python or wasm, or external for effects",
    "module.no_artifact": "build the module, and its bundle again",
    "policy.unreachable": "move the rule up, narrow the one before it, or remove it",
    "policy.bad_expression": "correct the expression; it stands between {{ and }}",
    "policy.bad_rule": "correct the rule",
    "ref.hash_mismatch": "leave the hash out: the build fills it in",
    "schema.unknown_type": "use a type of the schema language",
    "schema.recursive": "use json where data is recursive",
    "schema.ambiguous_option": "take the inner option, unit or json away",
    "schema.bad_map_key": "use int, nat, text, uuid or hash as the key",
    "schema.bad_bound": "use a bound that the type has",
    "schema.bad_name": "use a letter, then letters, digits and _",
    "schema.empty_variant": "add an arm",
    "schema.unsupported": "make the type smaller, or use json for a part of it",
    "trust.bad_key": "copy the public key as `tally key ls` prints it",
    "workflow.bad_context": "write sys/WorkflowContext@1, or leave the context out",
    "legacy.defplan": "write a defworkflow, or a playbook",
    "legacy.triggers": "list the event under routing.subscriptions",
    "legacy.inboxes": "submit an event to the world",
    "legacy.plan_record": "import the state as events",
}
_BY_AREA: Final[Mapping[str, str]] = {
    "ref": "define it, or correct the name",
    "schema": "correct the type at this path",
}


def check(
    sources: Sources,
    against: Catalogue | None = None,
    *,
    artifacts: Mapping[str, bytes] | None = None,
    policies: PolicyFindings | None = None,
) -> list[Finding]:
    """Everything that is wrong with sources, errors and warnings, in one run.

    `against` is the active catalogue, for what must not change under it.
    `artifacts` are bytes by text hash; without them no artifact is looked at.
    `policies` judges rules; without it expressions and dead rules are not looked at.
    """
    work = work_of(sources, against, artifacts)
    check_schemas(work)
    check_modules(work)
    check_workflows(work)
    check_effects(work)
    check_routing(work)
    check_caps(work)
    check_slots(work)
    check_policies(work, policies)
    check_trust(work)
    check_upcasts(work)
    check_migrations(work)
    check_additive(work)
    if work.whole:
        check_unused(work)
    seen = dict.fromkeys(_hinted(finding) for finding in (*sources.findings, *work.found))
    return list(seen)


def check_bundle(
    bundle: Bundle, against: Catalogue | None = None, *, policies: PolicyFindings | None = None
) -> list[Finding]:
    """The same for a bundle that is already built, with all its artifacts at hand."""
    artifacts = {hash_: held.data for hash_, held in bundle.artifacts.items()}
    return check(bundle.sources(), against, artifacts=artifacts, policies=policies)


def shown(finding: Finding) -> dict[str, str]:
    """A finding as the CLI and the API show it."""
    return {
        "code": finding.code,
        "def": finding.def_name,
        "path": finding.path,
        "message": finding.message,
        "hint": finding.hint,
    }


def _hinted(finding: Finding) -> Finding:
    if finding.hint:
        return finding
    area = finding.code.partition(".")[0]
    hint = HINTS.get(finding.code, _BY_AREA.get(area, "correct the definition at this path"))
    return replace(finding, hint=hint)
