"""Canonical values as JSON again, in either lens; and the hashes inside them.

`admit(render(v, lens), lens)` gives v and the same bytes.
The closures trust their input: it was admitted.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, assert_never

from tallystick.values.schema import leaves, times
from tallystick.values.schema.got import type_name
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

Render = Callable[[Any], Any]
Find = Callable[[Any, list[str]], None]


def compile_render(node: Type, lens: str) -> Render:
    """The closure that writes a canonical value in a lens."""
    if lens == "native":
        return _same
    return _sugar(node) if lens == "sugar" else _tagged(node)


def _same(value: Any) -> Any:
    return value


def _number(value: int) -> int | str:
    """A JSON number, or text where a reader of JSON might round it."""
    return value if -leaves.EXACT_MAX <= value <= leaves.EXACT_MAX else str(value)


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


_SUGAR_LEAVES: dict[str, Render] = {
    "int": _number,
    "nat": _number,
    "bytes": _base64,
    "time": times.text_of_time,
    "duration": times.text_of_span,
}
_TAGGED_LEAVES: dict[str, tuple[str, Render]] = {
    "int": ("int", _number),
    "nat": ("nat", _number),
    "bytes": ("bytes_b64", _base64),
    "time": ("time_ns", _number),
    "duration": ("duration_ns", _number),
    "unit": ("null", lambda _: {}),
}


def _sugar(node: Type) -> Render:
    match node:
        case Scalar(kind):
            return _SUGAR_LEAVES.get(kind, _same)
        case Record(fields):
            parts = tuple((name, _sugar(field)) for name, field in fields)
            return lambda value: {name: part(value[name]) for name, part in parts}
        case Variant(arms):
            return _sugar_variant({tag: _sugar(arm) for tag, arm in arms})
        case ListOf(inner) | SetOf(inner):
            item = _sugar(inner)
            return lambda value: [item(part) for part in value]
        case MapOf(_, inner):
            item = _sugar(inner)
            return lambda value: {str(key): item(part) for key, part in value.items()}
        case Option(inner):
            item = _sugar(inner)
            return lambda value: None if value is None else item(value)
        case Bounded(inner) | Secret(inner):
            return _sugar(inner)
    assert_never(node)


def _sugar_variant(arms: dict[str, Render]) -> Render:
    def render_variant(value: Any) -> Any:
        tag = value["$tag"]
        if "$value" not in value:
            return {"$tag": tag}
        return {"$tag": tag, "$value": arms[tag](value["$value"])}

    return render_variant


def _tagged(node: Type) -> Render:
    match node:
        case Scalar(kind):
            tag, leaf = _TAGGED_LEAVES.get(kind, (kind, _same))
            return lambda value: {tag: leaf(value)}
        case Record(fields):
            parts = tuple((name, _tagged(field)) for name, field in fields)
            return lambda value: {"record": {name: part(value[name]) for name, part in parts}}
        case Variant(arms):
            return _tagged_variant({tag: _tagged(arm) for tag, arm in arms})
        case ListOf(inner) | SetOf(inner):
            item = _tagged(inner)
            word = type_name(node)
            return lambda value: {word: [item(part) for part in value]}
        case MapOf(key, inner):
            return _tagged_map(_tagged(Scalar(key)), _tagged(inner))
        case Option(inner):
            item = _tagged(inner)
            return lambda value: {"null": {}} if value is None else item(value)
        case Bounded(inner) | Secret(inner):
            return _tagged(inner)
    assert_never(node)


def _tagged_variant(arms: dict[str, Render]) -> Render:
    def render_variant(value: Any) -> Any:
        tag = value["$tag"]
        if "$value" not in value:
            return {"variant": {"tag": tag}}
        return {"variant": {"tag": tag, "value": arms[tag](value["$value"])}}

    return render_variant


def _tagged_map(key: Render, item: Render) -> Render:
    def render_map(value: Any) -> Any:
        entries = [{"key": key(name), "value": item(part)} for name, part in value.items()]
        return {"map": entries}

    return render_map


def compile_find(node: Type) -> Find:
    """The closure that gathers the typed hashes of a canonical value, in canonical order."""
    return _finder(node) or _nothing


def _nothing(_value: Any, _found: list[str]) -> None:
    """A type without hashes has none to give."""


def _one(value: Any, found: list[str]) -> None:
    found.append(value)


def _finder(node: Type) -> Find | None:
    match node:
        case Scalar(kind):
            return _one if kind == "hash" else None
        case Record(fields):
            return _record_find(fields)
        case Variant(arms):
            return _variant_find(arms)
        case ListOf(inner) | SetOf(inner):
            return _list_find(_finder(inner))
        case MapOf(key, value):
            return _map_find(_one if key == "hash" else None, _finder(value))
        case Option(inner):
            return _option_find(_finder(inner))
        case Bounded(inner) | Secret(inner):
            return _finder(inner)
    assert_never(node)


def _record_find(fields: tuple[tuple[str, Type], ...]) -> Find | None:
    parts = [(name, find) for name, field in fields if (find := _finder(field)) is not None]

    def find_record(value: Any, found: list[str]) -> None:
        for name, find in parts:
            find(value[name], found)

    return find_record if parts else None


def _variant_find(arms: tuple[tuple[str, Type], ...]) -> Find | None:
    parts = {tag: find for tag, arm in arms if (find := _finder(arm)) is not None}

    def find_variant(value: Any, found: list[str]) -> None:
        find = parts.get(value["$tag"])
        if find is not None:
            find(value["$value"], found)

    return find_variant if parts else None


def _list_find(find: Find | None) -> Find | None:
    if find is None:
        return None

    def find_list(value: Any, found: list[str]) -> None:
        for item in value:
            find(item, found)

    return find_list


def _map_find(find_key: Find | None, find_value: Find | None) -> Find | None:
    if find_key is None and find_value is None:
        return None

    def find_map(value: Any, found: list[str]) -> None:
        for key, item in value.items():
            if find_key is not None:
                find_key(key, found)
            if find_value is not None:
                find_value(item, found)

    return find_map


def _option_find(find: Find | None) -> Find | None:
    if find is None:
        return None

    def find_option(value: Any, found: list[str]) -> None:
        if value is not None:
            find(value, found)

    return find_option
