"""What the names of a function stand for, as far as its text and its annotations say.

A kind is a set of classes of which a value is one; `None` is a name that nobody can be sure of.
Classes are those that the file has defined when it was loaded, so their fields are known exactly.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tallystick.modules.lint_tree import Function, called_name
from tallystick.workflow.ctx import Asked
from tallystick.workflow.effects import EffectType
from tallystick.workflow.records import RecordType

Kinds = frozenset[type]
NOTHING: Final = type(None)
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# What a context holds besides its methods is set when it is made, so its class does not tell.
HELD: Final = frozenset(
    {"asked", "counts", "emitted", "logs", "reason", "result", "status"}
    | {"_bundle", "_catalogue", "_chance", "_context", "_key", "_tick"}
)


class Unknown:
    """Stands for what the text does not tell."""


class Names(NamedTuple):
    """The names that a piece of code sees: those of the file, and its own with their kinds."""

    scope: Mapping[str, Any]
    local: Mapping[str, Kinds | None]

    def thing(self, node: ast.AST | None) -> Any:
        """The object of the file that an expression names, or `Unknown`."""
        if isinstance(node, ast.Name) and node.id not in self.local:
            own: Mapping[str, Any] = self.scope.get("__builtins__", {})
            return self.scope.get(node.id, own.get(node.id, Unknown))
        if isinstance(node, ast.Attribute):
            held = self.thing(node.value)
            return Unknown if held is Unknown else getattr(held, node.attr, Unknown)
        return Unknown

    def said(self, annotation: ast.expr | None) -> Kinds | None:
        """The classes of an annotation such as `Guest | None`."""
        if isinstance(annotation, ast.Constant) and annotation.value is None:
            return frozenset([NOTHING])
        if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
            return _both(self.said(annotation.left), self.said(annotation.right))
        found = self.thing(annotation)
        return frozenset([found]) if isinstance(found, type) and found is not Unknown else None

    def kinds(self, node: ast.AST | None) -> Kinds | None:
        """The classes of which an expression gives one."""
        match node:
            case ast.Name(id=name):
                return self.local.get(name)
            case ast.Constant(value=value):
                return frozenset([type(value)])
            case ast.IfExp(body=one, orelse=other):
                return _both(self.kinds(one), self.kinds(other))
            case ast.BoolOp(op=ast.Or(), values=values):
                *firsts, last = [self.kinds(each) for each in values]
                found = last
                for each in firsts:
                    found = _both(None if each is None else each - {NOTHING}, found)
                return found
            case ast.Await(value=ast.Call(args=[asked, *_]) as call) if _is_effect(call):
                return _receipt(self.kinds(asked))
            case ast.Call(func=ast.Attribute(value=held, attr="replace")):
                found = self.kinds(held)
                return None if found is None else found - {NOTHING}
            case ast.Call(func=func):
                made = self.thing(func)
                return frozenset([made]) if isinstance(made, RecordType) else None
            case _:
                return None


def _both(one: Kinds | None, other: Kinds | None) -> Kinds | None:
    return None if one is None or other is None else one | other


def _is_effect(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and called_name(call) == "effect"


def _receipt(asked: Kinds | None) -> Kinds | None:
    """What an awaited effect gives: the one class of its receipt."""
    effects = [each for each in asked or () if isinstance(each, EffectType)]
    found = effects[0].tally_effect.receipt if len(effects) == 1 else None
    return frozenset([found]) if isinstance(found, RecordType) else None


def inside(function: Function, outer: Names) -> Names:
    """The names that the body of a function sees."""
    own = list(own_nodes(function))
    local: dict[str, Kinds | None] = {**outer.local, **dict.fromkeys(_bound(function, own))}
    names = Names(outer.scope, local)
    args = function.args
    for each in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        local[each.arg] = outer.said(each.annotation)
    given = _assigned(own)
    stores = [node.id for node in own if isinstance(node, ast.Name) and _is_store(node)]
    # Twice, because a name may be made from one that is only known by then.
    for _ in range(2):
        for name, values in given.items():
            if len(values) != stores.count(name) or name in _patterns(own):
                local[name] = None
                continue
            made: Kinds | None = frozenset()
            for value in values:
                made = _both(made, names.kinds(value))
            taken = local[name] if name in _arguments(function) else frozenset[type]()
            local[name] = _both(made, taken)
    for name in stores:
        if name not in given:
            local[name] = None
    return names


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, without the bodies of functions and classes within it."""
    left = list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, _SCOPES):
            left.extend(ast.iter_child_nodes(node))


def inner_functions(function: ast.AST) -> Iterator[Function]:
    """The functions that stand in a function or class."""
    for node in own_nodes(function):
        if isinstance(node, Function):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from inner_functions(node)


def has(cls: type, name: str) -> bool:
    """True when a value of a class, or of one below it, has an attribute."""
    if issubclass(cls, Asked):
        return hasattr(cls, name) or name in HELD
    return hasattr(cls, name) or any(has(below, name) for below in cls.__subclasses__())


def is_closed(cls: type) -> bool:
    """True for a class whose attributes are all known: records, outcomes, contexts."""
    return isinstance(cls, RecordType) or hasattr(cls, "tally_effect") or issubclass(cls, Asked)


def _is_store(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _arguments(function: Function) -> set[str]:
    return {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}


def _patterns(nodes: list[ast.AST]) -> set[str]:
    """The names that patterns, handlers, imports and definitions bind."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
                found.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.alias():
                found.add((node.asname or node.name).partition(".")[0])
            case ast.arg():
                found.add(node.arg)
    return found


def _bound(function: Function, own: list[ast.AST]) -> set[str]:
    stores = {node.id for node in own if isinstance(node, ast.Name) and _is_store(node)}
    return stores | _patterns(own) | _arguments(function)


def _assigned(own: list[ast.AST]) -> dict[str, list[ast.expr]]:
    """The values that names are given by plain assignments."""
    found: dict[str, list[ast.expr]] = {}
    for node in own:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, []).append(value)
    return found


def sure(kinds: Kinds | None) -> Kinds | None:
    """The classes without None, if all of them are known to the last attribute."""
    some = None if kinds is None else kinds - {NOTHING}
    return some if some and all(is_closed(cls) for cls in some) else None


def named(kinds: Kinds) -> str:
    """The names of classes, as an annotation has them."""
    shown = sorted(cls.__qualname__ for cls in kinds if cls is not NOTHING)
    return " | ".join(shown) or "None"
