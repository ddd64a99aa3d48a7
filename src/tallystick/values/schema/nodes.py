"""The tree of a type: what every compiler of this room walks over.

References are inlined and names are in canonical order, so a tree and its shape are one thing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from tallystick.values.schema.bounds import Bounds


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parts."""

    kind: str


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields, in canonical order."""

    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """Tagged arms, in canonical order."""

    arms: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array."""

    item: Type


@dataclass(frozen=True, slots=True)
class SetOf:
    """An array sorted by encoded element, without repeats."""

    item: Type


@dataclass(frozen=True, slots=True)
class MapOf:
    """Keys of one scalar kind to values."""

    key: str
    value: Type


@dataclass(frozen=True, slots=True)
class Option:
    """Null or the inner value."""

    inner: Type


@dataclass(frozen=True, slots=True)
class Bounded:
    """A `where`: the inner type, narrowed."""

    inner: Type
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Secret:
    """A position that came from a ref to `sys/TextOrSecretRef@1`: its content is never shown."""

    inner: Type


Type = Scalar | Record | Variant | ListOf | SetOf | MapOf | Option | Bounded | Secret


def bare(node: Type) -> Type:
    """The type without the mark of a secret position."""
    return node.inner if isinstance(node, Secret) else node


def is_option(node: Type) -> bool:
    """True when a field of this type may be absent."""
    return isinstance(bare(node), Option)


def is_unit(node: Type) -> bool:
    """True when an arm of this type has no `$value`."""
    return bare(node) == Scalar("unit")


def base_of(node: Type) -> Type:
    """The type without option, bounds and the mark of a secret."""
    while isinstance(node, (Secret, Option, Bounded)):
        node = node.inner
    return node


def is_flat(node: Type) -> bool:
    """True for a record that holds nothing which could be changed in place."""
    node = bare(node)
    if not isinstance(node, Record):
        return False
    kinds = [base_of(field) for _, field in node.fields]
    return all(isinstance(kind, Scalar) and kind.kind != "json" for kind in kinds)


def holds_secret(node: Type) -> bool:
    """True when a secret position is this one or inside it."""
    match node:
        case Secret():
            return True
        case Record(parts) | Variant(parts):
            return any(holds_secret(part) for _, part in parts)
        case ListOf(inner) | SetOf(inner) | Option(inner) | Bounded(inner):
            return holds_secret(inner)
        case MapOf(_, value):
            return holds_secret(value)
        case Scalar():
            return False
    assert_never(node)


def expression_of(node: Type) -> dict[str, Any]:
    """The type as JSON again, with references inlined and comments dropped."""
    match node:
        case Scalar(kind):
            return {kind: {}}
        case Record(fields):
            return {"record": {name: expression_of(field) for name, field in fields}}
        case Variant(arms):
            return {"variant": {tag: expression_of(arm) for tag, arm in arms}}
        case ListOf(item):
            return {"list": expression_of(item)}
        case SetOf(item):
            return {"set": expression_of(item)}
        case MapOf(key, value):
            return {"map": {"key": {key: {}}, "value": expression_of(value)}}
        case Option(inner):
            return {"option": expression_of(inner)}
        case Bounded(inner, bounds):
            return {"where": {"type": expression_of(inner), **bounds.written}}
        case Secret(inner):
            return expression_of(inner)
    assert_never(node)
