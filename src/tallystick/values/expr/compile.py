"""Syntax tree to closures: each node becomes one small function of the run.

Theory of operation.
Compiling happens once, so everything that can be refused without a value is refused here: node
types, names, filters, tests, functions, numbers, nesting.
The nodes of an expression are counted here too, and paid for at once when it runs: outside loops
no node runs twice.
In strict mode every place that *uses* a value is guarded; `is defined`, `is undefined`,
`default` and the base of a longer path are the only places that are not.
"""

# tidy: one method per node type of 07 section 3; the table reads better whole.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes

from tallystick.values.expr import operate, short
from tallystick.values.expr.access import check_name, cut, member
from tallystick.values.expr.fault import BUDGET, FORBIDDEN, RANGE, SYNTAX, TYPE, UNKNOWN, fault
from tallystick.values.expr.filters_lists import LIST_FILTERS, MAP, select
from tallystick.values.expr.filters_text import TEXT_FILTERS
from tallystick.values.expr.methods import MAP_METHODS, TEXT_METHODS, dict_of
from tallystick.values.expr.methods import RANGE as RANGE_FUNCTION
from tallystick.values.expr.parts import (
    Closure,
    check_of,
    comparison,
    constant,
    named_check,
    path_of,
)
from tallystick.values.expr.run import DEPTH_MAX, MISSING, Run, Undefined, text_size
from tallystick.values.expr.signature import Signature

_FILTERS: Mapping[str, Signature] = {**TEXT_FILTERS, **LIST_FILTERS}
_BINARY: Mapping[type[nodes.BinExpr], Callable[[Run, Any, Any], Any]] = {
    nodes.Add: operate.add,
    nodes.Sub: operate.sub,
    nodes.Mul: operate.mul,
    nodes.Div: operate.div,
    nodes.FloorDiv: operate.floordiv,
    nodes.Mod: operate.mod,
}
# Nodes whose value is never undefined need no guard in strict mode.
_DEFINED = (nodes.Const, nodes.Compare, nodes.Not, nodes.BinExpr, nodes.Neg, nodes.List, nodes.Dict)


# Nodes that ask for no more than the step they were counted with.
_FREE = (nodes.Const, nodes.Name, nodes.Getattr, nodes.And, nodes.Or, nodes.Not)


def _costs_nothing(node: nodes.Node) -> bool:
    """True for a node that spends neither steps nor room when it runs."""
    if isinstance(node, nodes.Compare):
        return all(step.op not in ("in", "notin") for step in node.ops)
    return isinstance(node, _FREE)


class Compiler:
    """Compiles the expressions of one source; collects the names it reads and counts nodes."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.names: dict[str, None] = {}
        self.bound: tuple[str, ...] = ()
        self.has_locals = False
        self.count = 0
        self.depth = 0
        self.is_free = True

    def value(self, node: nodes.Node) -> Closure:
        """A node whose value is used: in strict mode an undefined one is a fault."""
        made = self.tolerant(node)
        if not self.strict or isinstance(node, _DEFINED):
            return made
        read = short.field_of(node, self.has_locals)
        if read is not None:
            return short.present(read)
        return lambda run: short.defined(made(run))

    def plain(self, node: nodes.Node) -> Closure:
        """A node whose value goes into a container or an argument: undefined becomes null."""
        made = self.value(node)
        if self.strict or isinstance(node, _DEFINED):
            return made

        def nulled(run: Run) -> Any:
            found = made(run)
            return None if type(found) is Undefined else found

        return nulled

    def tolerant(self, node: nodes.Node) -> Closure:
        """A node whose value may be undefined."""
        work = _NODES.get(type(node))
        if work is None:
            raise fault(FORBIDDEN, f"{type(node).__name__} is not part of the language")
        self.count += 1
        self.depth += 1
        self.is_free = self.is_free and _costs_nothing(node)
        if self.depth > DEPTH_MAX:
            raise fault(BUDGET, f"nesting over {DEPTH_MAX}")
        made = work(self, node)
        self.depth -= 1
        return made

    # ---- names and paths --------------------------------------------------------------------

    def const(self, node: nodes.Const) -> Closure:
        """A literal within the types of the language."""
        value = node.value
        if type(value) is int and not operate.INT_MIN <= value <= operate.INT_MAX:
            raise fault(RANGE, "an integer is over 64 bits")
        if type(value) is float and not math.isfinite(value):
            raise fault(RANGE, "a float is not finite")
        if type(value) is str and any(0xD800 <= ord(c) <= 0xDFFF for c in value):
            raise fault(SYNTAX, "a text holds a lone surrogate")
        return lambda _run: value

    def name(self, node: nodes.Name) -> Closure:
        """A name of the scope, or one bound by the template itself."""
        name = check_name(node.name)
        if name not in self.bound:
            self.names[name] = None

        def from_scope(run: Run) -> Any:
            try:
                return run.scope[name]
            except KeyError:
                return run.miss(name)

        if not self.has_locals:
            return from_scope

        def from_locals(run: Run) -> Any:
            if run.local is not None and name in run.local:
                return run.local[name]
            return from_scope(run)

        return from_locals

    def attribute(self, node: nodes.Getattr) -> Closure:
        """A key of a map by its name; methods exist only where they are called."""
        base = self.tolerant(node.node)
        key, path = check_name(node.attr), path_of(node)
        read = short.field_of(node, self.has_locals)
        if read is not None:
            return short.field(read)

        def get(run: Run) -> Any:
            held = base(run)
            if type(held) is dict:
                found = held.get(key, MISSING)
                return found if found is not MISSING else run.miss(path)
            return member(run, held, key, path)

        return get

    def item(self, node: nodes.Getitem) -> Closure:
        """A key, an index or a slice."""
        base = self.tolerant(node.node)
        path = path_of(node)
        if isinstance(node.arg, nodes.Slice):
            return self.part(base, node.arg)
        if isinstance(node.arg, nodes.Const) and type(node.arg.value) is str:
            check_name(node.arg.value)
        key = self.value(node.arg)

        def get(run: Run) -> Any:
            held = base(run)
            return member(run, held, key(run), path)

        return get

    def part(self, base: Closure, node: nodes.Slice) -> Closure:
        """A part of a list or text."""
        bounds = [
            None if part is None else self.plain(part)
            for part in (node.start, node.stop, node.step)
        ]

        def get(run: Run) -> Any:
            held = base(run)
            one, two, three = (None if bound is None else bound(run) for bound in bounds)
            return cut(run, held, (one, two, three))

        return get

    # ---- containers -------------------------------------------------------------------------

    def sequence(self, node: nodes.List | nodes.Tuple) -> Closure:
        """A list; a tuple is one too."""
        items = [self.plain(item) for item in node.items]

        def make(run: Run) -> Any:
            made = [item(run) for item in items]
            run.charge_deep(made)
            return made

        return make

    def mapping(self, node: nodes.Dict) -> Closure:
        """A map with text or integer keys."""
        pairs = [(self.plain(pair.key), self.plain(pair.value)) for pair in node.items]

        def make(run: Run) -> Any:
            made: dict[Any, Any] = {}
            for key, value in pairs:
                name = key(run)
                if type(name) not in (str, int):
                    raise fault(TYPE, f"a key is {operate.kind_of(name)}")
                made[name] = value(run)
            run.charge_deep(made)
            return made

        return make

    # ---- operators --------------------------------------------------------------------------

    def binary(self, node: nodes.BinExpr) -> Closure:
        """Arithmetic between two values."""
        work = _BINARY[type(node)]
        left, right = self.value(node.left), self.value(node.right)
        return lambda run: work(run, left(run), right(run))

    def both(self, node: nodes.And) -> Closure:
        """The first false side, else the second."""
        left, right = self.value(node.left), self.value(node.right)

        def work(run: Run) -> Any:
            first = left(run)
            if first is False:
                return first
            return right(run) if first is True or operate.truth(first) else first

        return work

    def either(self, node: nodes.Or) -> Closure:
        """The first true side, else the second."""
        left, right = self.value(node.left), self.value(node.right)

        def work(run: Run) -> Any:
            first = left(run)
            return first if operate.truth(first) else right(run)

        return work

    def negation(self, node: nodes.Not) -> Closure:
        """The opposite truth."""
        held = self.value(node.node)
        return lambda run: not operate.truth(held(run))

    def minus(self, node: nodes.Neg) -> Closure:
        """The negative; the one literal that only fits with its sign is read here."""
        inner = node.node
        if isinstance(inner, nodes.Const) and inner.value == -operate.INT_MIN:
            return lambda _run: operate.INT_MIN
        held = self.value(inner)
        return lambda run: operate.neg(run, held(run))

    def plus(self, node: nodes.Pos) -> Closure:
        """The number itself."""
        held = self.value(node.node)
        return lambda run: operate.pos(run, held(run))

    def concat(self, node: nodes.Concat) -> Closure:
        """The texts of values, one after the other."""
        parts = [self.value(part) for part in node.nodes]

        def work(run: Run) -> str:
            texts: list[str] = []
            for part in parts:
                text = operate.text_of(run, part(run))
                run.charge(text_size(text))
                texts.append(text)
            return "".join(texts)

        return work

    def compare(self, node: nodes.Compare) -> Closure:
        """A chain of comparisons, each between neighbours, until one is false."""
        first = self.value(node.expr)
        steps = [(comparison(step.op), self.value(step.expr)) for step in node.ops]
        if len(steps) == 1:
            only, other = steps[0]
            read, literal = short.field_of(node.expr, self.has_locals), node.ops[0].expr

            def whole(run: Run) -> bool:
                return only(run, first(run), other(run))

            if read is None or not isinstance(literal, nodes.Const):
                return whole
            return short.against(node.ops[0].op, read, literal.value, whole)

        def work(run: Run) -> bool:
            left = first(run)
            for check, right_of in steps:
                right = right_of(run)
                if not check(run, left, right):
                    return False
                left = right
            return True

        return work

    def choice(self, node: nodes.CondExpr) -> Closure:
        """One of two; without an else and without its condition it is undefined."""
        test, yes = self.value(node.test), self.tolerant(node.expr1)
        no = None if node.expr2 is None else self.tolerant(node.expr2)

        def work(run: Run) -> Any:
            if operate.truth(test(run)):
                return yes(run)
            return run.miss("if without else") if no is None else no(run)

        return work

    # ---- filters, tests, calls --------------------------------------------------------------

    def filtered(self, node: nodes.Filter) -> Closure:
        """A filter of the table."""
        assert node.node is not None, "only a filter block has no value, and it is no statement"
        if node.name in ("selectattr", "rejectattr"):
            return self.select(node)
        if node.name == "map":
            if node.args:
                raise fault(UNKNOWN, "map takes attribute= only")
            signature: Signature | None = MAP
        else:
            signature = _FILTERS.get(node.name)
        if signature is None:
            raise fault(UNKNOWN, f"no filter {node.name[:40]}")
        return self.applied(signature, node.node, node)

    def test(self, node: nodes.Test) -> Closure:
        """A test of the table."""
        return self.applied(check_of(node.name), node.node, node)

    def applied(self, signature: Signature, subject: nodes.Node, node: Any) -> Closure:
        """A filter or test on its subject."""
        held = self.tolerant(subject) if signature.tolerant else self.value(subject)
        args = self.arguments(signature, node)
        work = signature.work
        if not args:
            return lambda run: work(run, held(run))
        return lambda run: work(run, held(run), *[arg(run) for arg in args])

    def arguments(self, signature: Signature, node: Any) -> list[Closure]:
        """Arguments in the order the signature takes them; the given tail may be short."""
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise fault(FORBIDDEN, "arguments cannot be unpacked")
        takes = signature.takes
        if len(node.args) > len(takes):
            raise fault(TYPE, f"{len(node.args)} arguments where {len(takes)} are taken")
        given: dict[str, nodes.Node] = dict(zip(takes, node.args, strict=False))
        for keyword in node.kwargs:
            if keyword.key not in takes or keyword.key in given:
                raise fault(TYPE, f"argument {keyword.key[:40]} is not taken here")
            given[keyword.key] = keyword.value
        if any(name not in given for name in takes[: signature.needs]):
            raise fault(TYPE, f"argument {takes[signature.needs - 1]} is missing")
        last = max((at for at, name in enumerate(takes) if name in given), default=-1)
        made: list[Closure] = []
        for at in range(last + 1):
            if takes[at] in given:
                made.append(self.plain(given[takes[at]]))
            else:
                made.append(constant(signature.skipped[at - signature.needs]))
        return made

    def select(self, node: nodes.Filter) -> Closure:
        """`selectattr(path, test, argument...)`; without a test the truth decides."""
        if node.kwargs or node.dyn_args is not None or node.dyn_kwargs is not None:
            raise fault(TYPE, f"{node.name} takes a path, a test and its arguments")
        if not node.args:
            raise fault(TYPE, f"{node.name} needs a path")
        assert node.node is not None
        held, path = self.value(node.node), self.value(node.args[0])
        keep = node.name == "selectattr"
        signature = named_check(node.args[1]) if len(node.args) > 1 else None
        args = [self.plain(arg) for arg in node.args[2:]]
        if signature is not None and len(args) != signature.needs:
            raise fault(TYPE, f"the test of {node.name} takes {signature.needs} arguments")

        def work(run: Run) -> Any:
            given = [arg(run) for arg in args]

            def check(value: Any) -> bool:
                tolerated = signature is not None and signature.tolerant
                if run.strict and type(value) is Undefined and not tolerated:
                    raise fault(TYPE, f"{value.path} is undefined")
                if signature is None:
                    return operate.truth(value)
                return bool(signature.work(run, value, *given))

            return select(run, held(run), path(run), check, keep=keep)

        return work

    def call(self, node: nodes.Call) -> Closure:
        """`range`, `dict`, or a method of a text or a map."""
        target = node.node
        if isinstance(target, nodes.Getattr):
            return self.method(target, node)
        if not isinstance(target, nodes.Name):
            raise fault(FORBIDDEN, "only functions and methods by name can be called")
        if target.name == "dict":
            return self.dict_call(node)
        if target.name != "range":
            raise fault(UNKNOWN, f"no function {target.name[:40]}")
        args = self.arguments(RANGE_FUNCTION, node)
        work = RANGE_FUNCTION.work
        return lambda run: work(run, *[arg(run) for arg in args])

    def dict_call(self, node: nodes.Call) -> Closure:
        """`dict(base?, name=value...)`."""
        if node.dyn_args is not None or node.dyn_kwargs is not None or len(node.args) > 1:
            raise fault(FORBIDDEN, "dict takes one map and named values")
        base = self.plain(node.args[0]) if node.args else constant(MISSING)
        entries = [(check_name(pair.key), self.plain(pair.value)) for pair in node.kwargs]
        return lambda run: dict_of(run, base(run), {key: value(run) for key, value in entries})

    def method(self, target: nodes.Getattr, node: nodes.Call) -> Closure:
        """A method by the type of its subject; a key of that name wins and is no method."""
        name = check_name(target.attr)
        on_text, on_map = TEXT_METHODS.get(name), MAP_METHODS.get(name)
        signature = on_text or on_map
        if signature is None:
            raise fault(UNKNOWN, f"no method {name[:40]}")
        held = self.value(target.node)
        args = self.arguments(signature, node)
        work = signature.work

        def invoke(run: Run) -> Any:
            subject = held(run)
            if type(subject) is str:
                fits = on_text is not None
            else:
                fits = on_map is not None and isinstance(subject, Mapping) and name not in subject
            if not fits:
                raise fault(TYPE, f"{operate.kind_of(subject)} has no method {name}")
            return work(run, subject, *[arg(run) for arg in args])

        return invoke


_NODES: Mapping[type[nodes.Node], Callable[[Compiler, Any], Closure]] = {
    nodes.Const: Compiler.const,
    nodes.Name: Compiler.name,
    nodes.Getattr: Compiler.attribute,
    nodes.Getitem: Compiler.item,
    nodes.List: Compiler.sequence,
    nodes.Tuple: Compiler.sequence,
    nodes.Dict: Compiler.mapping,
    nodes.Compare: Compiler.compare,
    nodes.And: Compiler.both,
    nodes.Or: Compiler.either,
    nodes.Not: Compiler.negation,
    nodes.CondExpr: Compiler.choice,
    nodes.Concat: Compiler.concat,
    nodes.Neg: Compiler.minus,
    nodes.Pos: Compiler.plus,
    nodes.Filter: Compiler.filtered,
    nodes.Test: Compiler.test,
    nodes.Call: Compiler.call,
    **dict.fromkeys(_BINARY, Compiler.binary),
}
