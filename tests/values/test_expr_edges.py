"""The edges of the expression language: wrong arguments, odd keys, budgets at their limit."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.values.expr import ExpressionFault, compile_expression, compile_template
from tallystick.values.expr.filters_lists import LIST_FILTERS, MAP
from tallystick.values.expr.filters_text import TEXT_FILTERS
from tallystick.values.expr.methods import MAP_METHODS, RANGE, TEXT_METHODS
from tests.values.test_expr import SCOPE, code_of, value_of

VALUES: list[tuple[str, Any]] = [
    ("[[1, 2], [3, 4]] | map(attribute=1) | list", [2, 4]),
    ("[['a'], ['b']] | map(attribute='0') | list", ["a", "b"]),
    ("missing | list", []),
    ("missing | items", []),
    ("missing | join('x')", ""),
    ("words | min", "A"),
    ("words | min(case_sensitive=true)", "A"),
    ("words | max(case_sensitive=true)", "c"),
    ("{'a': 2, 'b': 1} | dictsort(by='value')", [["b", 1], ["a", 2]]),
    ("{'a': 2, 'b': 1} | dictsort(reverse=true)", [["b", 1], ["a", 2]]),
    ("'3.7' | int", 3),
    ("'1e999' | int(4)", 4),
    ("nothing | int(4)", 4),
    ("'x' | float(1.5)", 1.5),
    ("nothing | float(1.5)", 1.5),
    ("'xaax' | trim('x')", "aa"),
    ("'aaa' | replace('a', 'b', 2)", "bba"),
    ("'a b c' | split(none, 1)", ["a", "b c"]),
    ("15 | round(-1)", 20),
    ("2.9 | round(method='floor')", 2.0),
    ("{'a': [1]} | tojson(2)", '{\n  "a": [\n    1\n  ]\n}'),
    ("{'a': 1}.get(1.5, 'x')", "x"),
    ("{1: 'one'}.get(1)", "one"),
    ("{1: 'one', 'b': 2} | list", [1, "b"]),
    ("dict({'a': 1}, b=2)", {"a": 1, "b": 2}),
    ("range(1, 4)", [1, 2, 3]),
    ("range(3, 1)", []),
    ("1 in missing", False),
    ("missing in [none]", True),
    ("[raw, 'a', 1] | sort", [1, "a", b"\x00\x01"]),
    ("[1, 2] < [1, 3]", True),
    ("xs[yes]", 1),
    ("xs['a']", None),
    ("t[99]", None),
    ("(missing if no) is defined", False),
    ("[['a', 1]] | urlencode", "a=1"),
    ("'x' if missing is undefined else 'y'", "x"),
    ("1.5 is number and (true is number)", True),
    ("rows | unique(attribute='n') | map(attribute='id') | list", [1, 2]),
    ("[] | max | default(7)", 7),
    ("[] | min(attribute='id') | default(7)", 7),
    ("rows | max(attribute='id')", {"id": 3, "ok": True, "n": "x"}),
    ("[1, 2] | sum(start=10)", 13),
]


@pytest.mark.clause("N-10")
@pytest.mark.parametrize(("source", "expected"), VALUES, ids=[source for source, _ in VALUES])
def test_edge_values(source: str, expected: Any) -> None:
    """Optional arguments, odd keys and undefined subjects have the value Jinja leads to expect."""
    assert value_of(source) == expected


FAULTS = [
    ("a[1:]", "P205"),
    ("xs['a':]", "P205"),
    ("xs | map(attribute=1.5)", "P205"),
    ("'x' is odd", "P205"),
    ("'x' | default(bad=1)", "P205"),
    ("'x' | default('a', default_value='b')", "P205"),
    ("rows | selectattr(attr='ok')", "P205"),
    ("rows | selectattr", "P205"),
    ("rows | selectattr('id', 'gt')", "P205"),
    ("rows | selectattr('id', t)", "P203"),
    ("a | items", "P205"),
    ("m | dictsort(by='x')", "P205"),
    ("'1' | int(0, 99)", "P205"),
    ("'x' | trim(1)", "P205"),
    ("'x' | replace('x', 'y', 'z')", "P205"),
    ("'x' | split('')", "P205"),
    ("'x' | split('x', 'y')", "P205"),
    ("1 | round(method='up')", "P205"),
    ("1 | round(99)", "P205"),
    ("1e300 | round(15, 'ceil')", "P208"),
    ("'x' | abs", "P205"),
    ("xs | tojson(99)", "P205"),
    ("raw | tojson", "P205"),
    ("'=x' | b64decode", "P205"),
    ("'/w==' | b64decode", "P205"),
    ("'é' | b64decode", "P205"),
    ("1 | b64encode", "P205"),
    ("'\"\\\\ud800\"' | fromjson", "P205"),
    ("'123456789012345678901' | fromjson", "P208"),
    ("'1e999' | fromjson", "P208"),
    ("xs | urlencode", "P205"),
    ("'x'.strip(1)", "P205"),
    ("'x'.startswith(1)", "P205"),
    ("'x'.endswith(1)", "P205"),
    ("range('a')", "P205"),
    ("range(1, 2, 0)", "P205"),
    ("dict(1)", "P205"),
    ("'a' - 1", "P205"),
    ("'a' / 1", "P205"),
    ("'a' // 1", "P205"),
    ("'a' * 'b'", "P205"),
    ("-'a'", "P205"),
    ("+'a'", "P205"),
    ("1e308 * 1e10", "P208"),
    ("[1] < ['a']", "P205"),
    ("1 in 2", "P205"),
    ("1 in 'a'", "P205"),
    ("a | list", "P205"),
    ("m.sub.get()", "P205"),
    ("dict(1, 2)", "P202"),
]


@pytest.mark.clause("N-10")
@pytest.mark.parametrize(("source", "code"), FAULTS, ids=[source for source, _ in FAULTS])
def test_edge_faults(source: str, code: str) -> None:
    """PB-04: a wrong argument is a fault with its code, never a silent value."""
    assert code_of(source) == code


@pytest.mark.clause("N-10")
@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("{% for a, b in [1] %}{% endfor %}", "P205"),
        ("{% for a, b in [[1]] %}{% endfor %}", "P205"),
        ("{% set a, b = xs %}", "P202"),
        ("a\ud800{{ a }}", "P201"),
        ("{{ 5 }}{% for x in 5 %}{% endfor %}", "P205"),
        ("{{ raw }}!", "P205"),
    ],
)
def test_template_faults(source: str, code: str) -> None:
    """PB-04: templates fault where they cannot be rendered."""
    with pytest.raises(ExpressionFault) as caught:
        compile_template(source).evaluate(SCOPE)
    assert caught.value.code == code


@pytest.mark.clause("N-10")
def test_templates_trace_every_text() -> None:
    """A filled value reports the undefined paths of all its texts, each once, in order."""
    made = compile_template({"a": "{{ gone.x }}", "b": ["{{ gone.x }}-{{ other }}", 3, "plain"]})
    assert made.evaluate_traced({}) == (
        {"a": None, "b": ["-", 3, "plain"]},
        ("gone.x", "other"),
    )
    assert made.names == frozenset(("gone", "other"))


@pytest.mark.clause("N-10")
def test_nesting_of_a_filled_value_is_bounded() -> None:
    """A value over 64 levels is refused before it is walked further."""
    deep: Any = "{{ a }}"
    for _ in range(70):
        deep = [deep]
    with pytest.raises(ExpressionFault) as caught:
        compile_template(deep)
    assert caught.value.code == "P204"


@pytest.mark.clause("N-10")
def test_only_texts_are_expressions() -> None:
    """A source that is no text is refused, a value that is no text is itself."""
    with pytest.raises(ExpressionFault):
        compile_expression(5)
    assert compile_template(5).evaluate({}) == 5


@pytest.mark.clause("N-10")
def test_result_limit_is_exact() -> None:
    """65,536 bytes of UTF-8 are a result, one more is P204."""
    assert len(compile_expression("'é' * 32768").evaluate({})) == 32768
    for source in ("'é' * 32768 ~ 'x'", "'x' * 65537"):
        with pytest.raises(ExpressionFault) as caught:
            compile_expression(source).evaluate({})
        assert caught.value.code == "P204"


@pytest.mark.clause("N-10")
def test_foreign_objects_are_no_values() -> None:
    """A Python object that slipped into a scope is a fault, inside containers too."""
    for value in (object(), [object()], {"a": {1, 2}}, ("a",)):
        with pytest.raises(ExpressionFault) as caught:
            compile_expression("v").evaluate({"v": value})
        assert caught.value.code == "P205"


@pytest.mark.pure_only
def test_what_is_passed_over_has_the_value_of_its_function() -> None:
    """07 section 3: the tables say what the functions say, which compiled ones do not tell."""
    tables = (TEXT_FILTERS, LIST_FILTERS, TEXT_METHODS, MAP_METHODS, {"range": RANGE, "map": MAP})
    for name, row in [entry for table in tables for entry in table.items()]:
        defaults: tuple[Any, ...] = getattr(row.work, "__defaults__", None) or ()
        assert row.skipped == defaults[:-1], name
