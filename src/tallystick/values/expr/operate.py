"""Operators over plain values: Python's meaning where it is safe, a fault where it is not.

Integers stay within 64 bits, floats stay finite, `%` never formats text.
Maps are visited in the order of their keys, so equal values behave equally wherever they came
from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tallystick.values.expr.fault import RANGE, TYPE, ExpressionFault, fault
from tallystick.values.expr.run import DEPTH_MAX, Run, Undefined, text_size

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
_FALSE_TEXTS = frozenset(("", "false", "0", "no", "none"))


def truth(value: Any) -> bool:
    """The truth rule: a bool as is; text "", false, 0, no, none is false; else non-empty."""
    if value is True or value is False:
        return bool(value)
    kind = type(value)
    if kind is str:
        # The longest false text has five letters; blanks and case do not make it true.
        return len(value) > 64 or value.strip().lower() not in _FALSE_TEXTS
    if value is None or kind is Undefined:
        return False
    return bool(value)


def kind_of(value: Any) -> str:
    """The name of a value's type, for messages."""
    if value is None:
        return "null"
    if type(value) is Undefined:
        return f"undefined {value.path}"
    names = {bool: "bool", int: "int", float: "float", str: "text", bytes: "bytes", list: "list"}
    return names.get(type(value), "map")


def is_number(value: Any) -> bool:
    """True for int, float and, as in Python, bool."""
    return type(value) in (int, float, bool)


def is_int(value: Any) -> bool:
    """True for int and, as in Python, bool."""
    return type(value) in (int, bool)


def fit(value: Any) -> Any:
    """A number within 64 bits or finite; else a fault."""
    if type(value) is int:
        if not INT_MIN <= value <= INT_MAX:
            raise fault(RANGE, "an integer is over 64 bits")
    elif not math.isfinite(value):
        raise fault(RANGE, "a float is not finite")
    return value


def mismatch(sign: str, left: Any, right: Any) -> ExpressionFault:
    """The fault of an operator between types it does not join."""
    return fault(TYPE, f"{kind_of(left)} {sign} {kind_of(right)}")


# ---- arithmetic -----------------------------------------------------------------------------


def add(run: Run, left: Any, right: Any) -> Any:
    """Sum of numbers; texts and lists are joined."""
    if is_number(left) and is_number(right):
        return _counted(lambda: left + right)
    if type(left) is str and type(right) is str:
        run.charge(text_size(left) + text_size(right))
        return left + right
    if type(left) is list and type(right) is list:
        run.charge_deep(left)
        run.charge_deep(right)
        return left + right
    raise mismatch("+", left, right)


def sub(_run: Run, left: Any, right: Any) -> Any:
    """Difference of numbers."""
    if is_number(left) and is_number(right):
        return _counted(lambda: left - right)
    raise mismatch("-", left, right)


def mul(run: Run, left: Any, right: Any) -> Any:
    """Product of numbers; a text or list is repeated, and paid for first."""
    if is_number(left) and is_number(right):
        return _counted(lambda: left * right)
    many, times = (left, right) if type(left) in (str, list) else (right, left)
    if type(many) not in (str, list) or not is_int(times):
        raise mismatch("*", left, right)
    times = max(0, int(times))
    if type(many) is str:
        run.charge(text_size(many) * times)
    else:
        before = run.room
        run.charge_deep(many)
        run.charge((before - run.room) * times)
    return many * times


def div(_run: Run, left: Any, right: Any) -> Any:
    """True division: always a float."""
    if is_number(left) and is_number(right):
        return _counted(lambda: left / right)
    raise mismatch("/", left, right)


def floordiv(_run: Run, left: Any, right: Any) -> Any:
    """Division rounded down."""
    if is_number(left) and is_number(right):
        return _counted(lambda: left // right)
    raise mismatch("//", left, right)


def mod(_run: Run, left: Any, right: Any) -> Any:
    """Remainder with the sign of the divisor; never a format."""
    if is_number(left) and is_number(right):
        return _counted(lambda: left % right)
    raise mismatch("%", left, right)


def neg(_run: Run, value: Any) -> Any:
    """The negative."""
    if not is_number(value):
        raise fault(TYPE, f"- {kind_of(value)}")
    return fit(-value)


def pos(_run: Run, value: Any) -> Any:
    """The number itself; a bool becomes an int, as in Python."""
    if not is_number(value):
        raise fault(TYPE, f"+ {kind_of(value)}")
    return fit(+value)


def _counted(work: Any) -> Any:
    try:
        return fit(work())
    except ZeroDivisionError:
        raise fault(RANGE, "division by zero") from None
    except OverflowError:
        raise fault(RANGE, "a float is not finite") from None


# ---- comparison -----------------------------------------------------------------------------


def equal(left: Any, right: Any) -> bool:
    """Equality over whole values; undefined equals null."""
    one = None if type(left) is Undefined else left
    other = None if type(right) is Undefined else right
    return bool(one == other)


def order(sign: str, left: Any, right: Any) -> bool:
    """`<`, `<=`, `>`, `>=` between two numbers, texts, byte strings or lists.

    With an undefined side the answer is false.
    """
    if type(left) is Undefined or type(right) is Undefined:
        return False
    same = type(left) is type(right) and type(left) in (str, bytes, list)
    if not same and not (is_number(left) and is_number(right)):
        raise mismatch(sign, left, right)
    try:
        if sign == "<":
            return bool(left < right)
        if sign == "<=":
            return bool(left <= right)
        return bool(left > right) if sign == ">" else bool(left >= right)
    except TypeError:
        raise mismatch(sign, left, right) from None


def contains(run: Run, item: Any, container: Any) -> bool:
    """Membership: an item of a list, a key of a map, a part of a text."""
    kind = type(container)
    if kind is Undefined:
        return False
    if type(item) is Undefined:
        item = None
    if kind is str and type(item) is str:
        return item in container
    if kind is list:
        run.spend(1 + len(container) // 16)
        return item in container
    if isinstance(container, Mapping):
        return type(item) in (str, int) and item in container
    raise mismatch("in", item, container)


def rank(value: Any, fold: bool) -> tuple[Any, ...]:
    """A total order over all values: null, numbers, text, bytes, lists, maps."""
    kind = type(value)
    if kind is str:
        return (2, value.lower() if fold else value)
    if value is None or kind is Undefined:
        return (0,)
    if is_number(value):
        return (1, value)
    if kind is bytes:
        return (3, value)
    if kind is list:
        return (4, [rank(item, fold) for item in value])
    return (5, [(rank(key, fold), rank(value[key], fold)) for key in keys_of(value)])


def keys_of(value: Mapping[Any, Any]) -> list[Any]:
    """The keys of a map in order: numbers, then texts by code point."""
    keys = list(value)
    try:
        keys.sort()
    except TypeError:
        keys.sort(key=lambda key: (type(key) is str, key))
    return keys


# ---- text -----------------------------------------------------------------------------------


def text_of(run: Run, value: Any) -> str:
    """A value as text: null and undefined empty, maps and lists as JSON."""
    kind = type(value)
    if kind is str:
        return str(value)
    if value is None or kind is Undefined:
        return ""
    if kind is int or kind is bool or kind is float:
        return str(value)
    if kind is bytes:
        raise fault(TYPE, "bytes have no text; use b64encode")
    return json_of(run, value, None)


def json_of(run: Run, value: Any, indent: int | None) -> str:
    """A value as JSON with sorted keys; bytes are refused."""
    before = run.room
    run.charge_deep(value)
    if indent:
        # Blanks: at most `indent` times the depth for each of at most size / 8 lines.
        run.charge((before - run.room) // 8 * indent * DEPTH_MAX)
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
    run.charge(text_size(text))
    return text


def _plain(value: Any) -> Any:
    if type(value) is list:
        return [_plain(item) for item in value]
    if type(value) is bytes:
        raise fault(TYPE, "bytes have no JSON; use b64encode")
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in keys_of(value)}
    return None if type(value) is Undefined else value
