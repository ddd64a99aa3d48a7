"""Short ways for the shapes that most guards have: a field of a name, and its comparison.

Each answers and fails as the general closures would; they differ only in how many calls it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from jinja2 import nodes

from tallystick.values.expr import operate
from tallystick.values.expr.access import member
from tallystick.values.expr.fault import TYPE, fault
from tallystick.values.expr.run import MISSING, Run, Undefined

Closure = Callable[[Run], Any]

ORDERS = {"lt": "<", "lteq": "<=", "gt": ">", "gteq": ">="}
SHORT: dict[str, Callable[[int, int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


class Field(NamedTuple):
    """One key of one name of the scope, and the path as it was written."""

    name: str
    key: str
    path: str


def field_of(node: nodes.Node, has_locals: bool) -> Field | None:
    """The field that a node reads, if it is one; what may be local is looked up at length."""
    if has_locals or not isinstance(node, nodes.Getattr) or not isinstance(node.node, nodes.Name):
        return None
    return Field(node.node.name, node.attr, f"{node.node.name}.{node.attr}")


def field(read: Field) -> Closure:
    """The value of a field; undefined when there is none."""
    name, key, path = read

    def get(run: Run) -> Any:
        held = run.scope.get(name, MISSING)
        if type(held) is dict:
            found = held.get(key, MISSING)
            if found is not MISSING:
                return found
        if held is MISSING:
            return run.chain(run.miss(name), path)
        return member(run, held, key, path)

    return get


def present(read: Field) -> Closure:
    """The value of a field; a fault when there is none."""
    name, key, _ = read
    whole = field(read)

    def get(run: Run) -> Any:
        held = run.scope.get(name)
        if type(held) is dict:
            found = held.get(key, MISSING)
            if found is not MISSING:
                return found
        return defined(whole(run))

    return get


def defined(value: Any) -> Any:
    """The value, unless it is undefined."""
    if type(value) is Undefined:
        raise fault(TYPE, f"{value.path} is undefined")
    return value


def against(sign: str, left: Closure, value: Any) -> Closure | None:
    """A comparison with a literal; None for one that has no short way."""
    if sign == "eq":
        return lambda run: operate.equal(left(run), value)
    if sign == "ne":
        return lambda run: not operate.equal(left(run), value)
    symbol = ORDERS.get(sign)
    if symbol is None or type(value) is not int:
        return None
    short = SHORT[symbol]

    def compare(run: Run) -> bool:
        found = left(run)
        if type(found) is int:
            return short(found, value)
        return operate.order(symbol, found, value)

    return compare
