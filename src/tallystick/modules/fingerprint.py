"""The fingerprint of workflow code: what must not change unseen under parked cells (05 section 4).

`code` covers the syntax of everything a workflow reaches, without comments, docstrings and layout;
`schemas` has the type of everything it takes, keeps, asks for and is told;
`sites` lists in order where an async flow waits, because their order is its history.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from tallystick.model.bundle_python import LANE
from tallystick.modules.lint_reducers import asked, cells_named
from tallystick.modules.lint_tree import FlowSite, Function, Program, called_name, read_program
from tallystick.modules.parse import parsed
from tallystick.modules.source import app_of
from tallystick.values import canon, names
from tallystick.values.schema import compatible
from tallystick.workflow.build import build
from tallystick.workflow.shape import shape_of

FILE: Final = "tally.fingerprint.json"
_WAITS: Final = (
    "call", "checkpoint", "effect", "gather", "outcome", "receive", "sleep", "spawn", "start",
    "timeout", "wait_first",
)  # fmt: skip

Fingerprint = dict[str, dict[str, Any]]


def fingerprint(files: Mapping[str, bytes]) -> Fingerprint:
    """The fingerprint of every workflow in the sources, by its name in the code.

    The definitions are executed in the lane; refuses what it refuses.
    """
    made: Fingerprint = {}
    types = _types(files)
    for path in sorted(files):
        if path.endswith(".py"):
            program = read_program(parsed(files[path], path))
            for flow in program.flows:
                made[flow.name] = _of(flow, program, types.get(flow.name, {}))
    return made


def changed(old: Fingerprint, new: Fingerprint) -> dict[str, list[str]]:
    """Which parts of which workflows differ; a workflow that is only in one differs in all."""
    found: dict[str, list[str]] = {}
    for name in sorted({*old, *new}):
        before, after = old.get(name, {}), new.get(name, {})
        parts = [part for part in sorted({*before, *after}) if before.get(part) != after.get(part)]
        if parts:
            found[name] = parts
    return found


def narrowed(old: Fingerprint, new: Fingerprint) -> dict[str, str]:
    """Schemas whose new type refuses values of the old one, with the place (X-20)."""
    found: dict[str, str] = {}
    for name, row in sorted(old.items()):
        after = new.get(name, {}).get("schemas", {})
        for schema, type_ in sorted(row.get("schemas", {}).items()):
            breach = compatible(type_, after[schema]) if schema in after else None
            if breach is not None:
                found[schema] = breach
    return found


def dropped(old: Fingerprint, new: Fingerprint) -> list[str]:
    """Schemas that a newer version of the same name has taken the place of."""
    before = {schema for row in old.values() for schema in row.get("schemas", {})}
    after = {schema for row in new.values() for schema in row.get("schemas", {})}
    stems = {names.stem_of(schema) for schema in after}
    return sorted(schema for schema in before - after if names.stem_of(schema) in stems)


def _types(files: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """The types of the schemas that each workflow uses, by the name of its code."""
    app = app_of(files)
    bundle = build(app, files)
    catalogue = bundle.catalogue()
    made: dict[str, dict[str, Any]] = {}
    for name, spec in app.workflows.items():
        shape, flow = shape_of(spec), catalogue.workflows[name]
        used = {flow.state.name, *(app.name_of(cls) for cls in shape.arms.values())}
        for effect in shape.effects:
            used |= {catalogue.effects[effect].params.name, catalogue.effects[effect].receipt.name}
        own = sorted(schema for schema in used if not names.is_reserved(schema))
        made[spec.code.__name__] = {schema: catalogue.schemas[schema].type for schema in own}
    return made


def _of(flow: FlowSite, program: Program, types: Mapping[str, Any]) -> dict[str, Any]:
    reach = program.reach(flow)
    reads, children = cells_named(reach)
    return {
        "code": _hash([_plain(function) for function in reach]),
        "schemas": dict(types),
        "effects": [*asked(reach, program), *children],
        "reads": list(reads),
        "limits": ast.unparse(flow.options["limits"]) if "limits" in flow.options else "",
        "lane": LANE,
        "sites": _sites(flow.tick) if flow.is_async else [],
    }


def _plain(node: ast.AST) -> str:
    """A node without what does not run: positions, docstrings and the decorator's options."""
    copy: Any = parsed(ast.unparse(node)).body[0]
    for part in ast.walk(copy):
        body = getattr(part, "body", None)
        if isinstance(part, Function | ast.ClassDef) and isinstance(body, list) and len(body) > 1:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                del body[0]
    return ast.dump(copy)


def _sites(tick: Function) -> list[str]:
    found = [n for n in ast.walk(tick) if isinstance(n, ast.Call) and called_name(n) in _WAITS]
    ordered = sorted(found, key=lambda call: (call.lineno, call.col_offset))
    return [ast.unparse(call) for call in ordered]


def _hash(parts: list[str]) -> str:
    return canon.hash(sorted(parts))
