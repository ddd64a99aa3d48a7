"""Short ways for the shapes that most guards have: a field of a name, and its comparison.

Each answers and fails as the general closures would; they differ only in how many calls it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple

from jinja2 import nodes

from tallystick.values.expr.access import member
from tallystick.values.expr.fault import TYPE, fault
from tallystick.values.expr.parts import Closure
from tallystick.values.expr.run import MISSING, Run, Undefined

_SAME: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": eq,
    "ne": ne,
    "lt": lt,
    "lteq": le,
    "gt": gt,
    "gteq": ge,
}


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


def against(sign: str, read: Field, value: Any, whole: Closure) -> Closure:
    """The comparison of a field with a literal, as `whole` makes it.

    A number or a text is compared with one of its own type by Python itself, the rest by `whole`.
    """
    work, kind = _SAME.get(sign), type(value)
    if work is None or kind not in (int, str):
        return whole
    name, key, _ = read
    judge = work

    def compare(run: Run) -> bool:
        held = run.scope.get(name)
        if type(held) is dict:
            found = held.get(key)
            if type(found) is kind:
                return judge(found, value)
        return bool(whole(run))

    return compare
