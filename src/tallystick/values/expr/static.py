"""What can be known of an expression without evaluating it: for checkers of documents.

Nothing here judges: a source that does not parse raises what compiling it would raise.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from jinja2 import nodes

from tallystick.values.expr.source import has_markers, parse

Path = tuple[str, ...]
_OPPOSITE: Final = {"eq": "ne", "ne": "eq", "lt": "gteq", "gteq": "lt", "gt": "lteq", "lteq": "gt"}
# Where an undefined value is expected, so reading one there is no mistake.
_TOLERANT: Final = frozenset(("default", "d", "defined", "undefined"))


class Read(NamedTuple):
    """A path that an expression reads; `tolerated` when it may well lead nowhere."""

    path: Path
    tolerated: bool


def reads(source: str) -> list[Read]:
    """Every path of names and literal keys that a source reads, the longest of each chain."""
    found: list[Read] = []
    tree = parse(_whole(source))
    bound = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    _collect(tree, found, tolerated=False)
    return [each for each in found if each.path[0] not in bound]


def _collect(node: nodes.Node, found: list[Read], *, tolerated: bool) -> None:
    path = _path(node)
    if path is not None:
        found.append(Read(path, tolerated))
        return
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        # The last part of a called path is a method, and what is called is no function.
        _collect(node.node.node, found, tolerated=True)
        children = [*node.args, *node.kwargs]
    elif isinstance(node, nodes.Call):
        children = [*node.args, *node.kwargs]
    else:
        children = list(node.iter_child_nodes())
    # A truth is asked of what may be missing: `a or b`, `a if b`, `not a` bear an undefined one.
    bears = isinstance(node, nodes.Or | nodes.And | nodes.Not | nodes.CondExpr)
    if isinstance(node, nodes.Filter | nodes.Test):
        bears = node.name in _TOLERANT
    for child in children:
        _collect(child, found, tolerated=tolerated or bears)


def _path(node: nodes.Node) -> Path | None:
    """The names of a chain that begins with a name; a computed key ends it."""
    parts: list[str] = []
    at = node
    while isinstance(at, nodes.Getattr | nodes.Getitem):
        if isinstance(at, nodes.Getattr):
            parts.append(at.attr)
        elif isinstance(at.arg, nodes.Const):
            parts.append(str(at.arg.value))
        else:
            return None
        at = at.node
    return (at.name, *reversed(parts)) if isinstance(at, nodes.Name) else None


def compared(source: str) -> list[tuple[Path, Any]]:
    """The literals that a source compares its paths with, by `==` or `in`."""
    found: list[tuple[Path, Any]] = []
    for node in parse(_whole(source)).find_all(nodes.Compare):
        if len(node.ops) != 1 or node.ops[0].op not in ("eq", "in"):
            continue
        one, other = node.expr, node.ops[0].expr
        if node.ops[0].op == "eq" and isinstance(one, nodes.Const):
            one, other = other, one
        path = _path(one)
        items = other.items if isinstance(other, nodes.List | nodes.Tuple) else [other]
        if path is not None:
            found += [(path, item.value) for item in items if isinstance(item, nodes.Const)]
    return found


def is_opposite(one: str, other: str) -> bool:
    """True when of two guards exactly one holds, as far as their shapes say."""
    first, second = _lone(one), _lone(other)
    if isinstance(first, nodes.Not) and first.node == second:
        return True
    if isinstance(second, nodes.Not) and second.node == first:
        return True
    if not (isinstance(first, nodes.Compare) and isinstance(second, nodes.Compare)):
        return False
    if len(first.ops) != 1 or len(second.ops) != 1 or first.expr != second.expr:
        return False
    left, right = first.ops[0], second.ops[0]
    return left.expr == right.expr and _OPPOSITE.get(left.op) == right.op


def _lone(source: str) -> nodes.Node | None:
    body = parse(_whole(source)).body
    if len(body) == 1 and isinstance(body[0], nodes.Output) and len(body[0].nodes) == 1:
        return body[0].nodes[0]
    return None


def _whole(source: str) -> str:
    return source if has_markers(source) else "{{ " + source + " }}"
