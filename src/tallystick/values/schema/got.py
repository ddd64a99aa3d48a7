"""What an error says it found: short, and without the parts of larger values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, assert_never
from uuid import UUID

from tallystick.values.schema.lens import ABSENT
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

GOT_MAX: Final = 80
_BITS_MAX: Final = 256


def describe(value: Any) -> str:
    """A value in at most 80 characters."""
    text = _words(value)
    return text if len(text) <= GOT_MAX else text[: GOT_MAX - 3] + "..."


def _words(value: Any) -> str:
    if value is ABSENT:
        return "absent"
    if value is None or value is True or value is False:
        return json.dumps(value)
    if isinstance(value, str):
        return json.dumps(value[:GOT_MAX])
    if isinstance(value, int):
        # The digits of a huge integer cost more than they tell.
        bits = value.bit_length()
        return str(int.__pos__(value)) if bits <= _BITS_MAX else f"integer of {bits} bits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (bytes, memoryview)):
        return f"{len(value)} bytes"
    if isinstance(value, Mapping):
        return f"object of {len(value)}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"{'array' if isinstance(value, list) else type(value).__name__} of {len(value)}"
    return type(value).__name__


def token_of(key: Any) -> str:
    """A key as a step of a path: text that every writer of JSON can say."""
    if isinstance(key, str):
        return str.__str__(key).encode("utf-8", "backslashreplace").decode("utf-8")
    return str(key) if isinstance(key, UUID) else describe(key)


def type_name(node: Type) -> str:
    """The word of a type, as its expression has it."""
    match node:
        case Scalar(kind):
            return kind
        case Record():
            return "record"
        case Variant():
            return "variant"
        case ListOf():
            return "list"
        case SetOf():
            return "set"
        case MapOf():
            return "map"
        case Option(inner) | Bounded(inner) | Secret(inner):
            return type_name(inner)
    assert_never(node)
