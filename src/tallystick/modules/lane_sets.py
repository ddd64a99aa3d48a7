"""Where code lets the order of a set out, as far as its text shows (TL103).

A set has no order; what is made of one member after the other would be another thing in another
process.
Names count as sets where a function gives them nothing else.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

_MAKERS: Final = frozenset({"set", "frozenset"})
_GIVERS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_ALGEBRA: Final = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
_SHOWS: Final = frozenset({"ascii", "format", "repr", "str"})
_WALKS: Final = frozenset(
    ["bytearray", "bytes", "deque", "dict", "enumerate", "filter", "iter", "list", "map", "reduce",
     "reversed", "tuple", "zip"]
)  # fmt: skip
_METHODS: Final = frozenset({"extend", "format", "fromkeys", "join"})


class Leak(NamedTuple):
    """One place where an order gets out."""

    line: int
    message: str
    hint: str


def leaks(tree: ast.Module) -> Iterator[Leak]:
    """Every place in a file, each once."""
    yield from _inside(tree, frozenset())


def _inside(scope: ast.AST, above: frozenset[str]) -> Iterator[Leak]:
    """The places of one function or module, and of those in it."""
    own = list(_own(scope))
    bound = _bound(own, scope)
    known = frozenset(name for name in above if name not in bound)
    # Twice, because a name may be made from one that is only known by then.
    for _ in range(2):
        known |= {
            name for name, given in bound.items() if all(_is_set(each, known) for each in given)
        }
    for node in own:
        for given, message, hint in _uses(node):
            if _is_set(given, known):
                yield Leak(given.lineno, message, hint)
        if isinstance(node, _SCOPES):
            yield from _inside(node, known)


_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a scope, without what stands in the scopes within it."""
    left = list(ast.iter_child_nodes(scope))
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, _SCOPES):
            left.extend(ast.iter_child_nodes(node))


def _bound(own: list[ast.AST], scope: ast.AST) -> dict[str, list[ast.expr | None]]:
    """Each name that a scope binds, with what it is given; None is something that no text shows."""
    found: dict[str, list[ast.expr | None]] = {}
    stores: Counter[str] = Counter()
    for node in own:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                found.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), op=op) if isinstance(op, _ALGEBRA):
                stores[name] -= 1  # it is a set after it if it was one before
            case ast.Name(id=name, ctx=ast.Store()):
                stores[name] += 1
    taken = getattr(scope, "args", None)
    if taken is not None:
        stores.update(each.arg for each in ast.walk(taken) if isinstance(each, ast.arg))
    for name, count in stores.items():
        if count != len(found.get(name, ())):
            found.setdefault(name, []).append(
                None
            )  # a loop, an argument, an unpacking binds it too
    return found


def _is_set(given: ast.expr | None, known: frozenset[str]) -> bool:
    match given:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in known
        case ast.Call(func=ast.Name(id=name)):
            return name in _MAKERS
        case ast.Call(func=ast.Attribute(value=held, attr=attr)):
            return attr in _GIVERS and _is_set(held, known)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ALGEBRA):
            return _is_set(left, known) or _is_set(right, known)
        case ast.IfExp(body=body, orelse=other):
            return _is_set(body, known) and _is_set(other, known)
    return False


_SORT: Final = "iterate over sorted(...)"
_TELL: Final = "tell sorted(...) of it"


def _uses(node: ast.AST) -> Iterator[tuple[ast.expr, str, str]]:
    """What a node takes one after the other or shows, with what to say if it is a set."""
    match node:
        case ast.For(iter=given) | ast.comprehension(iter=given) | ast.YieldFrom(value=given):
            yield given, "a set has no order", _SORT
        case ast.FormattedValue(value=given):
            yield given, "the text of a set has no order", _TELL
        case ast.Starred(value=given, ctx=ast.Load()):
            yield given, "a set has no order", _SORT
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=given):
            yield given, "a set has no order", _SORT
        case ast.Call(func=ast.Name(id=name), args=args) if name in _SHOWS:
            yield from ((each, "the text of a set has no order", _TELL) for each in args)
        case ast.Call(func=ast.Name(id=name), args=args) if name in _WALKS:
            yield from (
                (each, f"{name} takes a set in an order that it has not", _SORT) for each in args
            )
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in _METHODS:
            yield from (
                (each, f"{name} takes a set in an order that it has not", _SORT) for each in args
            )
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod(), right=given):
            yield given, "the text of a set has no order", _TELL
