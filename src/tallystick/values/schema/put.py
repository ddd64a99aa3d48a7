"""The hot way in: closures that check a value and write its canonical bytes in one walk.

A closure takes a value and a list, appends encoded pieces in canonical order, and returns the
canonical value. It raises `Misfit` at the first fault and keeps no path: who wants to know where
asks `judge`. Field keys are encoded once, at compile time, in canonical order (01 section 8).
"""

# tidy: one closure for each type, side by side with take.py; half of them would tell half the rule.
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never

from tallystick.values import canon
from tallystick.values.schema import leaves
from tallystick.values.schema.freeform import NULL, Pieces, Put, put_boolean, put_json_at
from tallystick.values.schema.leaves import Leaf
from tallystick.values.schema.lens import ABSENT, Lens
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
    is_option,
    is_unit,
)

TAG_KEY: Final = canon.put_text("$tag")
VALUE_KEY: Final = canon.put_text("$value")
_TEXT_HEADS: Final = tuple(canon.head(3, n) for n in range(256))
_NATURALS: Final = tuple(canon.head(0, n) for n in range(256))
_NUMBERS_MAX: Final = 512
_head = canon.head


def compile_put(node: Type, lens: Lens, depth: int = 0) -> Put:
    """The closure of a type under the native or the sugar lens, `depth` containers down."""
    match node:
        case Scalar("json"):
            return put_json_at(depth)
        case Scalar(kind):
            return _scalar_put(kind, lens.leaves[kind])
        case Record(fields):
            return _record_put(fields, lens, depth)
        case Variant(arms):
            return _variant_put(arms, lens, depth)
        case ListOf(item):
            return _list_put(compile_put(item, lens, depth + 1), lens)
        case SetOf(item):
            return _set_put(compile_put(item, lens, depth + 1), lens)
        case MapOf(key, value):
            return _map_put(key, compile_put(value, lens, depth + 1), lens)
        case Option(inner):
            return _option_put(compile_put(inner, lens, depth))
        case Bounded(inner, bounds):
            return _bounded_put(compile_put(inner, lens, depth), bounds.check())
        case Secret(inner):
            return compile_put(inner, lens, depth)
    assert_never(node)


def _scalar_put(kind: str, leaf: Leaf) -> Put:
    if kind == "text":
        return _text_put(leaf)
    if kind == "nat":
        return _integer_put(leaf, 0, leaves.U64_MAX)
    if kind in ("int", "time", "duration"):
        return _integer_put(leaf, leaves.I64_MIN, leaves.I64_MAX)
    if kind == "bytes":
        return _bytes_put(leaf)
    if kind == "bool":
        return put_boolean
    if kind == "unit":
        return _unit_put(leaf)
    return _plain_text_put(leaf)


def _text_put(leaf: Leaf) -> Put:
    def put_text(value: Any, out: Pieces) -> Any:
        if type(value) is not str:
            value = leaf(value)
        raw = value.encode()
        n = len(raw)
        out.append(_TEXT_HEADS[n] if n < 256 else _head(3, n))
        out.append(raw)
        return value

    return put_text


def _integer_put(leaf: Leaf, low: int, high: int) -> Put:
    def put_integer(value: Any, out: Pieces) -> Any:
        if type(value) is not int:
            value = leaf(value)
        if 0 <= value <= high:
            out.append(_NATURALS[value] if value < 256 else _head(0, value))
        elif low <= value < 0:
            out.append(_head(1, -1 - value))
        else:
            raise Misfit("out_of_range")
        return value

    return put_integer


def _bytes_put(leaf: Leaf) -> Put:
    def put_bytes(value: Any, out: Pieces) -> Any:
        value = leaf(value)
        out.append(_head(2, len(value)))
        out.append(value)
        return value

    return put_bytes


def _unit_put(leaf: Leaf) -> Put:
    def put_unit(value: Any, out: Pieces) -> Any:
        leaf(value)
        out.append(NULL)

    return put_unit


def _plain_text_put(leaf: Leaf) -> Put:
    """For dec128, hash and uuid: their leaf gives ASCII text."""

    def put_plain(value: Any, out: Pieces) -> Any:
        value = leaf(value)
        out.append(_head(3, len(value)))
        out.append(value.encode())
        return value

    return put_plain


class _Texts(dict[int, bytes]):
    """A key with the head of the text behind it, by the length of that text."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __missing__(self, length: int) -> bytes:
        made = self._key + _head(3, length)
        if length < 256:
            self[length] = made
        return made


class _Numbers(dict[int, bytes]):
    """A key with the number behind it; refuses one that is out of range."""

    def __init__(self, key: bytes, low: int, high: int) -> None:
        self._key = key
        self._low = low
        self._high = high

    def __missing__(self, number: int) -> bytes:
        if not self._low <= number <= self._high:
            raise Misfit("out_of_range")
        made = self._key + canon.put_int(number)
        if len(self) < _NUMBERS_MAX:
            self[number] = made  # amounts and counts recur
        return made


def _ready(key: bytes, field: Type) -> tuple[type | None, dict[int, bytes]]:
    """The Python type that a field takes as it is, and its key joined with what follows."""
    inner = field.inner if isinstance(field, Option) else field
    kind = inner.kind if isinstance(inner, Scalar) else ""
    if kind == "text":
        return str, _Texts(key)
    if kind == "nat":
        return int, _Numbers(key, 0, leaves.U64_MAX)
    if kind == "int":
        return int, _Numbers(key, leaves.I64_MIN, leaves.I64_MAX)
    return None, {}


# tidy: the two commonest kinds of field are written in place; a call costs more than they do
def _record_put(fields: tuple[tuple[str, Type], ...], lens: Lens, depth: int) -> Put:
    parts: list[tuple[str, type | None, dict[int, bytes], bytes, Put]] = []
    for name, field in fields:
        key = canon.put_text(name)
        kind, ready = _ready(key, field)
        null = key + NULL if is_option(field) else b""
        behind = _behind_key(key, compile_put(field, lens, depth + 1))
        parts.append((name, kind, ready, null, behind))
    steps = tuple(parts)
    count = len(parts)
    opening = canon.head(5, count)
    as_record = lens.record
    whole = _completed(fields)

    def put_record(value: Any, out: Pieces) -> Any:
        if type(value) is not dict:
            value = dict(as_record(value))  # one that makes up fields is asked for none
        if len(value) != count:
            value = whole(value)
        result: dict[str, Any] = {}
        out.append(opening)
        for name, kind, ready, null, put_field in steps:
            try:
                given = value[name]
            except KeyError:
                raise Misfit("missing_field") from None
            came = type(given)
            if came is not kind:
                if given is None and null:
                    out.append(null)  # a field that may be null is so nearly always
                    result[name] = None
                else:
                    result[name] = put_field(given, out)
                continue
            if came is str:
                raw = given.encode()
                out.append(ready[len(raw)])
                out.append(raw)
            else:
                out.append(ready[given])
            result[name] = given
        return result

    return put_record


def _behind_key(key: bytes, put_value: Put) -> Put:
    """The closure of a field, its key included."""

    def put_field(value: Any, out: Pieces) -> Any:
        out.append(key)
        return put_value(value, out)

    return put_field


def _completed(fields: tuple[tuple[str, Type], ...]) -> Callable[[Any], dict[Any, Any]]:
    """How a record of another size than its type becomes whole: absent options are null."""
    optional = [name for name, field in fields if is_option(field)]

    def whole(value: Any) -> dict[Any, Any]:
        made = {**dict.fromkeys(optional), **value}
        if len(made) != len(fields):
            raise Misfit("unknown_field" if len(made) > len(fields) else "missing_field")
        return made

    return whole


def arm_opening(tag: str, arm: Type) -> bytes:
    """The bytes of a variant up to its value."""
    if is_unit(arm):
        return canon.head(5, 1) + TAG_KEY + canon.put_text(tag)
    return canon.head(5, 2) + TAG_KEY + canon.put_text(tag) + VALUE_KEY


def _variant_put(arms: tuple[tuple[str, Type], ...], lens: Lens, depth: int) -> Put:
    table: Mapping[str, tuple[bytes, Put, bool]] = {
        tag: (arm_opening(tag, arm), compile_put(arm, lens, depth + 1), is_unit(arm))
        for tag, arm in arms
    }
    arm_of = lens.arm

    def put_variant(value: Any, out: Pieces) -> Any:
        tag, inner, _ = arm_of(value)
        found = table.get(tag)
        if found is None:
            raise Misfit("unknown_tag")
        opening, put_arm, unit = found
        out.append(opening)
        if unit:
            if inner is not ABSENT:
                put_arm(inner, [])  # it may be given its null, and never writes it
            return {"$tag": tag}
        if inner is ABSENT:
            raise Misfit("bad_variant")
        return {"$tag": tag, "$value": put_arm(inner, out)}

    return put_variant


def _list_put(put_item: Put, lens: Lens) -> Put:
    as_items = lens.items

    def put_list(value: Any, out: Pieces) -> Any:
        if type(value) is not list:
            value = as_items(value)
        out.append(_head(4, len(value)))
        return [put_item(item, out) for item in value]

    return put_list


def _set_put(put_item: Put, lens: Lens) -> Put:
    as_members = lens.members

    def put_set(value: Any, out: Pieces) -> Any:
        found: dict[bytes, Any] = {}
        for item in as_members(value):
            pieces: list[bytes] = []
            member = put_item(item, pieces)
            found[b"".join(pieces)] = member
        out.append(_head(4, len(found)))
        result: list[Any] = []
        for encoded in sorted(found):
            out.append(encoded)
            result.append(found[encoded])
        return result

    return put_set


def _map_put(kind: str, put_value: Put, lens: Lens) -> Put:
    key_of = lens.keys[kind]
    encode_key = canon.put_int if kind in ("int", "nat") else canon.put_text
    pairs_of = lens.pairs

    def put_map(value: Any, out: Pieces) -> Any:
        found: dict[bytes, tuple[Any, Any, bytes]] = {}
        for given, item in pairs_of(value, kind):
            key = key_of(given)
            encoded = encode_key(key)
            if encoded in found:
                raise Misfit("duplicate_key")
            pieces: list[bytes] = []
            inner = put_value(item, pieces)
            found[encoded] = (key, inner, b"".join(pieces))
        out.append(_head(5, len(found)))
        result: dict[Any, Any] = {}
        for encoded in sorted(found):
            key, inner, piece = found[encoded]
            out.append(encoded)
            out.append(piece)
            result[key] = inner
        return result

    return put_map


def _option_put(put_inner: Put) -> Put:
    def put_option(value: Any, out: Pieces) -> Any:
        if value is None:
            out.append(NULL)
            return None
        return put_inner(value, out)

    return put_option


def _bounded_put(put_inner: Put, check: Callable[[Any], None]) -> Put:
    def put_bounded(value: Any, out: Pieces) -> Any:
        result = put_inner(value, out)
        check(result)
        return result

    return put_bounded
