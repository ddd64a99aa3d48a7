"""`lint`: what a reader of the code can know before it runs (05 section 4).

The rules look at syntax trees and at the call graph of every workflow; nothing is executed but the
definitions themselves, in the lane.
Errors refuse loading too, but for TL107, TL306 and TL307.
Warnings are advice, and `# tally: allow TL205 reason` silences one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tallystick.errors import BadDefinition
from tallystick.model.bundle_python import LANE
from tallystick.modules import lint_flows, lint_reducers
from tallystick.modules.fingerprint import Fingerprint, changed, dropped, fingerprint, narrowed
from tallystick.modules.lane import Compiled, Space, module_of
from tallystick.modules.lane_check import breaches
from tallystick.modules.lane_rules import rules_of
from tallystick.modules.lint_fields import field_sites
from tallystick.modules.lint_names import undefined
from tallystick.modules.lint_place import place_of
from tallystick.modules.lint_tree import Program, Site, read_program
from tallystick.modules.parse import parsed
from tallystick.modules.source import app_of
from tallystick.workflow import outside
from tallystick.workflow.build import build
from tallystick.workflow.bundle import Bundle

ERRORS: Final = frozenset(
    [
        "TL101",
        "TL102",
        "TL103",
        "TL104",
        "TL105",
        "TL107",
        "TL201",
        "TL203",
        "TL301",
        "TL302",
        "TL306",
        "TL307",
        "TL401",
        "TL501",
    ]
)
_UNREADABLE: Final = "correct the syntax there, or on the line above"
_ALLOW: Final = "# tally: allow "


class LintFinding(NamedTuple):
    """One finding: where, what, and what to do."""

    code: str
    path: str
    line: int
    message: str
    hint: str

    @property
    def error(self) -> bool:
        """True when the code would not load."""
        return self.code in ERRORS


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a workflow can ask for, read from its code."""

    workflow: str
    effects: tuple[str, ...]
    reads: tuple[str, ...]
    children: tuple[str, ...]
    caps: tuple[str, ...]


def lint(files: Mapping[str, bytes]) -> list[LintFinding]:
    """Everything that the rules find in the sources of an artifact, in order."""
    found: list[LintFinding] = []
    trees: dict[str, ast.Module] = {}
    for path in sorted(files):
        if not path.endswith(".py"):
            continue
        try:
            trees[path] = parsed(files[path], path)
        except (SyntaxError, ValueError) as why:
            line = getattr(why, "lineno", None) or 0
            found.append(LintFinding("TL105", path, line, f"does not parse: {why}", _UNREADABLE))
    for path, tree in trees.items():
        found += [LintFinding(b.code, path, b.line, b.message, b.hint) for b in _breaches(tree)]
        program = read_program(tree)
        sites = [*undefined(files[path], path, tree, rules_of(LANE)), *_sites(program)]
        found += [LintFinding(s.code, path, s.line, s.message, s.hint) for s in sites]
    if not any(finding.error for finding in found):
        found += _loading(files)
    shown = [f for f in found if not _allowed(files[f.path], f)]
    return sorted(dict.fromkeys(shown), key=lambda f: (f.path, f.line, f.code))


def infer(files: Mapping[str, bytes]) -> list[Inferred]:
    """Effects, reads and children of every workflow, by the reach of its code."""
    made: list[Inferred] = []
    for path in sorted(files):
        if path.endswith(".py"):
            program = read_program(parsed(files[path], path))
            for flow in program.flows:
                reach = program.reach(flow)
                asked = lint_reducers.asked(reach, program)
                reads, children = lint_reducers.cells_named(reach)
                caps = tuple(sorted({_cap(name, program) for name in asked}))
                made.append(Inferred(flow.name, asked, reads, children, caps))
    return made


def _cap(effect: str, program: Program) -> str:
    """The capability type that a request for an effect needs."""
    cls = program.classes.get(effect)
    if cls is None and effect in program.imported:
        return "governance"
    if cls is None:
        return str(getattr(outside, effect).tally_effect.cap_type)
    said = [keyword.value for keyword in cls.keywords if keyword.arg == "cap"]
    return str(said[0].value) if said and isinstance(said[0], ast.Constant) else "effect"


def unaccepted(files: Mapping[str, bytes], accepted: Fingerprint) -> list[LintFinding]:
    """TL501: workflows whose code is not the one that was accepted."""
    found: list[LintFinding] = []
    for name, parts in changed(accepted, fingerprint(files)).items():
        message = f"{name} is not as it was accepted: {', '.join(parts)} changed"
        hint = "prove it against parked cells, then run tally lint --accept"
        path = next((p for p in sorted(files) if f" {name}(".encode() in files[p]), min(files))
        found.append(LintFinding("TL501", path, _defined(files[path], name), message, hint))
    return found


def unread(files: Mapping[str, bytes], accepted: Fingerprint) -> list[LintFinding]:
    """TL502: schemas whose accepted values the new code cannot read, and no upcast helps."""
    fresh = fingerprint(files)
    read = _upcast_from(files)
    found: list[LintFinding] = []
    for schema, place in narrowed(accepted, fresh).items():
        message = f"{schema} no longer takes what it took: {place}"
        found.append(_about(files, schema, message))
    lost = [schema for schema in dropped(accepted, fresh) if schema not in read]
    return found + [_about(files, name, f"nothing reads {name} any more") for name in lost]


def _about(files: Mapping[str, bytes], schema: str, message: str) -> LintFinding:
    name = schema.rpartition("/")[2].partition("@")[0]
    path = next((p for p in sorted(files) if f"class {name}(".encode() in files[p]), min(files))
    hint = "give the class a new version, and add @app.upcast from the old one"
    return LintFinding("TL502", path, _defined(files[path], f"{name}("), message, hint)


def _upcast_from(files: Mapping[str, bytes]) -> frozenset[str]:
    app = app_of(files)
    return frozenset(app.name_of(pure.between[0]) for pure in app.pures if pure.role == "upcast")


def _defined(source: bytes, name: str) -> int:
    for number, line in enumerate(source.decode("utf-8", "replace").splitlines(), 1):
        if f"def {name}(" in line or f"class {name}" in line:
            return number
    return 1


def _breaches(tree: ast.Module) -> Iterator[Any]:
    yield from breaches(tree, rules_of(LANE))


def _sites(program: Program) -> Iterator[Site]:
    yield from lint_reducers.record_fields(program)
    yield from lint_reducers.literal_secrets(program)
    yield from lint_reducers.pure_sites(program)
    for flow in program.flows:
        yield from lint_reducers.flow_sites(flow, program)
        yield from lint_flows.flow_sites(flow, program)


def _loading(files: Mapping[str, bytes]) -> Iterator[LintFinding]:
    """What only execution of the definitions shows: frozen globals and types of schemas."""
    codes = {"lane.mutable_global": "TL301", "schema.unsupported": "TL302"}
    try:
        space = Space(Compiled(files, LANE))
        _refuse_two(space)
        for app in space.bundles():
            build(app, files)
        yield from _values(files, space)
    except BadDefinition as why:
        at, line = place_of(files, why)
        yield LintFinding(codes.get(why.code, "TL302"), at, line, why.message, why.hint)


def _values(files: Mapping[str, bytes], space: Space) -> Iterator[LintFinding]:
    """What the code says about fields and values, beside the classes that it has defined."""
    for path in sorted(space.paths()):
        tree = parsed(files[path], path)
        module = space.modules[module_of(path)]
        for site in field_sites(tree, read_program(tree), vars(module)):
            yield LintFinding(site.code, path, site.line, site.message, site.hint)


def _refuse_two(space: Space) -> None:
    """One file hangs its definitions on one bundle: of two, nobody knows which is meant."""
    for name, module in space.modules.items():
        own = [key for key, value in vars(module).items() if isinstance(value, Bundle)]
        if len({id(getattr(module, key)) for key in own}) > 1:
            message = f"{name} has {len(own)} Bundles: {', '.join(own)}"
            hint = "keep one of them, and hang every definition on it"
            where = {"path": f"{name.replace('.', '/')}.py", "name": own[1]}
            raise BadDefinition(message, code="lane.no_bundle", where=where, hint=hint)


def _allowed(source: bytes, finding: LintFinding) -> bool:
    """True when the line, or the one above it, says why the finding is all right."""
    if finding.error:
        return False
    lines = source.decode("utf-8", "replace").splitlines()
    near = lines[max(0, finding.line - 2) : finding.line]
    return any(f"{_ALLOW}{finding.code} " in line for line in near)
