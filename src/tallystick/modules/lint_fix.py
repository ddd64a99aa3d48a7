"""`lint --fix`: declares what code asks for, and changes nothing else (TL201, TL203).

Text is inserted at the places that the syntax tree names, so layout and comments stay.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final, NamedTuple

from tallystick.modules.lint_reducers import asked, cells_named
from tallystick.modules.lint_tree import OUTSIDE, FlowSite, Program, read_program
from tallystick.modules.parse import parsed

_KIT: Final = "tallystick"


class Insert(NamedTuple):
    """Text to put in at a byte of a file."""

    at: int
    text: str


def fixed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that change when what is asked for is declared; those that do not parse stay."""
    made: dict[str, bytes] = {}
    for path, source in sorted(files.items()):
        if path.endswith(".py"):
            try:
                tree = parsed(source, path)
            except (SyntaxError, ValueError):
                continue
            after = _inserted(source, _inserts(source, tree))
            if after != source:
                made[path] = after
    return made


def _inserted(source: bytes, inserts: list[Insert]) -> bytes:
    for at, text in sorted(inserts, reverse=True):
        source = source[:at] + text.encode() + source[at:]
    return source


def _inserts(source: bytes, tree: ast.Module) -> list[Insert]:
    program = read_program(tree)
    lines = _starts(source)
    found: list[Insert] = []
    named: dict[str, None] = {}
    for flow in program.flows:
        missing = _missing(flow, program)
        named.update(dict.fromkeys(missing.get("effects", ())))
        found += _declared(source, lines, flow, missing)
    return found + _imported(lines, tree, [name for name in named if name in OUTSIDE])


def _missing(flow: FlowSite, program: Program) -> dict[str, list[str]]:
    """What each option of a workflow lacks."""
    reach = program.reach(flow)
    reads, children = cells_named(reach)
    effects = [n for n in asked(reach, program) if not (flow.is_async and n == "Timer")]
    wanted = {"effects": effects, "reads": reads, "children": children}
    lacks = {
        option: [name for name in names if name not in flow.names(option)]
        for option, names in wanted.items()
    }
    return {option: names for option, names in lacks.items() if names}


def _declared(
    source: bytes, lines: list[int], flow: FlowSite, missing: Mapping[str, list[str]]
) -> list[Insert]:
    found: list[Insert] = []
    fresh: list[str] = []
    for option, names in missing.items():
        held = flow.options.get(option)
        text = ", ".join(names)
        if held is None:
            fresh.append(f"{option}=[{text}]")
        elif isinstance(held, ast.List):
            end = _end(lines, held.elts[-1]) if held.elts else _begin(lines, held) + 1
            found.append(Insert(end, f", {text}" if held.elts else text))
        # Anything but a list in place is somebody's own idea; it is not for us to change.
    decorator = flow.decorator
    if fresh and isinstance(decorator, ast.Call):
        parts = [*decorator.args, *(keyword.value for keyword in decorator.keywords)]
        if parts:
            at, before = max(_end(lines, part) for part in parts), ", "
        else:
            at, before = source.index(b"(", _end(lines, decorator.func)) + 1, ""
        found.append(Insert(at, before + ", ".join(fresh)))
    elif fresh and decorator is not None:
        found.append(Insert(_end(lines, decorator), f"({', '.join(fresh)})"))
    return found


def _imported(lines: list[int], tree: ast.Module, names: list[str]) -> list[Insert]:
    """Names of the kit that were not imported yet, added to its import."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == _KIT and not node.level:
            known = [alias.asname or alias.name for alias in node.names]
            lacks = [name for name in names if name not in known]
            if lacks and known != ["*"]:
                return [Insert(_end(lines, node.names[-1]), ", " + ", ".join(lacks))]
            return []
    return []


def _starts(source: bytes) -> list[int]:
    """Where each line begins, in bytes."""
    found = [0]
    for line in source.splitlines(keepends=True):
        found.append(found[-1] + len(line))
    return found


def _begin(lines: list[int], node: ast.expr) -> int:
    return lines[node.lineno - 1] + node.col_offset


def _end(lines: list[int], node: ast.expr | ast.alias) -> int:
    assert node.end_lineno is not None, "parsed text has places"
    assert node.end_col_offset is not None, "parsed text has places"
    return lines[node.end_lineno - 1] + node.end_col_offset
