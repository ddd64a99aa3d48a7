"""Secrets that a value refers to, found by the types of its positions (06 section 5).

A reference stands where the schema says so; a map of the same look elsewhere is data.
Only names are found here: what they stand for is known outside the pure rooms alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, assert_never

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
    holds_secret,
)
from tallystick.values.schema.pointer import under


class Reference(NamedTuple):
    """A secret that params ask for: where, and which."""

    path: str
    name: str


def references(node: Type, value: Any) -> tuple[Reference, ...]:
    """Every secret that a value refers to, by the type of its position, in order."""
    return tuple(_found(node, value, ""))


def _found(node: Type, value: Any, at: str) -> Iterator[Reference]:
    if value is None or isinstance(node, Scalar) or not holds_secret(node):
        return
    match node:
        case Secret():
            if value["$tag"] == "secret":
                held = value["$value"]
                yield Reference(at, f"{held['alias']}@{held['version']}")
        case Record(fields):
            for name, part in fields:
                yield from _found(part, value.get(name), under(at, name))
        case Variant(arms):
            yield from _found(dict(arms)[value["$tag"]], value.get("$value"), under(at, "$value"))
        case ListOf(item) | SetOf(item):
            for index, part in enumerate(value):
                yield from _found(item, part, under(at, index))
        case MapOf(_, inner):
            for key, part in value.items():
                yield from _found(inner, part, under(at, str(key)))
        case Option(inner) | Bounded(inner):
            yield from _found(inner, value, at)
        case _:
            assert_never(node)
