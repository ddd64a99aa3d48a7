"""JSON text, read exactly: no repeated keys, no depth without end, no digit lost.

Integers keep every digit; other numbers become the nearest float, which `dec128` refuses anyway.
Nesting is measured before the parser runs, so that no text can exhaust its stack.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from tallystick.errors import SchemaMismatch
from tallystick.values import canon
from tallystick.values.schema.got import describe
from tallystick.values.schema.pointer import under

# Possessive: a string is one token, closed or not, and is never looked at twice.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_DIGITS_MAX: Final = 640  # the most that int() reads under every setting of the interpreter


class _Repeating(dict[str, Any]):
    """An object in which a key stood twice; the path is found when the whole is read."""

    __slots__ = ("key",)
    key: str


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; refuses repeated keys, depth over 64, NaN and other text.

    The refusal is SchemaMismatch with a `value.*` code and one finding.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as odd:
            _refuse("bad_format", "", "UTF-8", f"byte {odd.start} is not")
    _measure(text)
    try:
        value = _READ(text)
    except (_RepeatedError, json.JSONDecodeError):
        value = _told(text)  # read again, slowly, to say where
    return value


def _told(text: str) -> NoReturn:
    """Refuse a text that cannot be read, or in which a key stands twice, with the place."""
    repeating: list[_Repeating] = []

    def gather(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        marked = _Repeating(found)
        marked.key = _repeated(pairs)
        repeating.append(marked)
        return marked

    try:
        value = json.loads(
            text, object_pairs_hook=gather, parse_constant=_constant, parse_int=_integer
        )
    except json.JSONDecodeError as bad:
        _refuse("bad_format", "", "JSON", f"{bad.msg} at {bad.pos}")
    path, key = _place(value, "") or ("", repeating[0].key)
    _refuse("duplicate_key", under(path, key), "keys that differ", describe(key))


def _measure(text: str) -> None:
    if text.count("{") + text.count("[") <= canon.DEPTH_MAX:
        return  # what opens so seldom cannot be deep
    depth = 0
    for found in _TOKEN.finditer(text):
        mark = found.group()[0]
        if mark in "[{":
            depth += 1
            if depth > canon.DEPTH_MAX:
                _refuse("too_deep", "", f"nesting of at most {canon.DEPTH_MAX}", "more")
        elif mark in "]}":
            depth -= 1


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: dict[str, None] = {}
    for key, _ in pairs:
        if key in seen:
            return key
        seen[key] = None
    raise AssertionError(pairs)


def _place(value: Any, path: str) -> tuple[str, str] | None:
    if isinstance(value, _Repeating):
        return path, value.key
    if isinstance(value, dict):
        parts = [(under(path, key), item) for key, item in value.items()]
    elif isinstance(value, list):
        parts = [(under(path, i), item) for i, item in enumerate(value)]
    else:
        return None
    for at, item in parts:
        found = _place(item, at)
        if found is not None:
            return found
    return None


def _constant(word: str) -> NoReturn:
    _refuse("not_finite", "", "finite number", word)


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        _refuse("out_of_range", "", "integer", f"{len(digits)} digits")
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedError
    return found


class _RepeatedError(ValueError):
    """A key stands twice somewhere."""


# One decoder for all texts: making one costs more than reading a small text.
_READ: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_constant, parse_int=_integer
).decode


def _refuse(code: str, path: str, expected: str, got: str) -> NoReturn:
    finding = {"code": f"value.{code}", "path": path, "expected": expected, "got": got}
    raise SchemaMismatch(
        f"not a JSON text we read: expected {expected}", code=f"value.{code}", errors=[finding]
    )
