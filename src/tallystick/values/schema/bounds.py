"""Bounds of `where`: read from the expression, checked against canonical values.

`min max` are inclusive; lengths are bytes, code points or items; `pattern` is matched whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

from tallystick.errors import BadDefinition
from tallystick.values.schema import leaves
from tallystick.values.schema.misfit import Misfit
from tallystick.values.schema.pattern import Pattern
from tallystick.values.schema.pattern_grammar import BadPattern
from tallystick.values.schema.pointer import under

_ORDERED = ("int", "nat", "dec128", "time", "duration")
_SIZED = ("bytes", "text", "items")
_TEXTUAL = ("text",)
_KINDS = {
    "min": _ORDERED,
    "max": _ORDERED,
    "min_len": _SIZED,
    "max_len": _SIZED,
    "pattern": _TEXTUAL,
    "one_of": _TEXTUAL,
}

Check = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a `where` adds to its type; `written` is the expression as given."""

    kind: str
    written: Mapping[str, Any]
    least: int | Decimal | None = None
    most: int | Decimal | None = None
    min_len: int | None = None
    max_len: int | None = None
    one_of: tuple[str, ...] | None = None
    pattern: Pattern | None = field(default=None, compare=False)

    def check(self) -> Check:
        """A closure that raises `Misfit("bound")` for a canonical value outside the bounds."""
        tests = [*self._order_tests(), *self._length_tests(), *self._text_tests()]
        if len(tests) == 1:
            return tests[0]

        def check_all(value: Any) -> None:
            for test in tests:
                test(value)

        return check_all

    def _order_tests(self) -> list[Check]:
        tests: list[Check] = []
        number: Callable[[Any], Any] | None = Decimal if self.kind == "dec128" else None
        least, most = self.least, self.most
        if least is not None:
            tests.append(_order_test(number, least, f"min {self.written['min']}", sign=1))
        if most is not None:
            tests.append(_order_test(number, most, f"max {self.written['max']}", sign=-1))
        return tests

    def _length_tests(self) -> list[Check]:
        if self.min_len is None and self.max_len is None:
            return []
        low = self.min_len or 0
        high = self.max_len
        words = f"length {low} to {'any' if high is None else high}"

        def check_length(value: Any) -> None:
            n = len(value)
            if n < low or (high is not None and n > high):
                raise Misfit("bound", words)

        return [check_length]

    def _text_tests(self) -> list[Check]:
        tests: list[Check] = []
        if self.one_of is not None:
            allowed = frozenset(self.one_of)
            words = "one of " + ", ".join(self.one_of)

            def check_one_of(value: Any) -> None:
                if value not in allowed:
                    raise Misfit("bound", words)

            tests.append(check_one_of)
        if self.pattern is not None:
            matches = self.pattern.matches
            wanted = f"text matching {self.written['pattern']}"

            def check_pattern(value: Any) -> None:
                if not matches(value):
                    raise Misfit("bound", wanted)

            tests.append(check_pattern)
        return tests


def _order_test(
    number: Callable[[Any], Any] | None, edge: int | Decimal, words: str, *, sign: int
) -> Check:
    def check_least(value: Any) -> None:
        if (value if number is None else number(value)) < edge:
            raise Misfit("bound", words)

    def check_most(value: Any) -> None:
        if (value if number is None else number(value)) > edge:
            raise Misfit("bound", words)

    return check_least if sign > 0 else check_most


def bounds_of(kind: str, written: Mapping[str, Any], path: str) -> Bounds:
    """The bounds of an expression; refuses those that its type cannot have."""
    if not written:
        _refuse("a where has at least one bound", path)
    for name in written:
        at = under(path, str(name))
        if name not in _KINDS:
            _refuse(f"there is no bound {name!r}", at)
        if kind not in _KINDS[name]:
            _refuse(f"{name} does not apply to {kind}", at)
    least, most = _edge(kind, written, "min", path), _edge(kind, written, "max", path)
    low, high = _length(written, "min_len", path), _length(written, "max_len", path)
    if (least is not None and most is not None and least > most) or (
        low is not None and high is not None and low > high
    ):
        _refuse("the lower bound is over the upper one", path)
    return Bounds(
        kind=kind,
        written=dict(written),
        least=least,
        most=most,
        min_len=low,
        max_len=high,
        one_of=_choices(written, path),
        pattern=_pattern(written, path),
    )


def _edge(kind: str, written: Mapping[str, Any], name: str, path: str) -> int | Decimal | None:
    if name not in written:
        return None
    try:
        edge = leaves.SUGAR[kind](written[name])
    except Misfit:
        _refuse(f"{name} is not a value of {kind}", under(path, name))
    return Decimal(edge) if kind == "dec128" else int(edge)


def _length(written: Mapping[str, Any], name: str, path: str) -> int | None:
    if name not in written:
        return None
    length = written[name]
    if type(length) is not int or not 0 <= length <= leaves.U64_MAX:
        _refuse(f"{name} is a natural number", under(path, name))
    return length


def _choices(written: Mapping[str, Any], path: str) -> tuple[str, ...] | None:
    if "one_of" not in written:
        return None
    at = under(path, "one_of")
    choices = written["one_of"]
    if not isinstance(choices, (list, tuple)) or not choices:
        _refuse("one_of is a list of texts", at)
    try:
        found = tuple(leaves.text(choice) for choice in choices)
    except Misfit:
        _refuse("one_of is a list of texts", at)
    if len(frozenset(found)) != len(found):
        _refuse("one_of names a text twice", at)
    return found


def _pattern(written: Mapping[str, Any], path: str) -> Pattern | None:
    if "pattern" not in written:
        return None
    at = under(path, "pattern")
    source = written["pattern"]
    if not isinstance(source, str):
        _refuse("a pattern is a text", at)
    try:
        return Pattern(source)
    except BadPattern as bad:
        _refuse(str(bad), at)


def _refuse(message: str, path: str) -> NoReturn:
    raise BadDefinition(message, code="schema.bad_bound", where={"path": path})
