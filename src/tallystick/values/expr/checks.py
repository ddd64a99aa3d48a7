"""The tests of the language: `value is NAME`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.values.expr.fault import TYPE, fault
from tallystick.values.expr.operate import contains, equal, is_int, is_number, kind_of, order
from tallystick.values.expr.run import Run, Undefined
from tallystick.values.expr.signature import Signature, table


def _parity(value: Any) -> int:
    if not is_int(value):
        raise fault(TYPE, f"{kind_of(value)} is neither odd nor even")
    return int(value) % 2


def _sequence(_run: Run, value: Any) -> bool:
    return type(value) in (list, str, bytes) or isinstance(value, Mapping)


def _in(run: Run, value: Any, container: Any) -> bool:
    return contains(run, value, container)


_PLAIN = table(
    defined=(lambda _run, value: type(value) is not Undefined, "", 0, True),
    undefined=(lambda _run, value: type(value) is Undefined, "", 0, True),
    none=(lambda _run, value: value is None,),
    true=(lambda _run, value: value is True,),
    false=(lambda _run, value: value is False,),
    boolean=(lambda _run, value: type(value) is bool,),
    integer=(lambda _run, value: type(value) is int,),
    float=(lambda _run, value: type(value) is float,),
    number=(lambda _run, value: is_number(value),),
    string=(lambda _run, value: type(value) is str,),
    mapping=(lambda _run, value: isinstance(value, Mapping),),
    sequence=(_sequence,),
    eq=(lambda _run, value, other: equal(value, other), "other", 1),
    ne=(lambda _run, value, other: not equal(value, other), "other", 1),
    lt=(lambda _run, value, other: order("<", value, other), "other", 1),
    le=(lambda _run, value, other: order("<=", value, other), "other", 1),
    gt=(lambda _run, value, other: order(">", value, other), "other", 1),
    ge=(lambda _run, value, other: order(">=", value, other), "other", 1),
    odd=(lambda _run, value: _parity(value) == 1,),
    even=(lambda _run, value: _parity(value) == 0,),
)

# `in` is a word of Python, so it cannot stand as a keyword in the table above.
CHECKS: Mapping[str, Signature] = {**_PLAIN, "in": Signature(_in, ("seq",), 1)}
