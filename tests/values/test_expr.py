"""The expression language: what each construct means, and where it differs from Jinja."""

# tidy: tables of one row per construct.

from __future__ import annotations

from typing import Any

import pytest

from tallystick.values.expr import (
    ExpressionFault,
    compile_expression,
    compile_template,
    truth,
)

SCOPE: dict[str, Any] = {
    "a": 7,
    "b": -3,
    "f": 2.5,
    "t": "Hello World",
    "empty": "",
    "yes": True,
    "no": False,
    "nothing": None,
    "xs": [3, 1, 2],
    "words": ["b", "A", "c"],
    "m": {"k": 1, "items": "mine", "sub": {"deep": [10, 20]}},
    "rows": [
        {"id": 1, "ok": True, "n": "x"},
        {"id": 2, "ok": False, "n": "y"},
        {"id": 3, "ok": True, "n": "x"},
    ],
    "raw": b"\x00\x01",
}


def value_of(source: str, *, strict: bool = False) -> Any:
    return compile_expression(source, strict=strict).evaluate(SCOPE)


def code_of(source: str, *, strict: bool = False) -> str:
    with pytest.raises(ExpressionFault) as caught:
        value_of(source, strict=strict)
    return caught.value.code


VALUES = [
    ("a + 1", 8),
    ("a - b * 2", 13),
    ("a / 2", 3.5),
    ("a // 2", 3),
    ("b % 5", 2),
    ("-a", -7),
    ("+f", 2.5),
    ("-9223372036854775808", -(2**63)),
    ("'x' * 3", "xxx"),
    ("[1] * 2", [1, 1]),
    ("[1] + [2]", [1, 2]),
    ("(1, 2)", [1, 2]),
    ("{'a': a}", {"a": 7}),
    ("a ~ '-' ~ yes ~ nothing", "7-True"),
    ("a > 3 and a < 10", True),
    ("1 < a <= 7", True),
    ("a in xs or 3 in xs", True),
    ("'ell' in t", True),
    ("'k' in m", True),
    ("9 not in xs", True),
    ("not empty", True),
    ("'x' if no else 'y'", "y"),
    ("m.k", 1),
    ("m['sub'].deep[1]", 20),
    ("m.items", "mine"),
    ("xs[-1]", 2),
    ("xs[1:]", [1, 2]),
    ("t[:5]", "Hello"),
    ("t[::-1]", "dlroW olleH"),
    ("t.upper()", "HELLO WORLD"),
    ("t.split(' ')[0].lower()", "hello"),
    ("' x '.strip()", "x"),
    ("t.replace('World', 'you')", "Hello you"),
    ("t.startswith('He') and t.endswith('ld')", True),
    ("', '.join(words)", "b, A, c"),
    ("m.sub.get('none', 5)", 5),
    ("m.sub.keys()", ["deep"]),
    ("{'b': 1, 'a': 2}.items()", [["a", 2], ["b", 1]]),
    ("{'b': 1, 'a': 2}.values()", [2, 1]),
    ("range(3)", [0, 1, 2]),
    ("range(5, 0, -2)", [5, 3, 1]),
    ("dict(x=1, y=a)", {"x": 1, "y": 7}),
    ("missing | default('d')", "d"),
    ("empty | d('e', true)", "e"),
    ("'12' | int", 12),
    ("'x' | int(5)", 5),
    ("'ff' | int(base=16)", 255),
    ("'2.5' | float", 2.5),
    ("a | string", "7"),
    ("'no' | bool", False),
    ("t | lower", "hello world"),
    ("'one-two x' | title", "One-Two X"),
    ("'  x ' | trim", "x"),
    ("xs | length", 3),
    ("xs | first", 3),
    ("xs | last", 2),
    ("xs | join('-')", "3-1-2"),
    ("rows | join(',', attribute='n')", "x,y,x"),
    ("'a.b' | replace('.', '/')", "a/b"),
    ("'a,b' | split(',')", ["a", "b"]),
    ("2.567 | round(2)", 2.57),
    ("2.1 | round(method='ceil')", 3.0),
    ("b | abs", 3),
    ("xs | min", 1),
    ("xs | max", 3),
    ("xs | sum", 6),
    ("rows | sum(attribute='id')", 6),
    ("xs | sort", [1, 2, 3]),
    ("xs | sort(reverse=true)", [3, 2, 1]),
    ("words | sort", ["A", "b", "c"]),
    ("words | sort(case_sensitive=true)", ["A", "b", "c"]),
    ("rows | sort(attribute='n') | map(attribute='id') | list", [1, 3, 2]),
    ("[1, 'a', null_, none, 2.5, [1], true] | sort", [None, None, 1, True, 2.5, "a", [1]]),
    ("[1, 1, 2, 'x', 'X'] | unique", [1, 2, "x"]),
    ("xs | reverse", [2, 1, 3]),
    ("'abc' | reverse", "cba"),
    ("'abc' | list", ["a", "b", "c"]),
    ("rows | selectattr('ok') | map(attribute='id') | list", [1, 3]),
    ("rows | rejectattr('ok') | map(attribute='id') | list", [2]),
    ("rows | selectattr('id', 'gt', 1) | map(attribute='id') | list", [2, 3]),
    ("rows | map(attribute='zz', default=0) | list", [0, 0, 0]),
    ("{'b': 1, 'A': 2} | dictsort", [["A", 2], ["b", 1]]),
    ("{'b': 1} | items", [["b", 1]]),
    ("{'b': [1, none], 'a': 'x'} | tojson", '{"a": "x", "b": [1, null]}'),
    ("'{\"a\": [1, 2.5]}' | fromjson", {"a": [1, 2.5]}),
    ("'hi' | b64encode", "aGk="),
    ("'aGk=' | b64decode", "hi"),
    ("raw | b64encode", "AAE="),
    ("'a b/c&d' | urlencode", "a%20b/c%26d"),
    ("{'q': 'a b', 'n': 1} | urlencode", "n=1&q=a+b"),
    ("'x' | sha256", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
    ("missing is defined", False),
    ("a is defined", True),
    ("missing is undefined", True),
    ("nothing is none", True),
    ("yes is true and no is false", True),
    ("yes is boolean and a is integer and f is float", True),
    ("f is number and t is string and m is mapping and xs is sequence", True),
    ("2 is in xs", True),
    ("a is odd and 2 is even", True),
    ("a is gt 3 and a is le 7 and a is ne 8 and a is eq 7", True),
    ("missing == none", True),
    ("missing.deep.er == none", True),
    ("missing < 3", False),
    ("missing", None),
    ("m.__ref__", None),
]


@pytest.mark.clause("N-10")
@pytest.mark.parametrize(("source", "expected"), VALUES, ids=[source for source, _ in VALUES])
def test_each_construct_has_its_meaning(source: str, expected: Any) -> None:
    """Every node, filter, test, function and method of 07 section 3 gives its value and type."""
    found = value_of("{{ " + source + " }}")
    assert found == expected
    assert type(found) is type(expected)
    assert value_of(source) == expected  # bare, as a guard may be written


FAULTS = [
    ("{{ a + }}", "P201"),
    ("{{ a", "P201"),
    ("x {{ a }}", "P201"),
    ("{{ a }}{{ b }}", "P201"),
    ("{% set x = 1 %}", "P201"),
    ("{{ '\\ud800' }}", "P201"),
    ("{{ 2 ** 3 }}", "P202"),
    ("{{ t.__class__ }}", "P202"),
    ("{{ t['__class__'] }}", "P202"),
    ("{{ m['__cl' ~ 'ass__'] }}", "P202"),
    ("{{ __import__ }}", "P202"),
    ("{{ range(*xs) }}", "P202"),
    ("{{ t | attr('upper') }}", "P203"),
    ("{{ rows | map('upper') }}", "P203"),
    ("{{ t is callable }}", "P203"),
    ("{{ lipsum() }}", "P203"),
    ("{{ t.format(1) }}", "P203"),
    ("{{ xs.append(1) }}", "P203"),
    ("{{ m.items() }}", "P205"),
    ("{{ a.upper() }}", "P205"),
    ("{{ 'a' + 1 }}", "P205"),
    ("{{ '%s' % a }}", "P205"),
    ("{{ nothing < 1 }}", "P205"),
    ("{{ 'a' < 1 }}", "P205"),
    ("{{ missing + 1 }}", "P205"),
    ("{{ a | length }}", "P205"),
    ("{{ raw | string }}", "P205"),
    ("{{ raw ~ 'x' }}", "P205"),
    ("{{ 'x' | lower(1) }}", "P205"),
    ("{{ 'x' | replace('x') }}", "P205"),
    ("{{ xs[::0] }}", "P205"),
    ("{{ '[' | fromjson }}", "P205"),
    ('{{ \'{"a":1,"a":2}\' | fromjson }}', "P205"),
    ("{{ 'NaN' | fromjson }}", "P205"),
    ("{{ {none: 1} }}", "P205"),
    ("{{ a / 0 }}", "P208"),
    ("{{ a % 0 }}", "P208"),
    ("{{ a // 0 }}", "P208"),
    ("{{ 9223372036854775807 + 1 }}", "P208"),
    ("{{ 9223372036854775808 }}", "P208"),
    ("{{ 9223372036854775807 * 9 }}", "P208"),
    ("{{ 1e308 * 10 }}", "P208"),
    ("{{ 1e999 }}", "P208"),
    ("{{ (-9223372036854775808) | abs }}", "P208"),
    ("{{ '99999999999999999999' | int }}", "P208"),
    ("{{ 'x' * 2000000 }}", "P204"),
    ("{{ range(10001) }}", "P204"),
]


@pytest.mark.clause("N-10")
@pytest.mark.parametrize(("source", "code"), FAULTS, ids=[source for source, _ in FAULTS])
def test_each_fault_has_its_code(source: str, code: str) -> None:
    """PB-04: an error is a fault with its own code, never a silent false."""
    assert code_of(source) == code


STRICT_OK = [
    ("m.none is defined", False),
    ("m.none.deeper is undefined", True),
    ("m.none.deeper | default(3)", 3),
    ("m.k == 1", True),
    ("m.k == 1 or m.none", True),
    ("rows | selectattr('zz', 'defined') | list", []),
]
STRICT_FAULT = [
    "missing",
    "m.none",
    "m.none == none",
    "not m.none",
    "m.none or 1",
    "m.none > 3",
    "[m.none]",
    "{'a': m.none}",
    "m.none ~ 'x'",
    "m.none | string",
    "m.none | length",
    "m.none is none",
    "1 in m.none",
    "'x' if m.none else 'y'",
    "'x' if no",
    "m.none if yes else 1",
    "m.get(m.none)",
    "rows | map(attribute='zz') | list",
    "rows | selectattr('zz') | list",
    "rows | selectattr('zz', 'eq', 1) | list",
    "xs[m.none]",
    "[] | first",
    "range(m.none)",
]


@pytest.mark.clause("N-10", "X-24")
@pytest.mark.parametrize(("source", "expected"), STRICT_OK)
def test_strict_mode_lets_handled_paths_pass(source: str, expected: Any) -> None:
    """In strict mode `is defined`, `is undefined` and `default` handle a missing path."""
    assert value_of(source, strict=True) == expected


@pytest.mark.clause("N-10", "X-24")
@pytest.mark.parametrize("source", STRICT_FAULT)
def test_strict_mode_faults_on_any_use(source: str) -> None:
    """In strict mode every other use of a missing path is P205, and only there."""
    assert code_of(source, strict=True) == "P205"
    if source not in ("[] | first", "1 in m.none", "range(m.none)"):
        value_of(source)


@pytest.mark.clause("N-10")
def test_truth_rule() -> None:
    """Truth: bool as is; the five false texts; else non-empty."""
    false: list[Any] = [
        False,
        None,
        "",
        "false",
        "False",
        "0",
        "no",
        "NONE",
        " no ",
        0,
        0.0,
        [],
        {},
        b"",
    ]
    true: list[Any] = [True, "true", "yes", "x", "00", 1, -1, 0.5, [0], {"a": None}, b"0"]
    assert [truth(value) for value in false] == [False] * len(false)
    assert [truth(value) for value in true] == [True] * len(true)
    assert value_of("'no' and 1") == "no"
    assert value_of("1 if 'false' else 2") == 2


@pytest.mark.clause("N-10")
def test_undefined_paths_are_reported_once_and_whole() -> None:
    """The trace lists the longest path met, in order, without repeats."""
    made = compile_expression("{{ gone.a.b or m.nix or gone.a.b or xs[9] or 1 }}")
    assert made.evaluate_traced(SCOPE) == (1, ("gone.a.b", "m.nix", "xs.9"))


@pytest.mark.clause("N-10")
def test_names_are_the_names_read() -> None:
    """`names` holds what the scope is asked for, not what the template binds itself."""
    made = compile_expression("{{ a + m.k + (rows | length) }}")
    assert made.names == frozenset(("a", "m", "rows"))
    text = "{% set z = a %}{% for x in xs %}{{ x }}{{ loop.index }}{{ z }}{{ y }}{% endfor %}"
    assert compile_template(text).names == frozenset(("a", "xs", "y"))


TEMPLATES = [
    ("plain {not} a template", "plain {not} a template"),
    ("{{ xs }}", [3, 1, 2]),
    ("{{ xs }}\n", [3, 1, 2]),
    ("{# note #}{{ a }}", 7),
    (" {{ a }}", " 7"),
    ("x{{ xs }}{{ m.sub }}", 'x[3, 1, 2]{"deep": [10, 20]}'),
    ("<{{ nothing }}{{ missing }}>", "<>"),
    ("{% if a > 3 %}big{% elif a %}small{% else %}zero{% endif %}", "big"),
    ("{% if missing %}x{% else %}y{% endif %}", "y"),
    ("{% for x in xs %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}", "3,1,2"),
    ("{% for x in xs if x > 1 %}{{ loop.index }}{{ x }} {% endfor %}", "13 22 "),
    ("{% for x in [] %}x{% else %}none{% endfor %}", "none"),
    ("{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}", "a2b1"),
    ("{% for k in {'b': 1, 'a': 2} %}{{ k }}{% endfor %}", "ab"),
    ("{% set z = a + 1 %}{{ z }}!", "8!"),
    ("{% for x in xs %}{% set a = x %}{{ a }}{% endfor %}{{ a }}", "3127"),
    ("{% raw %}{{ a }}{% endraw %}", "{{ a }}"),
    ("line\n{{ a }}\n", "line\n7\n"),
    (
        {"u": "{{ a }}", "l": ["{{ t }}", 5, {"x": "n{{ a }}"}]},
        {"u": 7, "l": ["Hello World", 5, {"x": "n7"}]},
    ),
]


@pytest.mark.clause("N-10")
@pytest.mark.parametrize(("source", "expected"), TEMPLATES, ids=[str(s) for s, _ in TEMPLATES])
def test_templates(source: Any, expected: Any) -> None:
    """A lone expression keeps its type; other texts render; maps and lists are filled inside."""
    found = compile_template(source).evaluate(SCOPE)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.clause("N-10")
@pytest.mark.parametrize(
    "source",
    [
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% from 'x' import y %}",
        "{% extends 'x' %}",
        "{% macro f() %}{% endmacro %}",
        "{% call f() %}{% endcall %}",
        "{% filter upper %}x{% endfilter %}",
        "{% block x %}{% endblock %}",
        "{% with a = 1 %}{% endwith %}",
        "{% autoescape true %}{% endautoescape %}",
        "{% set x %}y{% endset %}",
        "{% set ns.x = 1 %}",
        "{% for x in xs recursive %}{% endfor %}",
    ],
)
def test_other_statements_are_refused(source: str) -> None:
    """Statements outside Output, If, For and Assign are P202."""
    with pytest.raises(ExpressionFault) as caught:
        compile_template(source)
    assert caught.value.code == "P202"


@pytest.mark.clause("N-10", "K-19")
def test_order_of_keys_never_shows() -> None:
    """Equal maps behave equally, whatever order their keys were made in."""
    one, two = {"b": 1, "a": {"y": 1, "x": 2}}, {"a": {"x": 2, "y": 1}, "b": 1}
    for source in (
        "m | list",
        "m | tojson",
        "m.items()",
        "m | first",
        "m.values()",
        "[m, m] | sort",
    ):
        made = compile_expression(source)
        assert made.evaluate({"m": one}) == made.evaluate({"m": two})
    text = compile_template("{{ m }} {% for k in m %}{{ k }}{% endfor %}")
    assert text.evaluate({"m": one}) == text.evaluate({"m": two})
