"""The hot way back: closures that read canonical bytes of exactly one type.

A closure takes the document and a position, and returns the value and the position behind it.
Field keys are compared as the bytes they must be, so nothing is decoded twice and nothing sorted.
Whatever is not exactly canonical raises `Misfit` (or the error of an index or of UTF-8);
`canon.decode` and `judge` then say which rule was broken.
"""

# tidy: one closure for each type, side by side with put.py; half of them would tell half the rule.

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, assert_never

from tallystick.values import canon, names
from tallystick.values.schema import decimals, leaves
from tallystick.values.schema.freeform import NULL, is_json
from tallystick.values.schema.misfit import Misfit
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
    is_unit,
)
from tallystick.values.schema.put import TAG_KEY, VALUE_KEY

Take = Callable[[bytes, int], tuple[Any, int]]


def compile_take(node: Type, depth: int = 0) -> Take:
    """The reading closure of a type, `depth` containers down."""
    match node:
        case Scalar("json"):
            return _json_take(depth)
        case Scalar(kind):
            return _SCALARS[kind]
        case Record(fields):
            return _record_take(fields, depth)
        case Variant(arms):
            return _variant_take(arms, depth)
        case ListOf(item):
            return _list_take(compile_take(item, depth + 1))
        case SetOf(item):
            return _set_take(compile_take(item, depth + 1))
        case MapOf(key, value):
            return _map_take(_SCALARS[key], compile_take(value, depth + 1))
        case Option(inner):
            return _option_take(compile_take(inner, depth))
        case Bounded(inner, bounds):
            return _bounded_take(compile_take(inner, depth), bounds.check())
        case Secret(inner):
            return compile_take(inner, depth)
    assert_never(node)


def _argument(data: bytes, pos: int, info: int) -> tuple[int, int]:
    """The argument of a head behind its first byte; only the shortest form is taken."""
    if info < 24:
        return info, pos + 1
    if info == 24:
        n = data[pos + 1]
        if n < 24:
            raise Misfit("bad_format")
        return n, pos + 2
    if info == 25:
        n = data[pos + 1] << 8 | data[pos + 2]
        if n < 256:
            raise Misfit("bad_format")
        return n, pos + 3
    if info > 27:
        raise Misfit("bad_format")
    width = 1 << (info - 24)
    stop = pos + 1 + width
    n = int.from_bytes(data[pos + 1 : stop], "big")
    if stop > len(data) or n < 1 << (width * 4):
        raise Misfit("bad_format")
    return n, stop


def _text(data: bytes, pos: int) -> tuple[str, int]:
    info = data[pos] - 0x60
    if 0 <= info < 24:
        start = pos + 1
        end = start + info
    elif 24 <= info < 32:
        n, start = _argument(data, pos, info)
        end = start + n
    else:
        raise Misfit("wrong_type")
    if end > len(data):
        raise Misfit("bad_format")
    return data[start:end].decode(), end


def _octets(data: bytes, pos: int) -> tuple[bytes, int]:
    info = data[pos] - 0x40
    if not 0 <= info < 32:
        raise Misfit("wrong_type")
    n, start = _argument(data, pos, info)
    end = start + n
    if end > len(data):
        raise Misfit("bad_format")
    return data[start:end], end


def _signed(data: bytes, pos: int) -> tuple[int, int]:
    first = data[pos]
    if first < 24:
        return first, pos + 1
    if first >= 0x40:
        raise Misfit("wrong_type")
    n, end = _argument(data, pos, first & 31)
    if n > leaves.I64_MAX:
        raise Misfit("out_of_range")
    return (n if first < 0x20 else -1 - n), end


def _natural(data: bytes, pos: int) -> tuple[int, int]:
    first = data[pos]
    if first < 24:
        return first, pos + 1
    if first >= 0x20:
        raise Misfit("wrong_type")
    return _argument(data, pos, first)


def _boolean(data: bytes, pos: int) -> tuple[bool, int]:
    first = data[pos]
    if first == 0xF5:
        return True, pos + 1
    if first == 0xF4:
        return False, pos + 1
    raise Misfit("wrong_type")


def _unit(data: bytes, pos: int) -> tuple[None, int]:
    if data[pos] != 0xF6:
        raise Misfit("wrong_type")
    return None, pos + 1


def _formed(fits: Callable[[str], bool]) -> Take:
    def take_formed(data: bytes, pos: int) -> tuple[Any, int]:
        value, end = _text(data, pos)
        if not fits(value):
            raise Misfit("bad_format")
        return value, end

    return take_formed


_SCALARS: Mapping[str, Take] = {
    "bool": _boolean,
    "int": _signed,
    "nat": _natural,
    "dec128": _formed(decimals.is_reduced),
    "bytes": _octets,
    "text": _text,
    "time": _signed,
    "duration": _signed,
    "hash": _formed(names.is_hash),
    "uuid": _formed(names.is_uuid),
    "unit": _unit,
}


_WHOLE = frozenset({"int", "nat", "time", "duration"})
_NULL_NEXT = -25  # behind the small numbers


def _shorts(field: Type) -> tuple[int | None, ...]:
    """What the first byte of a field says at once, for each of the 256; None when it does not."""
    optional = isinstance(field, Option)
    inner = field.inner if isinstance(field, Option) else field
    if not isinstance(inner, Scalar):
        return _told("", optional=False)
    kind = "int" if inner.kind in _WHOLE else "text" if inner.kind == "text" else ""
    return _told(kind, optional=optional)


@cache
def _told(kind: str, *, optional: bool) -> tuple[int | None, ...]:
    """The length of a short text, or a small number n as -1 - n, or null where it may be that."""
    told: list[int | None] = [None] * 256
    for n in range(24):
        if kind == "text":
            told[0x60 + n] = n
        elif kind == "int":
            told[n] = -1 - n
    if optional:
        told[NULL[0]] = _NULL_NEXT
    return tuple(told)


# tidy: the two commonest kinds of field are read in place; a call costs more than they do
def _record_take(fields: tuple[tuple[str, Type], ...], depth: int) -> Take:
    # The opening of the map and its first key stand together; so every piece is one comparison.
    opening = canon.head(5, len(fields))
    parts: list[tuple[str, bytes, int, Take, tuple[int | None, ...]]] = []
    for name, field in fields:
        key = opening + canon.put_text(name)
        opening = b""
        parts.append((name, key, len(key), compile_take(field, depth + 1), _shorts(field)))
    steps = tuple(parts)
    if not steps:
        return _empty_record

    def take_record(data: bytes, pos: int) -> tuple[Any, int]:
        result: dict[str, Any] = {}
        end = len(data)
        starts = data.startswith
        for name, key, width, take_field, shorts in steps:
            if not starts(key, pos):
                raise Misfit("missing_field")
            pos += width
            short = shorts[data[pos]]
            if short is None:
                result[name], pos = take_field(data, pos)
            elif short >= 0:
                begin = pos + 1
                pos = begin + short
                if pos > end:
                    raise Misfit("bad_format")
                result[name] = data[begin:pos].decode()
            elif short == _NULL_NEXT:
                result[name] = None
                pos += 1
            else:
                result[name] = -1 - short
                pos += 1
        return result, pos

    return take_record


def _empty_record(data: bytes, pos: int) -> tuple[Any, int]:
    if data[pos] != 0xA0:
        raise Misfit("wrong_type")
    return {}, pos + 1


def _variant_take(arms: tuple[tuple[str, Type], ...], depth: int) -> Take:
    table = {tag: (is_unit(arm), compile_take(arm, depth + 1)) for tag, arm in arms}
    bare = canon.head(5, 1) + TAG_KEY
    full = canon.head(5, 2) + TAG_KEY
    width = len(bare)
    value_width = len(VALUE_KEY)

    def take_variant(data: bytes, pos: int) -> tuple[Any, int]:
        unit = data.startswith(bare, pos)
        if not unit and not data.startswith(full, pos):
            raise Misfit("bad_variant")
        tag, at = _text(data, pos + width)
        found = table.get(tag)
        if found is None or found[0] is not unit:
            raise Misfit("unknown_tag")
        if unit:
            return {"$tag": tag}, at
        if not data.startswith(VALUE_KEY, at):
            raise Misfit("bad_variant")
        value, at = found[1](data, at + value_width)
        return {"$tag": tag, "$value": value}, at

    return take_variant


def _count(data: bytes, pos: int, major: int) -> tuple[int, int]:
    info = data[pos] - (major << 5)
    if not 0 <= info < 32:
        raise Misfit("wrong_type")
    n, at = _argument(data, pos, info)
    # A length is compared with the bytes that remain before anything is allocated.
    if n > len(data) - at:
        raise Misfit("bad_format")
    return n, at


def _list_take(take_item: Take) -> Take:
    def take_list(data: bytes, pos: int) -> tuple[Any, int]:
        n, pos = _count(data, pos, 4)
        result: list[Any] = []
        for _ in range(n):
            item, pos = take_item(data, pos)
            result.append(item)
        return result, pos

    return take_list


def _set_take(take_item: Take) -> Take:
    def take_set(data: bytes, pos: int) -> tuple[Any, int]:
        n, pos = _count(data, pos, 4)
        result: list[Any] = []
        before = b""
        for _ in range(n):
            start = pos
            item, pos = take_item(data, pos)
            encoded = data[start:pos]
            if encoded <= before:
                raise Misfit("bad_format")
            before = encoded
            result.append(item)
        return result, pos

    return take_set


def _map_take(take_key: Take, take_value: Take) -> Take:
    def take_map(data: bytes, pos: int) -> tuple[Any, int]:
        n, pos = _count(data, pos, 5)
        result: dict[Any, Any] = {}
        before = b""
        for _ in range(n):
            start = pos
            key, pos = take_key(data, pos)
            encoded = data[start:pos]
            if encoded <= before:
                raise Misfit("bad_format")
            before = encoded
            result[key], pos = take_value(data, pos)
        return result, pos

    return take_map


def _option_take(take_inner: Take) -> Take:
    null = NULL[0]

    def take_option(data: bytes, pos: int) -> tuple[Any, int]:
        if data[pos] == null:
            return None, pos + 1
        return take_inner(data, pos)

    return take_option


def _bounded_take(take_inner: Take, check: Callable[[Any], None]) -> Take:
    def take_bounded(data: bytes, pos: int) -> tuple[Any, int]:
        value, end = take_inner(data, pos)
        check(value)
        return value, end

    return take_bounded


def _json_take(depth: int) -> Take:
    def take_json(data: bytes, pos: int) -> tuple[Any, int]:
        reader = canon.Reader(data, pos)
        value = reader.item(depth)
        if not is_json(value):
            raise Misfit("wrong_type")
        return value, reader.pos

    return take_json
