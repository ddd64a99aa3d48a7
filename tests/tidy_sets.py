"""The rule that pure rooms never iterate a set: its order depends on the hash seed.

It is a reading of the source, not a proof: it knows sets by their form (`{a, b}`, `set(...)`, an
operation on one), by the annotation of a name in the same function or module, and by the
annotation of a field anywhere in the pure rooms.
Where the order cannot show (`sorted`, `any`, `len`, another set), a set may be walked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.tidy import Finding, Function, Source

_MAKERS = frozenset({"set", "frozenset"})
_ORDER_FREE = frozenset({"sorted", "any", "all", "sum", "len", "min", "max", *_MAKERS})
_ORDERED_BY_WALK = frozenset({"list", "tuple", "enumerate", "iter", "zip", "map", "filter", "next"})
_COMPREHENSIONS = (ast.ListComp, ast.DictComp, ast.GeneratorExp)


def _is_set_type(annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return ast.unparse(head) in {"set", "frozenset", "Set", "AbstractSet", "MutableSet"}


def _annotated(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.AnnAssign):
        yield ast.unparse(node.target).removeprefix("self."), node.annotation
    elif isinstance(node, ast.arg):
        yield node.arg, node.annotation


def set_fields(sources: Iterable[Source]) -> frozenset[str]:
    """Fields that every class of the pure rooms which has them declares as sets."""
    sets: set[str] = set()
    others: set[str] = set()
    for source in sources:
        for class_ in (n for n in ast.walk(source.tree) if isinstance(n, ast.ClassDef)):
            for node in class_.body:
                for name, annotation in _annotated(node):
                    (sets if _is_set_type(annotation) else others).add(name)
    return frozenset(sets - others)


class _Walks:
    """Finds walks over sets in one scope; `known` are the names that hold sets there."""

    def __init__(self, known: frozenset[str], fields: frozenset[str]) -> None:
        self.known = known
        self.fields = fields

    def is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Call(func=ast.Name(id=name)):
                return name in _MAKERS
            case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
                return self.is_set(node.left) or self.is_set(node.right)
            case ast.Name(id=name):
                return name in self.known
            case ast.Attribute(attr=attr):
                return attr in self.fields
            case ast.IfExp():
                return self.is_set(node.body) or self.is_set(node.orelse)
            case _:
                return False

    def walks(self, node: ast.AST, *, free: bool = False) -> Iterator[int]:
        """Lines below a node where a set is walked in an order that can show."""
        if isinstance(node, (ast.For, ast.AsyncFor)) and self.is_set(node.iter):
            yield node.lineno
        if isinstance(node, _COMPREHENSIONS) and not free:
            yield from (node.lineno for part in node.generators if self.is_set(part.iter))
        if isinstance(node, ast.Starred) and self.is_set(node.value) and not free:
            yield node.lineno
        if isinstance(node, ast.Call):
            yield from self._handed_on(node)
        # `{*a}` and `sorted(x for x in a)` cannot show an order.
        called = isinstance(node, ast.Call) and ast.unparse(node.func) in _ORDER_FREE
        within = called or isinstance(node, ast.Set)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (*Function.__args__, ast.ClassDef)):
                yield from self.walks(child, free=within)

    def _handed_on(self, call: ast.Call) -> Iterator[int]:
        name = ast.unparse(call.func)
        if name in _ORDERED_BY_WALK or name.endswith((".join", ".extend")):
            yield from (call.lineno for arg in call.args if self.is_set(arg))


def _known_in(scope: ast.AST, walks: _Walks) -> frozenset[str]:
    """Names of one scope that are annotated as sets, or only ever assigned sets."""
    sets: set[str] = set(walks.known)
    others: set[str] = set()
    for node in ast.walk(scope):
        for name, annotation in _annotated(node):
            (sets if _is_set_type(annotation) else others).add(name)
        if isinstance(node, ast.Assign):
            kind = sets if walks.is_set(node.value) else others
            kind.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return frozenset(sets - others)


def set_iteration(source: Source, fields: frozenset[str]) -> Iterator[Finding]:
    """Findings of one file; `fields` are the set fields of all pure rooms."""
    if not source.pure:
        return
    module = _Walks(frozenset(), fields)
    top = ast.Module(
        body=[n for n in source.tree.body if not isinstance(n, Function)], type_ignores=[]
    )
    module = _Walks(_known_in(top, module), fields)
    scopes: list[ast.AST] = [source.tree, *source.functions]
    for scope in scopes:
        walks = module if scope is source.tree else _Walks(_known_in(scope, module), fields)
        yield from ((line, "iterates a set") for line in walks.walks(scope))
