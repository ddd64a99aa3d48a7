"""Small parts of the compiler: constants, tests by name, comparisons, paths as written."""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any

from jinja2 import nodes

from tallystick.values.expr import operate
from tallystick.values.expr.checks import CHECKS
from tallystick.values.expr.fault import UNKNOWN, fault
from tallystick.values.expr.run import Run
from tallystick.values.expr.signature import Signature

Closure = Callable[[Run], Any]

_ORDERS = {"lt": "<", "lteq": "<=", "gt": ">", "gteq": ">="}
_SHORT: dict[str, Callable[[int, int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def constant(value: Any) -> Closure:
    """A closure of a value known already."""
    return lambda _run: value


def check_of(name: str) -> Signature:
    """A test of the table; an unknown one is P203."""
    signature = CHECKS.get(name)
    if signature is None:
        raise fault(UNKNOWN, f"no test {name[:40]}")
    return signature


def named_check(node: nodes.Node) -> Signature:
    """The test that a literal text names."""
    if not isinstance(node, nodes.Const) or type(node.value) is not str:
        raise fault(UNKNOWN, "a test is named by a literal text")
    return check_of(node.value)


def comparison(sign: str) -> Callable[[Run, Any, Any], bool]:
    """One comparison of a chain."""
    if sign == "eq":
        return lambda _run, left, right: operate.equal(left, right)
    if sign == "ne":
        return lambda _run, left, right: not operate.equal(left, right)
    if sign == "in":
        return operate.contains
    if sign == "notin":
        return lambda run, left, right: not operate.contains(run, left, right)
    return _ordering(_ORDERS[sign])


def _ordering(symbol: str) -> Callable[[Run, Any, Any], bool]:
    """`<`, `<=`, `>` or `>=`; two integers, which most are, take the short way."""
    short = _SHORT[symbol]

    def compare(_run: Run, left: Any, right: Any) -> bool:
        if type(left) is int and type(right) is int:
            return short(left, right)
        return operate.order(symbol, left, right)

    return compare


def path_of(node: nodes.Node) -> str:
    """The path of a chain of names as it was written; what is computed shows as `?`."""
    parts: list[str] = []
    while True:
        if isinstance(node, nodes.Getattr):
            parts.append("." + node.attr)
            node = node.node
        elif isinstance(node, nodes.Getitem):
            known = isinstance(node.arg, nodes.Const)
            shown = str(node.arg.value)[:40] if isinstance(node.arg, nodes.Const) else "?"
            parts.append("." + shown if known else "[?]")
            node = node.node
        else:
            parts.append(node.name if isinstance(node, nodes.Name) else "?")
            return "".join(reversed(parts))
