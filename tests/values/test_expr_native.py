"""The expression language against the engine whose syntax it keeps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.nativetypes import NativeEnvironment

from tallystick.values.expr import ExpressionFault
from tests.values.test_expr import SCOPE, value_of

Source = st.SearchStrategy[str]


def _pick(*names: str) -> Source:
    return st.sampled_from(names)


def _fill(pattern: str, *parts: Source) -> Source:
    return st.tuples(*parts).map(lambda found: pattern.format(*found))


# tidy: a grammar, one line per production.
def _typed(depth: int) -> dict[str, Source]:
    """Expressions by type, so that most of them have a value; division by zero remains."""
    number = _pick("a", "b", "f", "0", "1", "7", "2.5", "m.k", "m['sub'].deep[1]", "xs[-1]")
    text = _pick("t", "'x'", "'a b'", "rows[1].n", "words[0]")
    items = _pick("xs", "[1, 2]", "m.sub.deep", "[]")
    check = _pick("yes", "no", "a is defined", "nothing is none")
    for _ in range(depth):
        number, text, items, check = (
            st.one_of(
                _fill("({} {} {})", number, _pick("+", "-", "*", "/", "//", "%"), number),
                _fill("(-{})", number),
                _fill("({} if {} else {})", number, check, number),
                _fill("({} | {})", items, _pick("sum", "length", "count")),
                _fill("({} | {})", number, _pick("abs", "int", "float", "round", "default(1)")),
                _fill("({} | length)", text),
                number,
            ),
            st.one_of(
                _fill("({} ~ {})", text, st.one_of(text, number, check)),
                _fill("({} + {})", text, text),
                _fill("({} | {})", text, _pick("upper", "lower", "title", "trim", "reverse")),
                _fill("({} | replace({}, {}))", text, text, text),
                _fill("({} | join({}))", items, text),
                _fill("({}.{})", text, _pick("upper()", "strip()", "replace('l', '')")),
                _fill("({}[{}:])", text, _pick("0", "1", "-1")),
                _fill("({} if {} else {})", text, check, text),
            ),
            st.one_of(
                _fill("[{}, {}]", number, number),
                _fill("({} + {})", items, items),
                _fill("({} | {} | list)", items, _pick("sort", "unique", "reverse", "list")),
                _fill("({}[{}:{}])", items, _pick("0", "1", "-2"), _pick("2", "-1", "9")),
                _fill("(range({}) | list)", _pick("0", "3", "a")),
                items,
            ),
            st.one_of(
                _fill("({} {} {})", number, _pick("==", "!=", "<", "<=", ">", ">="), number),
                _fill("({} {} {})", text, _pick("==", "<", ">=", "in", "not in"), text),
                _fill("({} {} {})", number, _pick("in", "not in"), items),
                _fill("({} {} {})", check, _pick("and", "or"), check),
                _fill("(not {})", st.one_of(check, number, items)),
                _fill("({} is {})", number, _pick("number", "string", "float", "mapping", "lt 3")),
                _fill("({} < {} <= {})", number, number, number),
            ),
        )
    return {"number": number, "text": text, "items": items, "check": check}


_NATIVE = NativeEnvironment()
_ANY = st.one_of(*_typed(3).values())


def _theirs(source: str) -> Any:
    try:
        return _NATIVE.compile_expression(source, undefined_to_none=False)(**SCOPE)
    except (ArithmeticError, TypeError) as error:
        return type(error)


@pytest.mark.clause("N-10")
@settings(max_examples=2000, deadline=None)
@given(_ANY)
def test_equals_native_jinja(source: str) -> None:
    """PB-05: on 2,000 generated expressions value and type, or the failure, are native Jinja's.

    The differences of section 3 (undefined, false texts, JSON) have their own rows above.
    """
    theirs = _theirs(source)
    try:
        ours: Any = value_of(source)
    except ExpressionFault as fault:
        ours = {"P208": ArithmeticError, "P205": TypeError}[fault.code]
        assert isinstance(theirs, type)
        assert issubclass(theirs, ours)
        return
    assert ours == theirs
    assert type(ours) is type(theirs)
