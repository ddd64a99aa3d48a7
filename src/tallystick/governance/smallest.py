"""The smallest value of a schema: what a synthetic receipt says when nobody said anything."""

from __future__ import annotations

from typing import Any, Final, assert_never

from tallystick.errors import SchemaMismatch
from tallystick.values.schema import Admitted, Schema
from tallystick.values.schema.bounds import Bounds
from tallystick.values.schema.nodes import (
    Bounded,
    ListOf,
    MapOf,
    Option,
    Record,
    Scalar,
    Secret,
    SetOf,
    Type,
    Variant,
)

_SCALARS: Final[dict[str, Any]] = {
    "bool": False,
    "int": 0,
    "nat": 0,
    "dec128": "0",
    "text": "",
    "bytes": b"",
    "hash": "sha256:" + "0" * 64,
    "uuid": "00000000-0000-0000-0000-000000000000",
    "time": 0,
    "duration": 0,
    "json": None,
    "unit": None,
}


def smallest(schema: Schema) -> Admitted | None:
    """The smallest value of a schema; None where bounds leave no obvious one."""
    try:
        return schema.admit(_value(schema.node))
    except SchemaMismatch:
        return None


def _value(node: Type) -> Any:
    match node:
        case Scalar(kind):
            return _SCALARS.get(kind)
        case Record(fields):
            return {name: _value(field) for name, field in fields}
        case Variant(arms):
            return _arm(arms)
        case ListOf() | SetOf():
            return []
        case MapOf():
            return {}
        case Option():
            return None
        case Bounded(inner, bounds):
            return _bounded(inner, bounds)
        case Secret(inner):
            return _value(inner)
    assert_never(node)


def _arm(arms: tuple[tuple[str, Type], ...]) -> Any:
    tag, inner = next((arm for arm in arms if arm[1] == Scalar("unit")), arms[0])
    return {"$tag": tag} if inner == Scalar("unit") else {"$tag": tag, "$value": _value(inner)}


def _bounded(inner: Type, bounds: Bounds) -> Any:
    """The smallest value within bounds, as far as they say it themselves."""
    if bounds.one_of:
        return bounds.one_of[0]
    value = _value(inner)
    if type(value) is int and isinstance(bounds.least, int):
        return max(value, bounds.least)
    if bounds.min_len:
        if type(value) is str:
            return "a" * bounds.min_len
        if type(value) is bytes:
            return bytes(bounds.min_len)
        if isinstance(inner, ListOf):
            return [_value(inner.item)] * bounds.min_len
    return value
