"""The rewriting of the lane: meters and guards put into a checked syntax tree.

The names it calls begin with `@`, which no source can spell.
Everything is done on the tree, so counts do not depend on the interpreter's byte code.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from tallystick.modules.lane_check import CAPPED
from tallystick.modules.parse import parsed

TICK: Final = "@t"
EACH: Final = "@each"
POP: Final = "@pop"
OWN: Final = "@own"
_OPERATORS: Final = {ast.Mult: "@mul", ast.Pow: "@pow", ast.LShift: "@shift"}
_ALGEBRA: Final = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
_ITERATING: Final = frozenset({"join", "extend", "fromkeys"})


def builtin_name(word: str) -> str:
    """What a call of a capped builtin becomes."""
    return "@" + word


def rewrite(tree: ast.Module) -> ast.Module:
    """The tree with meters and guards; annotations are evaluated, whatever the file asks for."""
    tree.body = [node for node in tree.body if not _is_future(node)]
    made = _Rewriter().visit(tree)
    return ast.fix_missing_locations(made)  # type: ignore[no-any-return]  # a Module again


class _Rewriter(ast.NodeTransformer):
    def visit_FunctionDef(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body = _metered(node.body)
        return node

    def visit_AsyncFunctionDef(self, node: Any) -> Any:
        return self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        self.generic_visit(node)
        node.body = _at(ast.BoolOp(ast.And(), [_call(TICK), node.body]), node.body)
        return node

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        node.iter = _guarded(node.iter)
        node.body = _metered(node.body, docstring=False)
        return node

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        node.body = _metered(node.body, docstring=False)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        node.iter = _guarded(node.iter)
        node.ifs = [_at(_call(TICK), node.iter), *node.ifs]
        return node

    def visit_Set(self, node: ast.Set) -> Any:
        # The builtin gives the sets of the lane, whose order is no chance.
        self.generic_visit(node)
        return _at(_call("set", ast.List(node.elts, ast.Load())), node)

    def visit_SetComp(self, node: ast.SetComp) -> Any:
        self.generic_visit(node)
        return _at(_call("set", _at(ast.ListComp(node.elt, node.generators), node)), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        # Whether something is in a display of constants needs no set of ours, and is much quicker.
        given = node.comparators
        held = [_constants(each) for each in given]
        self.generic_visit(node)
        node.comparators = [old or new for old, new in zip(held, node.comparators, strict=True)]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, _ALGEBRA) and not (_is_plain(node.left) or _is_plain(node.right)):
            # The algebra of the keys or items of a table gives plain sets, wherever they come from.
            return _at(_call(OWN, node), node)
        guard = _OPERATORS.get(type(node.op))
        return node if guard is None else _at(_call(guard, node.left, node.right), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        guard = _OPERATORS.get(type(node.op))
        if guard is None:
            return self._owned(node)
        # Evaluated twice for `a.b *= c` and `a[i] *= c`: reading has no effect in the lane.
        read: Any = parsed(ast.unparse(node.target)).body[0]
        product = _call(guard, self.visit(read.value), node.value)
        return _at(ast.Assign([node.target], product), node)

    def _owned(self, node: ast.AugAssign) -> Any:
        """The same, and then the set of the lane in its place where a plain one was made."""
        calls = (ast.Call, ast.Await, ast.NamedExpr)
        once = any(isinstance(each, calls) for each in ast.walk(node.target))
        if not isinstance(node.op, _ALGEBRA) or _is_plain(node.value) or once:
            return node
        read: Any = parsed(ast.unparse(node.target)).body[0]
        target: Any = parsed(f"{ast.unparse(node.target)} = 0").body[0]
        return [node, _at(ast.Assign(target.targets, _at(_call(OWN, read.value), node)), node)]

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        func = node.func
        if isinstance(func, ast.Name) and func.id in CAPPED:
            node.func = _at(ast.Name(builtin_name(func.id), ast.Load()), func)
        elif isinstance(func, ast.Attribute) and node.args and func.attr in _ITERATING:
            if not isinstance(node.args[0], ast.Starred):
                node.args[0] = _guarded(node.args[0])
        elif isinstance(func, ast.Attribute) and func.attr == "pop" and not _has_arguments(node):
            return _at(_call(POP, func.value), node)
        return node

    def visit_Starred(self, node: ast.Starred) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = _guarded(node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        unpacked = any(isinstance(target, ast.Tuple | ast.List) for target in node.targets)
        if unpacked and not isinstance(node.value, ast.Tuple | ast.List):
            node.value = _guarded(node.value)
        return node


def _metered(body: list[Any], *, docstring: bool = True) -> list[Any]:
    first = body[0]
    at = 1 if docstring and _is_text(first) else 0
    return [*body[:at], _at(ast.Expr(_call(TICK)), first), *body[at:]]


def _is_text(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _guarded(given: ast.expr) -> ast.expr:
    # A display or a call of a guarded builtin is known to have an order.
    if isinstance(given, ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp | ast.Constant):
        return given
    named = isinstance(given, ast.Call) and isinstance(given.func, ast.Name)
    if named and given.func.id.startswith("@"):  # type: ignore[attr-defined]  # a Name, as asked
        return given
    made: ast.expr = _at(_call(EACH, given), given)
    return made


def _constants(given: ast.expr) -> ast.Set | None:
    plain = isinstance(given, ast.Set) and all(isinstance(e, ast.Constant) for e in given.elts)
    return given if plain else None  # type: ignore[return-value]  # a Set, as asked


def _is_plain(given: ast.expr) -> bool:
    """True for a constant: what it is combined with is no set."""
    signed = given.operand if isinstance(given, ast.UnaryOp) else given
    return isinstance(signed, ast.Constant)


def _has_arguments(node: ast.Call) -> bool:
    return bool(node.args or node.keywords)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _at(made: Any, like: ast.AST) -> Any:
    return ast.copy_location(made, like)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
