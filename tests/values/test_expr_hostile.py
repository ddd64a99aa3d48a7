"""Escape and exhaustion: over 120 strings that must fail fast, alike, and reach nothing."""

# tidy: the corpora stand here, one string a line.

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.values.expr import ExpressionFault, compile_expression, compile_template

ESCAPE = """
{{ ''.__class__ }}
{{ ''.__class__.__mro__[1].__subclasses__() }}
{{ [].__class__.__base__ }}
{{ {}.__class__ }}
{{ ().__class__.__bases__[0] }}
{{ 1 .__class__ }}
{{ true.__class__ }}
{{ none.__class__ }}
{{ data.__class__ }}
{{ data['__class__'] }}
{{ data["__" ~ "class__"] }}
{{ data['__cla' + 'ss__'] }}
{{ data[('__','class__')|join] }}
{{ data['__CLASS__'|lower] }}
{{ data['__ssalc__'|reverse] }}
{{ data['X19jbGFzc19f'|b64decode] }}
{{ data['"__class__"'|fromjson] }}
{{ data['\\x5f\\x5fclass\\x5f\\x5f'] }}
{{ data['\\u005f_class__'] }}
{{ data.get('__class__') }}
{{ data|map(attribute='__class__')|list }}
{{ [data]|map(attribute='a.__class__')|list }}
{{ [data]|selectattr('__class__')|list }}
{{ [data]|rejectattr('__init__.__globals__')|list }}
{{ [data]|sort(attribute='__class__') }}
{{ [data]|sum(attribute='__len__') }}
{{ [data]|join(attribute='__doc__') }}
{{ [data]|unique(attribute='__class__') }}
{{ [data]|min(attribute='__class__') }}
{{ data|attr('__class__') }}
{{ ''|attr('join') }}
{{ ''|attr('\\x5f\\x5fclass\\x5f\\x5f') }}
{{ self.__init__.__globals__ }}
{{ self._TemplateReference__context }}{{ self.__dict__ }}
{{ __builtins__ }}
{{ __import__('os') }}
{{ __name__ }}
{{ config.__class__ }}
{{ request.application.__globals__ }}
{{ lipsum.__globals__ }}
{{ cycler.__init__.__globals__.os }}
{{ joiner.__init__ }}
{{ namespace.__init__ }}
{{ lipsum() }}
{{ cycler('a') }}
{{ joiner() }}
{{ namespace(a=1) }}
{{ namespace().x() }}
{{ super() }}
{{ caller() }}
{{ self() }}
{{ varargs() }}
{{ url_for('x') }}
{{ get_flashed_messages() }}
{{ eval('1') }}
{{ exec('1') }}
{{ open('/etc/passwd') }}
{{ open('/etc/passwd').read() }}
{{ os.system('id') }}
{{ os.popen('id').read() }}
{{ getattr(data, 'x') }}
{{ setattr(data, 'x', 1) }}
{{ vars() }}
{{ globals() }}
{{ locals() }}
{{ dir(data) }}
{{ type(data) }}
{{ input() }}
{{ print(1) }}
{{ compile('1', '', 'eval') }}
{{ breakpoint() }}
{{ chr(95) }}
{{ ''.format(1) }}
{{ '{0.__class__}'.format(data) }}
{{ '{a.__class__}'.format_map(data) }}
{{ '%s' % data }}
{{ '%(a)s' % data }}
{{ '%c' % 95 }}
{{ '%1000000000d' % 1 }}
{{ ''|format(data) }}
{{ '%s'|format(data) }}
{{ ''.encode('utf-8') }}
{{ 'a'.translate(data) }}
{{ 'a'.zfill(99999999) }}
{{ 'a'.ljust(99999999) }}
{{ 'a'.center(99999999) }}
{{ 'a'.expandtabs(99999999) }}
{{ data.pop('a') }}
{{ data.update(a=1) }}
{{ data.clear() }}
{{ data.setdefault('a', 1) }}
{{ data.fromkeys('ab') }}
{{ xs.append(1) }}
{{ xs.sort() }}
{{ xs.extend(xs) }}
{{ data.items.__func__ }}
{{ data.a.b.c.__globals__ }}
{{ range.__class__ }}
{{ dict.__base__ }}
{{ dict(__class__=1) }}
{{ dict(**data) }}
{{ dict(*xs) }}
{{ range(*xs) }}
{{ xs|map('upper')|list }}
{{ xs|map('attr', '__class__')|list }}
{{ xs|select('defined')|list }}
{{ xs|selectattr('a', '__class__')|list }}
{{ xs|random }}
{{ xs|pprint }}
{{ xs|batch(2)|list }}
{{ xs|slice(2)|list }}
{{ xs|groupby('a') }}
{{ xs|xmlattr }}
{{ 'x'|safe }}
{{ 'x'|e }}
{{ 'x'|escape }}
{{ 'x'|forceescape }}
{{ 'x'|indent(99999999) }}
{{ 'x'|center(99999999) }}
{{ 'x'|wordwrap }}
{{ 'x'|urlize }}
{{ 'x'|striptags }}
{{ 'x'|truncate(1) }}
{{ 'x'|filesizeformat }}
{{ data is callable }}
{{ data is sameas data }}
{{ data is iterable }}
{{ 'upper' is filter }}
{{ (data.get)('a') ~ (range)(2)() }}
{{ (range(2))() }}
{{ 'a'.upper()() }}
{{ [range][0](3) }}
{{ {'f': range}.f(3) }}
{{ 2 ** 2 }}
{{ trap.x.y() }}
{{ trap() }}
{{ trap }}
{{ [trap] }}
{{ trap ~ '' }}
{{ trap + 1 }}
{{ trap|string }}
{{ trap|tojson }}
{{ trap|length }}
{{ trap|list }}
{{ trap < 1 }}
{% include '/etc/passwd' %}
{% import 'os' as os %}
{% from 'os' import system %}
{% extends data %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% call lipsum() %}{% endcall %}
{% set ns = namespace() %}
{% set data.x = 1 %}
{% set x %}{{ data }}{% endset %}
{% block b %}{{ self.b() }}{% endblock %}
{% filter upper %}x{% endfilter %}
{% with x = data %}{{ x.__class__ }}{% endwith %}
{% autoescape false %}{% endautoescape %}
{% do xs.append(1) %}
{% debug %}
{% trans %}x{% endtrans %}
{% for x in xs recursive %}{{ loop(xs) }}{% endfor %}
{% for __x in xs %}{% endfor %}
{% for x in xs %}{{ loop.__class__ }}{% endfor %}
{% for x in xs %}{{ loop.cycle('a') }}{% endfor %}
{% for data.x in xs %}{% endfor %}
{% set __x = 1 %}
{% break %}
""".strip().splitlines()

NINES = "9" * 9000
EXHAUSTION = [
    "{{ 'x' * 1000000000 }}",
    "{{ 1000000000 * 'x' }}",
    "{{ [0] * 1000000000 }}",
    "{{ xs * 9223372036854775807 }}",
    "{{ ('x' * 1000) * 1000 * 1000 }}",
    "{{ 'x' * 600000 ~ 'x' * 600000 }}",
    "{{ 'x' * 65537 }}",
    "{{ range(1000000000) }}",
    "{{ range(-9223372036854775807, 9223372036854775807) }}",
    "{{ range(0, -9223372036854775807, -1) | length }}",
    "{{ range(9999) | list | sort | reverse | list | unique }}",
    "{{ range(9000) | join('x' * 1000) }}",
    "{{ range(9000) | join('x' * 999) | length }}",
    "{{ ('x' * 100000) | replace('x', 'y' * 1000) }}",
    "{{ ('x' * 100000) | replace('', 'y' * 100) }}",
    "{{ (('x,' * 500000) | split(',')) | length }}",
    "{{ (('x ' * 500000).split()) | length }}",
    "{{ ('ß' * 500000) | upper }}",
    "{{ ('\\x00' * 400000) | tojson }}",
    "{{ (('[' * 100000) | fromjson) }}",
    "{{ ('[' * 70 ~ ']' * 70) | fromjson }}",
    "{{ ('1' * 100000) | int }}",
    "{{ ('1' * 100000) | float }}",
    "{{ ('1' * 5000) | fromjson }}",
    "{{ ('é' * 300000) | urlencode }}",
    "{{ ('x' * 900000) | b64encode }}",
    "{{ ('x' * 400000).upper().lower().upper() }}",
    "{{ 9223372036854775807 + 1 }}",
    "{{ -9223372036854775808 - 1 }}",
    "{{ 4611686018427387904 * 2 }}",
    "{{ 1e308 * 1e308 }}",
    "{{ 1 // 0 }}",
    "{{ 1 % 0 }}",
    "{{ 1.0 / 0 }}",
    "{{ " + NINES + " }}",
    "{{ 0x" + "f" * 9000 + " }}",
    "{{ 1e" + "9" * 400 + " }}",
    "{{ " + "1+" * 2000 + "1 }}",
    "{{ " + "1+" * 8000 + "1 }}",
    "{{ " + "(" * 65 + "1" + ")" * 65 + " }}",
    "{{ " + "(" * 8000 + " }}",
    "{{ " + "[" * 64 + "]" * 64 + " + [] }}",
    "{{ " + "{'a':" * 64 + "1" + "}" * 64 + ".a }}",
    "{{ " + "not " * 4000 + "1 }}",
    "{{ " + "-" * 16000 + "1 }}",
    "{{ " + "- " * 4000 + "1 }}",
    "{{ " + "1 if 1 else " * 1300 + "1 }}",
    "{{ data" + ".a" * 4000 + " }}",
    "{{ data" + "[0]" * 4000 + " }}",
    "{{ 'x'" + "|upper" * 2000 + " }}",
    "{{ 'x'" + ".upper()" * 100 + " }}",
    "{{ " + "a and " * 2600 + "a }}",
    "{{ " + "1 < " * 3000 + "1 }}",
    "{{x}}" * 3270,
    "x" * 17000 + "{{ a }}",
    "é" * 8190 + "{{ a }}",
    "{% if a %}" * 1600,
    "{% if 1 %}" * 500 + "{% endif %}" * 500,
    "{% for a in xs %}" * 100 + "x" + "{% endfor %}" * 100,
    "{% for a in range(100) %}{% for b in range(101) %}x{% endfor %}{% endfor %}",
    "{% for a in range(5000) %}{{ a }}{{ a }}{% endfor %}",
    "{% for a in range(900) %}{{ 'x' * 1000 }}{% endfor %}",
    "{% set a = [1, 1] %}" + "{% set a = [a, a] %}" * 60 + "{{ a }}",
    "{% set a = [1, 1] %}" + "{% set a = a + a %}" * 60 + "{{ a | length }}",
    "{% set a = 'xx' %}" + "{% set a = a + a %}" * 60 + "{{ a }}",
    "{% set a = 'xx' %}" + "{% set a = a ~ a %}" * 60 + "{{ a }}",
    "{% set a = {'k': 1} %}" + "{% set a = {'k': a, 'l': a} %}" * 60 + "{{ a == a }}",
    "{% set a = [1] %}" + "{% set a = [a] %}" * 200 + "{{ a }}",
    "{% set a = [1, 1] %}{% set b = [1, 1] %}"
    + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40
    + "{{ a == b }}",
    "{% set a = dict(x=1) %}" + "{% set a = dict(x=a, y=a) %}" * 40 + "{{ a }}",
    "{{ (range(9999) | list) in [range(9999)] }}",
    "{{ range(2000) | map(attribute='a.b.c.d.e.f') | list }}",
    "{{ big }}",
    "{{ [big, big, big] | length }}",
    "{{ bigtext | upper | lower | upper | lower }}",
]


class Trap:
    """A Python object that must never be touched."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Trap
        raise AssertionError(f"{name} was reached")


SCOPE: dict[str, Any] = {
    "a": 1,
    "xs": [1, 2, 3],
    "data": {"a": {"b": {"c": 1}}, "x": 2},
    "trap": Trap(),
    "big": list(range(60_000)),
    "bigtext": "x" * 300_000,
}


# 50 ms are meant for a machine that adds 100,000 numbers in 3 ms; others have as many additions.
# Ten such loops are 30 ms there: the bound is kept with room to spare.
ADDITIONS = 100_000
LOOPS_MAX = 10


def loop_seconds() -> float:
    """How long so many additions take here and now."""
    began, total = time.process_time(), 0
    for number in range(ADDITIONS):
        total += number
    return time.process_time() - began


def outcome(source: str, *, strict: bool) -> tuple[str, str] | None:
    """Code and message of the fault, or None when there was none."""
    try:
        compile_template(source, strict=strict).evaluate(SCOPE)
    except ExpressionFault as fault:
        return fault.code, fault.message
    return None


def timed(source: str, *, strict: bool) -> tuple[tuple[str, str] | None, float]:
    """The outcome and the least processor time of ten tries, in loops: the machine may be busy.

    Under a tracer, as when coverage is measured, time says nothing and counts as none.
    """
    if sys.gettrace() is not None:
        return outcome(source, strict=strict), 0.0
    least = float("inf")
    for _ in range(10):
        loop = loop_seconds()
        began = time.process_time()
        found = outcome(source, strict=strict)
        least = min(least, (time.process_time() - began) / loop)
        if least < LOOPS_MAX:
            break
    return found, least


@pytest.mark.clause("N-10", "X-12")
def test_the_corpus_is_as_large_as_promised() -> None:
    """PB-03: at least 100 escape and 20 exhaustion strings, none twice."""
    assert len(set(ESCAPE)) == len(ESCAPE) >= 100
    assert len(set(EXHAUSTION)) == len(EXHAUSTION) >= 20


@pytest.mark.clause("N-10", "X-12")
@pytest.mark.parametrize("source", ESCAPE, ids=range(len(ESCAPE)))
def test_escapes_are_refused(source: str) -> None:
    """PB-03: each escape is a fault, in both modes, within 50 ms, and touches no Python object."""
    for strict in (False, True):
        found, loops = timed(source, strict=strict)
        assert found is not None, source
        assert found[0] in ("P201", "P202", "P203", "P205")
        assert loops < LOOPS_MAX
        assert outcome(source, strict=strict) == found


@pytest.mark.clause("N-10", "X-12")
@pytest.mark.parametrize("source", EXHAUSTION, ids=range(len(EXHAUSTION)))
def test_exhaustion_is_refused(source: str) -> None:
    """PB-03: each exhaustion is a fault within 50 ms, the same one each time."""
    found, loops = timed(source, strict=False)
    assert found is not None, source[:80]
    assert loops < LOOPS_MAX, (source[:80], loops)
    assert outcome(source, strict=False) == found


@pytest.mark.clause("N-10")
@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 1000 }}",
        "{{ range(1000) | sum }}",
        "{% for a in range(100) %}{{ a }}{% endfor %}",
        "{{ data.a.b.c }}",
        "{{ 'x' * 65536 }}",
        "{{ " + "(" * 62 + "1" + ")" * 62 + " }}",
        "{{ '((((((((((" + "(" * 100 + "' }}",
        "(" * 200 + "{{ a }}",
    ],
)
def test_control_honest_sources_pass(source: str) -> None:
    """The control of PB-03: the same constructs within their budgets have values."""
    assert outcome(source, strict=True) is None


_PIECES = st.sampled_from(
    [
        "{{",
        "}}",
        "{%",
        "%}",
        "a",
        "data",
        "xs",
        ".",
        "[",
        "]",
        "(",
        ")",
        "|",
        "'",
        '"',
        "x",
        "if",
        "for",
        "in",
        "endif",
        "endfor",
        "set",
        "=",
        "+",
        "*",
        "~",
        "not",
        "is",
        "defined",
        "1",
        "sort",
        "join",
        "upper",
        "range",
        "dict",
        ",",
        ":",
        "{",
        "}",
        "9",
        "-",
        "/",
        "%",
        "é",
        " ",
        "\n",
    ]
)


@pytest.mark.clause("N-10", "X-12")
@settings(max_examples=600, deadline=None)
@given(st.lists(_PIECES, max_size=24).map("".join), st.booleans())
def test_random_sources_never_raise_anything_else(source: str, strict: bool) -> None:
    """Whatever the text, the answer is a value or an ExpressionFault, twice the same."""
    for text in (source, "{{" + source + "}}"):
        first = outcome(text, strict=strict)
        assert outcome(text, strict=strict) == first


@pytest.mark.clause("N-10", "X-12")
@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.text(max_size=8)
        | st.binary(max_size=4)
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    ),
    st.sampled_from(
        [
            "v + v",
            "v * 3",
            "v < v",
            "v == w",
            "v in w",
            "v | sort",
            "v | tojson",
            "v ~ w",
            "v[0]",
            "v | length",
            "v | first",
            "v | max",
            "v | sum",
            "v | unique",
            "v | urlencode",
            "-v",
            "v | int",
            "v | float",
            "v | round",
            "v | dictsort",
            "v.a.b",
            "v % 2",
            "v | title",
            "v | join(w)",
            "v | replace('a'; w)",
            "v | default(w)",
            "v | sha256",
            "v | fromjson",
        ]
    ),
    st.integers(-3, 3) | st.text(max_size=2) | st.lists(st.integers(), max_size=2),
)
def test_any_value_under_any_operator(v: Any, source: str, w: Any) -> None:
    """No value of the language makes an operator or filter raise anything but a fault."""
    made = compile_expression(source.replace(";", ","))
    code = ""
    try:
        made.evaluate({"v": v, "w": w})
    except ExpressionFault as fault:
        code = fault.code
    assert code in ("", "P202", "P204", "P205", "P208")
