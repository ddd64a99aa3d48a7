"""Rules about fields, outcomes, methods and arguments that are not there: TL306 (ADR 0024).

They look at the code beside the classes that it defines, and say only what is certain.
None refuses loading: a bundle that was accepted with a slip on a path that nobody took must go on
replaying.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any, Final

from tallystick.modules.lint_kinds import (
    Kinds,
    Names,
    Unknown,
    has,
    inner_functions,
    inside,
    is_closed,
    named,
    own_nodes,
    sure,
)
from tallystick.modules.lint_tree import Function, Program, Site, keyword
from tallystick.modules.lint_values import (
    FIT,
    NEVER_RECORDS,
    default_sites,
    gift_sites,
    is_span,
    misfit,
)
from tallystick.values.names import nearest
from tallystick.workflow.codec import fields_of
from tallystick.workflow.ctx import Asked
from tallystick.workflow.effects import EffectType
from tallystick.workflow.records import RecordType

_SPANS: Final = frozenset({"sleep", "timeout", "timer"})  # their first argument is a span


def field_sites(tree: ast.Module, program: Program, scope: Mapping[str, Any]) -> Iterator[Site]:
    """Everything these rules find in a file; `scope` is what it has defined."""
    top = Names(scope, {})
    yield from default_sites(program, scope)
    for function in inner_functions(tree):
        yield from _body(function, top)
    for flow in program.flows:
        yield from gift_sites(flow, top)


def _body(function: Function, outer: Names) -> Iterator[Site]:
    names = inside(function, outer)
    for node in own_nodes(function):
        match node:
            case ast.Attribute():
                yield from _attribute(node, names)
            case ast.Call():
                yield from _call(node, names)
            case ast.MatchClass():
                yield from _pattern(node, names)
    for inner in inner_functions(function):
        yield from _body(inner, names)


def _attribute(node: ast.Attribute, names: Names) -> Iterator[Site]:
    held = names.thing(node.value)
    if held is not Unknown:
        if _is_known(held) and not hasattr(held, node.attr):
            yield _lacks(node, _shown(held), node.attr, dir(held))
        return
    kinds = sure(names.kinds(node.value))
    if not kinds:
        return
    if not any(has(cls, node.attr) for cls in kinds):
        known = {name for cls in kinds for name in dir(cls)}
        yield _lacks(node, named(kinds), node.attr, known)
    elif isinstance(node.ctx, ast.Store) and all(isinstance(c, RecordType) for c in kinds):
        hint = f"make another one: .replace({node.attr}=...)"
        yield Site("TL306", node.lineno, f"a {named(kinds)} cannot be changed", hint)


def _is_known(held: Any) -> bool:
    """True for what has all of its attributes by now."""
    return isinstance(held, ModuleType | RecordType) or (
        isinstance(held, type) and issubclass(held, Enum)
    )


def _pattern(node: ast.MatchClass, names: Names) -> Iterator[Site]:
    cls = names.thing(node.cls)
    if not isinstance(cls, type) or cls is Unknown or not is_closed(cls):
        return
    for name in node.kwd_attrs:
        if not has(cls, name):
            yield _lacks(node, cls.__qualname__, name, dir(cls))


def _call(node: ast.Call, names: Names) -> Iterator[Site]:
    made = names.thing(node.func)
    if isinstance(made, RecordType):
        yield from _made(node, made)
    elif isinstance(made, FunctionType):
        yield from _called(node, made, [])
    elif isinstance(node.func, ast.Attribute):
        kinds = sure(names.kinds(node.func.value)) or frozenset()
        if node.func.attr == "replace" and all(isinstance(c, RecordType) for c in kinds):
            yield from _replaced(node, kinds)
        elif kinds and all(issubclass(cls, Asked) for cls in kinds):
            method = next((getattr(cls, node.func.attr, None) for cls in kinds), None)
            if isinstance(method, FunctionType):
                yield from _called(node, method, [None])
                yield from _asked(node, names)


def _made(node: ast.Call, cls: Any) -> Iterator[Site]:
    """A record: each field by its name, none missing, each of its type."""
    if any(each.arg is None for each in node.keywords):
        return
    fields = [slot.name for slot in cls.tally_slots]
    if node.args:
        hint = f"write {cls.__name__}({', '.join(f'{name}=...' for name in fields)})"
        yield Site("TL306", node.lineno, f"the fields of {cls.__name__} are given by name", hint)
        return
    yield from _fields(node, [cls])
    given = [each.arg for each in node.keywords]
    if any(name not in fields for name in given):
        return  # one slip is one finding
    free = cls.tally_defaults.keys() | cls.tally_factories.keys()
    for name in fields:
        if name not in given and name not in free:
            hint = f"add {name}=..., or give the field a default"
            yield Site("TL306", node.lineno, f"{cls.__name__} needs {name}", hint)


def _replaced(node: ast.Call, kinds: Kinds) -> Iterator[Site]:
    if kinds:
        yield from _fields(node, sorted(kinds, key=lambda cls: cls.__name__))


def _fields(node: ast.Call, classes: list[Any]) -> Iterator[Site]:
    for each in node.keywords:
        owners = [cls for cls in classes if any(s.name == each.arg for s in cls.tally_slots)]
        if each.arg is not None and not owners:
            fields = [slot.name for cls in classes for slot in cls.tally_slots]
            yield _lacks(each.value, classes[0].__name__, each.arg, fields)
        for cls in owners[:1]:
            why = misfit(fields_of(cls)[str(each.arg)], each.value)
            if why is not None and len(owners) == len(classes):
                yield Site("TL307", each.value.lineno, f"{cls.__name__}.{each.arg}: {why}", FIT)


def _called(node: ast.Call, function: Any, first: list[Any]) -> Iterator[Site]:
    """A function whose arguments are known: what it is given must be what it takes."""
    loose = any(isinstance(arg, ast.Starred) for arg in node.args)
    if loose or any(each.arg is None for each in node.keywords):
        return
    taken = inspect.signature(function)
    given = {str(each.arg): each for each in node.keywords}
    try:
        taken.bind(*first, *node.args, **given)
    except TypeError as why:
        hint = next((nearest(name, taken.parameters) for name in given), "")
        form = f"it takes {str(taken).partition(' ->')[0]}"
        wrong = [name for name in given if name not in taken.parameters]
        said = hint if wrong and hint else form
        yield Site("TL306", node.lineno, f"{function.__name__}: {why}", said)
    spans = [keyword(node, "timeout")] if first else []
    if function.__name__ in _SPANS and function.__module__.startswith("tallystick."):
        spans += node.args[:1]
    for span in spans:
        if isinstance(span, ast.Constant) and type(span.value) is str and not is_span(span.value):
            hint = 'write "30s", "5m", "2h" or "1d"'
            yield Site("TL307", span.lineno, f"{span.value!r} is no duration", hint)


def _asked(node: ast.Call, names: Names) -> Iterator[Site]:
    """`ctx.emit(Paid)` and `ctx.effect(Charge)`: a class is not yet a value."""
    verb = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if verb not in ("emit", "effect") or not node.args:
        return
    wanted = "an event" if verb == "emit" else "a request"
    given = node.args[0]
    cls = names.thing(given)
    if isinstance(cls, RecordType):
        hint = f"write {cls.__name__}(...)"
        yield Site("TL307", node.lineno, f"{cls.__name__} is a class and not {wanted}", hint)
    elif isinstance(given, (ast.Constant, *NEVER_RECORDS)):
        kind = "Record" if verb == "emit" else "Effect"
        message = f"{ast.unparse(given)[:40]} is not {wanted}"
        yield Site("TL307", node.lineno, message, f"make it a value of a {kind} class")
    elif verb == "effect":
        kinds = sure(names.kinds(given)) or frozenset()
        for cls in kinds:
            if isinstance(cls, RecordType) and not isinstance(cls, EffectType):
                hint = f"write class {cls.__name__}(Effect[...], executor=...)"
                yield Site("TL307", node.lineno, f"{cls.__name__} is a Record and no Effect", hint)


def _lacks(node: ast.AST, owner: str, name: str, known: Any) -> Site:
    plain = sorted(each for each in set(known) if not each.startswith(("_", "tally_")))
    alike = next((each for each in plain if each.lower() == name.lower()), None)
    near = nearest(name, plain) if alike is None else f"did you mean {alike}?"
    hint = near or f"{owner} has {', '.join(plain[:12])}"
    return Site("TL306", getattr(node, "lineno", 0), f"{owner} has no {name}", hint)


def _shown(held: Any) -> str:
    return str(getattr(held, "__qualname__", None) or held.__name__)
