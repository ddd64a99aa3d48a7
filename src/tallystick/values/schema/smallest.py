"""The smallest value of a type: what something is tried with when nobody says a value.

Plain values, as schemas read them; equal types give equal values.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

from tallystick.errors import BadDefinition
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
    is_unit,
)
from tallystick.values.schema.pattern_grammar import Automaton, automaton_of

_SCALARS: Final[dict[str, Any]] = {
    "bool": False,
    "int": 0,
    "nat": 0,
    "dec128": "0",
    "bytes": b"",
    "text": "",
    "time": 0,
    "duration": 0,
    "hash": "sha256:" + "0" * 64,
    "uuid": "00000000-0000-4000-8000-000000000000",
    "unit": None,
    "json": None,
}
_KEYS: Final = {"int": int, "nat": int, "text": str, "uuid": None, "hash": None}
_FRIENDLY: Final = "a0A -_"  # characters to prefer, so that a counter-example reads well


def smallest(node: Type) -> Any:
    """A plain value that fits; refuses bounds that nothing fits with `check.no_sample`."""
    match node:
        case Scalar(kind):
            return _SCALARS[kind]
        case Record(fields):
            return {name: smallest(field) for name, field in fields}
        case Variant(arms):
            return _arm(*min(arms, key=lambda arm: (not is_unit(arm[1]), arm[0])))
        case ListOf() | SetOf():
            return []
        case MapOf():
            return {}
        case Option():
            return None
        case Secret(inner):
            return smallest(inner)
        case Bounded(inner, bounds):
            return _bounded(inner, bounds)
    assert_never(node)


def _arm(tag: str, node: Type) -> Any:
    return {"$tag": tag} if is_unit(node) else {"$tag": tag, "$value": smallest(node)}


def _bounded(inner: Type, bounds: Bounds) -> Any:
    if bounds.one_of is not None:
        return min(bounds.one_of, key=lambda text: (len(text), text))
    if bounds.pattern is not None:
        return _word(automaton_of(str(bounds.written["pattern"])), bounds.min_len or 0)
    if bounds.least is not None or bounds.most is not None:
        return _number(bounds)
    return _sized(inner, bounds.min_len or 0)


def _number(bounds: Bounds) -> Any:
    found: Any = 0
    if bounds.least is not None and found < bounds.least:
        found = bounds.least
    if bounds.most is not None and found > bounds.most:
        found = bounds.most
    return str(found) if bounds.kind == "dec128" else found


def _sized(inner: Type, size: int) -> Any:
    match inner:
        case Scalar("text"):
            return "a" * size
        case Scalar("bytes"):
            return bytes(size)
        case ListOf(item):
            return [smallest(item)] * size
        case SetOf(Scalar(kind)) if _KEYS.get(kind) is not None or size < 2:
            return [_nth(kind, number) for number in range(size)]
        case MapOf(kind, value) if _KEYS.get(kind) is not None or size < 2:
            return {_nth(kind, number): smallest(value) for number in range(size)}
    message = f"no small value has {size} different members"
    hint = "give samples: app.check(workflow, events=[...], values={...})"
    raise BadDefinition(message, code="check.no_sample", hint=hint)


def _nth(kind: str, number: int) -> Any:
    """The smallest values of a kind, all different."""
    if _KEYS[kind] is str:
        return "a" * number
    return number if _KEYS[kind] is int else _SCALARS[kind]


def _word(made: Automaton, size: int) -> str:
    """The shortest text of at least that size that a pattern accepts, by breadth."""
    if made.whole.nullable and not size:
        return ""
    paths: list[tuple[tuple[int, ...], int]] = [((i,), i) for i in _bits(made.whole.first)]
    seen: dict[tuple[int, int], None] = {}
    while paths:
        longer: list[tuple[tuple[int, ...], int]] = []
        for path, at in paths:
            if len(path) >= size and made.whole.last >> at & 1:
                return "".join(_letter(made.items[i]) for i in path)
            state = (min(len(path), size), at)
            if state not in seen:
                seen[state] = None
                longer += [((*path, i), i) for i in _bits(made.follow[at])]
        paths = longer
    message = "no text fits the pattern and the length"
    raise BadDefinition(message, code="check.no_sample", hint="give samples with app.check")


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _letter(ranges: Any) -> str:
    for letter in _FRIENDLY:
        if any(low <= ord(letter) < high for low, high in ranges):
            return letter
    return chr(ranges[0][0])
