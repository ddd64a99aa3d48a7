"""TL107: names that nothing defines, found by the scopes of a file before a tick meets them.

Not a rule of the lane: a bundle that was accepted with such a name on a path that nobody took must
go on replaying, so loading does not refuse it.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from typing import Final

from tallystick.modules.lane_check import CAPPED
from tallystick.modules.lane_rules import Rules, names_of
from tallystick.modules.lint_tree import Site
from tallystick.values.names import nearest

_ALWAYS: Final = frozenset({"__name__", "__debug__"})


def undefined(source: bytes, path: str, tree: ast.Module, rules: Rules) -> Iterator[Site]:
    """Each name that is used and that neither the file nor the lane defines, once a scope."""
    if _takes_all(tree):
        return
    top = symtable.symtable(source.decode("utf-8"), path, "exec")
    known = _bound(top) | rules.builtins | rules.banned | CAPPED | _ALWAYS | _meant(tree, rules)
    kit = names_of(rules.lane, "tallystick")
    for scope in _scopes(top):
        near = (known | _bound(scope)) - rules.banned
        for name in sorted(_missing(scope, known)):
            ours = f"from tallystick import {name}" if name in kit else None
            hint = ours or nearest(name, near) or "define or import it"
            yield Site("TL107", _line_of(tree, name, scope), f"nothing defines {name}", hint)


def _takes_all(tree: ast.Module) -> bool:
    """True when an import brings names that the file does not spell."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(alias.name == "*" for node in imports for alias in node.names)


def _meant(tree: ast.Module, rules: Rules) -> frozenset[str]:
    """What a misspelt import was to bring: its finding says so, and one is enough."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in rules.imports:
            known = frozenset(names_of(rules.lane, node.module))
            if any(alias.name not in known for alias in node.names):
                found |= known
    return frozenset(found)


def _scopes(scope: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield scope
    for child in scope.get_children():
        yield from _scopes(child)


def _bound(scope: symtable.SymbolTable) -> frozenset[str]:
    """The names that a scope itself gives a value."""
    return frozenset(
        symbol.get_name()
        for symbol in scope.get_symbols()
        if symbol.is_assigned()
        or symbol.is_imported()
        or symbol.is_parameter()
        or symbol.is_namespace()
    )


def _missing(scope: symtable.SymbolTable, known: frozenset[str]) -> Iterator[str]:
    at_top = scope.get_type() == "module"
    for symbol in scope.get_symbols():
        looked_up = symbol.is_global() or at_top
        if symbol.is_referenced() and looked_up and symbol.get_name() not in known:
            yield symbol.get_name()


def _line_of(tree: ast.Module, name: str, scope: symtable.SymbolTable) -> int:
    begin = scope.get_lineno()
    lines = [
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name
    ]
    return min((line for line in lines if line >= begin), default=begin)
