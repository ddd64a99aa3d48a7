"""A file as the lint rules see it: workflows, the functions they reach, and the classes beside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef

OUTSIDE: Final = frozenset(["Http", "Blob", "File", "Shell", "Sql", "Llm", "Human", "Timer"])
GOVERNANCE: Final = "tallystick.workflow.governance"  # its classes are effects by import


class Site(NamedTuple):
    """One place in the code that a rule is about."""

    code: str
    line: int
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class FlowSite:
    """A decorated workflow: its function, and the names in its options."""

    name: str
    tick: Function
    line: int
    options: dict[str, ast.expr]
    decorator: ast.expr | None = None

    @property
    def is_async(self) -> bool:
        """True for `async def`."""
        return isinstance(self.tick, ast.AsyncFunctionDef)

    def names(self, option: str) -> list[str]:
        """The names in a list option: `effects=[Charge, Timer]`."""
        given = self.options.get(option)
        parts = given.elts if isinstance(given, ast.List | ast.Tuple) else []
        return [ast.unparse(part) for part in parts]

    def text(self, option: str, default: str) -> str:
        """The text of an option."""
        given = self.options.get(option)
        return str(given.value) if isinstance(given, ast.Constant) else default


@dataclass(slots=True)
class Program:
    """One file: its functions, its classes and its workflows."""

    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    flows: list[FlowSite] = field(default_factory=list)
    pure: list[Function] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)

    def reach(self, flow: FlowSite) -> list[Function]:
        """The function of a workflow and all that it names, each once, but no other workflow."""
        return self.reach_of(flow.tick)

    def reach_of(self, first: Function) -> list[Function]:
        """A function and all that it names, each once, but no other workflow."""
        found: list[Function] = [first]
        others = [other.tick for other in self.flows]
        for function in found:
            for node in ast.walk(function):
                other = self.functions.get(node.id) if isinstance(node, ast.Name) else None
                if other is not None and other not in found and other not in others:
                    found.append(other)
        return found

    def effects(self) -> dict[str, ast.ClassDef | None]:
        """The effect classes in reach of the file, ours included."""
        own = {name: cls for name, cls in self.classes.items() if is_effect(cls)}
        return {**dict.fromkeys([*sorted(OUTSIDE), *self.imported]), **own}

    def is_forgiving(self, name: str) -> bool:
        """True for an effect of this file that may be repeated."""
        said = self.classes[name].keywords
        return any(k.arg == "idempotent" and _is_true(k.value) for k in said)


def read_program(tree: ast.Module) -> Program:
    """The program of a file."""
    made = Program()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            made.classes[node.name] = node
        elif isinstance(node, Function):
            made.functions[node.name] = node
        elif isinstance(node, ast.ImportFrom) and node.module == GOVERNANCE:
            made.imported += [each.asname or each.name for each in node.names]
        for decorator in getattr(node, "decorator_list", ()):
            _decorated(made, node, decorator)
    return made


def _decorated(made: Program, node: Any, decorator: ast.expr) -> None:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if not isinstance(called, ast.Attribute):
        return
    if called.attr in ("pure", "upcast", "migrate") and isinstance(node, Function):
        made.pure.append(node)
    if called.attr != "workflow":
        return
    given = decorator.keywords if isinstance(decorator, ast.Call) else []
    options = {keyword.arg: keyword.value for keyword in given if keyword.arg}
    tick = node
    if isinstance(node, ast.ClassDef):
        tick = next((n for n in node.body if isinstance(n, Function) and n.name == "tick"), None)
    if tick is not None:
        made.flows.append(FlowSite(node.name, tick, node.lineno, options, decorator))


def is_effect(cls: ast.ClassDef) -> bool:
    """True for `class Charge(Effect[Charged], ...)`."""
    return any(ast.unparse(base).startswith("Effect[") for base in cls.bases)


def is_record(cls: ast.ClassDef) -> bool:
    """True for records and effects: classes whose fields have a schema."""
    return is_effect(cls) or any(ast.unparse(base) == "Record" for base in cls.bases)


def calls(function: Function, *names: str) -> Iterator[ast.Call]:
    """Calls of a name or method in a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and called_name(node) in names:
            yield node


def called_name(node: ast.Call) -> str:
    """The last part of what is called: `effect` of `ctx.effect(...)`."""
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def class_of(given: ast.expr | None) -> str | None:
    """The class that a request is made of: `Charge` of `Charge(...)`."""
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name):
        return given.func.id if given.func.id[:1].isupper() else None
    return None


def resolved(given: ast.expr | None, function: Function) -> str | None:
    """The class of a request, also when it was given a name in the same function first."""
    found = class_of(given)
    if found is not None or not isinstance(given, ast.Name):
        return found
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(ast.unparse(t) == given.id for t in node.targets):
            return class_of(node.value)
    return None


def keyword(node: ast.Call, name: str) -> ast.expr | None:
    """A keyword argument of a call."""
    return next((k.value for k in node.keywords if k.arg == name), None)


def _is_true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True
