"""What code of the lane may not say, found in its syntax tree (05 sections 3 and 4).

Each finding has a lint code; those that are errors refuse loading too, so a bundle that lint
accepts is one that a node loads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

from tallystick.modules.lane_rules import Rules, names_of
from tallystick.modules.lane_sets import leaks
from tallystick.values.names import nearest

_FUTURE: Final = "__future__"
_SPECIAL: Final = frozenset({"__name__", "__debug__"})


class Breach(NamedTuple):
    """One place where code leaves the lane."""

    code: str
    line: int
    message: str
    hint: str


def breaches(
    tree: ast.Module, rules: Rules, vendored: frozenset[str] = frozenset()
) -> list[Breach]:
    """Everything in a file that the lane refuses, in the order of its lines.

    `vendored` names the packages that the artifact brings along.
    """
    nodes = [node for node in ast.walk(tree) if not _is_of(node, vendored)]
    found = [breach for node in nodes for breach in _of(node, rules)]
    inside = {id(part) for node in ast.walk(tree) for part in _class_fields(node)}
    found += _shadowed(tree, rules, inside)
    found += [Breach("TL103", *leak) for leak in leaks(tree)]
    return sorted(found, key=lambda breach: (breach.line, breach.code, breach.message))


def _is_of(node: ast.AST, packages: frozenset[str]) -> bool:
    """True for an import of these packages and of nothing else; what is not there fails to load."""
    match node:
        case ast.Import(names=names):
            return all(alias.name.partition(".")[0] in packages for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module.partition(".")[0] in packages
        case _:
            return False


def _of(node: ast.AST, rules: Rules) -> Iterator[Breach]:
    line = getattr(node, "lineno", 0)
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield from _import(alias.name, None, line, rules)
        case ast.ImportFrom(module=module, names=names, level=0):
            for alias in names:
                yield from _import(module or "", alias.name, line, rules)
        case ast.Global():
            hint = "keep it in the state of the cell"
            yield Breach("TL105", line, "global changes a module", hint)
        case ast.Attribute(attr=attr) if _dunder(attr) and not _is_super_init(node):
            yield Breach("TL105", line, f"{attr} reaches behind the language", "use plain names")
        case ast.Name(id=word, ctx=ast.Load()) if word in rules.banned:
            code = "TL102" if word in ("id", "hash") else "TL105"
            yield Breach(code, line, f"{word} is not in the lane", _hint(word))
        case ast.Name(id=word) if _dunder(word) and word not in _SPECIAL:
            yield Breach("TL105", line, f"{word} reaches behind the language", "use plain names")
        case ast.ExceptHandler(type=None) | ast.ExceptHandler(type=ast.Name(id="BaseException")):
            hint = "name the exceptions; stops of the lane must get through"
            yield Breach("TL106", line, "an except that catches everything", hint)
        case ast.AsyncFor() | ast.comprehension(is_async=1):
            yield Breach("TL401", line, "async for is not in the lane", "await in a plain loop")
        case _:
            return


def _import(module: str, name: str | None, line: int, rules: Rules) -> Iterator[Breach]:
    if module == _FUTURE:
        return
    top = module.partition(".")[0]
    code = "TL401" if top == "asyncio" else "TL101"
    if module not in rules.imports:
        hint = _MODULES.get(top) or nearest(module, rules.imports) or "vendor it, or do without"
        yield Breach(code, line, f"{module} is not in the lane", hint)
    elif name not in (None, "*", *names_of(rules.lane, module)):
        known = sorted(names_of(rules.lane, module))
        hint = nearest(str(name), known) or f"{module} gives {', '.join(known[:12])} ..."
        yield Breach(code, line, f"{module}.{name} is not in the lane", hint)


_MODULES: Final = {
    "time": "ctx.now is the time; ctx.timer(...), or await sleep(...), waits",
    "datetime": "use ctx.now: integer nanoseconds",
    "random": "use ctx.random(), ctx.choice() or ctx.below()",
    "secrets": "use ctx.uuid()",
    "asyncio": "use gather, start and sleep of tallystick",
    "threading": "use gather and start of tallystick",
    "os": "ask for an effect",
    "sys": "ask for an effect",
    "socket": "ask for an Http effect",
    "requests": "ask for an Http effect",
    "re": "one C call is not metered: use string methods",
}


def _shadowed(tree: ast.Module, rules: Rules, inside: set[int]) -> Iterator[Breach]:
    known = rules.builtins | rules.banned | CAPPED
    for node in ast.walk(tree):
        word = None
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and id(node) not in inside
        ):
            word = node.id
        elif isinstance(node, ast.arg):
            word = node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            word = None if id(node) in inside else node.name
        elif isinstance(node, ast.alias):
            word = node.asname
        if word in known:
            line = getattr(node, "lineno", 0)
            yield Breach("TL105", line, f"{word} shadows a builtin", "choose another name")


def _class_fields(node: ast.AST) -> Iterator[ast.AST]:
    """The names that a class body binds: fields and methods, which shadow nothing."""
    if not isinstance(node, ast.ClassDef):
        return
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            yield part.target
        elif isinstance(part, ast.Assign):
            yield from part.targets
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield part


def _hint(word: str) -> str:
    known = {"print": "use ctx.log", "open": "ask for a File effect", "setattr": "use replace"}
    if word in known:
        return known[word]
    if word in ("id", "hash"):
        return "compare values, not identities"
    return "do without it"


def _dunder(word: str) -> bool:
    return len(word) > 4 and word.startswith("__") and word.endswith("__")


def _is_super_init(node: ast.Attribute) -> bool:
    held = node.value
    called = isinstance(held, ast.Call) and isinstance(held.func, ast.Name)
    return node.attr == "__init__" and called and held.func.id == "super"  # type: ignore[attr-defined]


# Builtins that are called through a meter or a guard; `lane_runtime` has one of each.
CAPPED: Final = frozenset(
    [
        "all", "any", "bytes", "enumerate", "filter", "getattr", "hasattr", "iter", "list", "map",
        "max", "min", "next", "range", "reversed", "sorted", "str", "sum", "tuple", "zip", "pow",
    ]
)  # fmt: skip
