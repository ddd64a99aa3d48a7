"""The fingerprint of workflow code: what must not change unseen under parked cells (05 section 4).

`code` covers the syntax of everything a workflow reaches, without comments, docstrings and layout;
`sites` lists in order where an async flow waits, because their order is its history.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from tallystick.model.bundle_python import LANE
from tallystick.modules.lint_reducers import asked, cells_named
from tallystick.modules.lint_tree import FlowSite, Function, Program, called_name, read_program
from tallystick.values import canon

FILE: Final = "tally.fingerprint.json"
_WAITS: Final = (
    "call", "checkpoint", "effect", "gather", "outcome", "receive", "sleep", "spawn", "start",
    "timeout", "wait_first",
)  # fmt: skip

Fingerprint = dict[str, dict[str, Any]]


def fingerprint(files: Mapping[str, bytes]) -> Fingerprint:
    """The fingerprint of every workflow in the sources, by its name in the code."""
    made: Fingerprint = {}
    for path in sorted(files):
        if path.endswith(".py"):
            program = read_program(ast.parse(files[path], path))
            for flow in program.flows:
                made[flow.name] = _of(flow, program)
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


def _of(flow: FlowSite, program: Program) -> dict[str, Any]:
    reach = program.reach(flow)
    reads, children = cells_named(reach)
    used = _classes(reach, program)
    return {
        "code": _hash([_plain(function) for function in reach]),
        "schemas": _hash([_plain(program.classes[name]) for name in used]),
        "effects": [*asked(reach, program), *children],
        "reads": list(reads),
        "limits": ast.unparse(flow.options["limits"]) if "limits" in flow.options else "",
        "lane": LANE,
        "sites": _sites(flow.tick) if flow.is_async else [],
    }


def _classes(reach: list[Function], program: Program) -> list[str]:
    """The classes of the file that code names, and those that these name in turn."""
    found: list[str] = []
    todo: list[ast.AST] = list(reach)
    for node in todo:
        for part in ast.walk(node):
            name = part.id if isinstance(part, ast.Name) else ""
            if name in program.classes and name not in found:
                found.append(name)
                todo.append(program.classes[name])
    return sorted(found)


def _plain(node: ast.AST) -> str:
    """A node without what does not run: positions, docstrings and the decorator's options."""
    copy: Any = ast.parse(ast.unparse(node)).body[0]
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
