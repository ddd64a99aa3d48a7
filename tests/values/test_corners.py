"""Corners of values: what is read from an expression unrun, small samples, rarer refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import BadDefinition, SchemaMismatch
from tallystick.model.sys_definitions import type_of
from tallystick.values import canon, yaml12
from tallystick.values.expr import ExpressionFault, compile_expression, shared_run
from tallystick.values.expr.static import compared, is_opposite, reads
from tallystick.values.schema import compile_schema
from tallystick.values.schema.references import references
from tallystick.values.schema.smallest import smallest
from tests.values.strategies import schema_of

# ---- expressions that are looked at and not run -------------------------------------------------


def test_what_an_expression_reads_is_seen_unrun() -> None:
    """PB-06: the longest paths; a method is no part of one, and a computed key ends it."""
    found = reads("a.b.upper() ~ c[d] ~ e['f'] ~ (g.h | default(1))")
    assert [(each.path, each.tolerated) for each in found] == [
        (("a", "b"), True),
        (("c",), False),
        (("d",), False),
        (("e", "f"), False),
        (("g", "h"), True),
    ]


def test_what_is_called_is_no_path() -> None:
    """PB-06: a function is not read; its arguments are."""
    assert [each.path for each in reads("range(n) | list")] == [("n",)]


def test_the_values_that_a_path_is_compared_with() -> None:
    """PB-06: on either side of `==`, or in a list; what is no path has none."""
    assert compared("'x' == a.b") == [(("a", "b"), "x")]
    assert compared("a in ['x', 'y']") == [(("a",), "x"), (("a",), "y")]
    assert compared("(a ~ b) == 'x'") == []
    assert compared("a < 1 < b") == []


@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [
        ("not a", "a", True),
        ("a", "not a", True),
        ("a == 1", "a != 1", True),
        ("a == 1", "a != 2", False),
        ("a < 1", "b >= 1", False),
        ("a < 1 < 2", "a >= 1", False),
        ("a", "b", False),
        ("x {{ a }}", "not a", False),
    ],
)
def test_of_two_guards_exactly_one_holds(one: str, other: str, is_so: bool) -> None:
    """PB-06: as far as their shapes say; a text with more than one part is no guard."""
    assert is_opposite(one, other) is is_so


def nested(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("[x]", nested(70)),
        ("[x]", dict.fromkeys(range(70_000))),
        ("[x]", [None] * 140_000),
        ("x + x", [None] * 100_000),
    ],
)
def test_a_value_of_the_scope_is_paid_for_before_it_is_used(source: str, value: Any) -> None:
    """PB-03: too deep or too large is a fault of budget, however it came in."""
    with pytest.raises(ExpressionFault) as caught:
        compile_expression(source).evaluate({"x": value})
    assert caught.value.code == "P204"


def test_a_long_list_is_counted_before_it_is_opened() -> None:
    """PB-03: its length alone is over what is left."""
    with pytest.raises(ExpressionFault) as caught:
        shared_run({}).charge_deep([None] * 200_000)
    assert caught.value.code == "P204"


# ---- the smallest value of a type ---------------------------------------------------------------


def bounded(type_: dict[str, Any], **bounds: Any) -> dict[str, Any]:
    return {"where": {"type": type_, **bounds}}


TEXT: dict[str, Any] = {"text": {}}
HIDDEN = {"ref": "sys/TextOrSecretRef@1"}
SMALL = [
    (bounded({"int": {}}, max=-3), -3),
    (bounded({"int": {}}, min=-3), 0),
    (bounded({"nat": {}}, min=4, max=9), 4),
    (bounded({"set": {"nat": {}}}, min_len=3), [0, 1, 2]),
    (bounded({"set": TEXT}, min_len=2), ["", "a"]),
    (bounded({"set": {"uuid": {}}}, min_len=1), ["00000000-0000-4000-8000-000000000000"]),
    (bounded({"map": {"key": TEXT, "value": {"nat": {}}}}, min_len=2), {"": 0, "a": 0}),
    (bounded(TEXT, pattern="a*"), ""),
    (bounded(TEXT, pattern="[ab]*c"), "c"),
    (bounded(TEXT, pattern="(ab|ac)*", min_len=3), "abab"),
]


@pytest.mark.parametrize(("type_", "value"), SMALL)
def test_the_smallest_value_under_bounds(type_: dict[str, Any], value: Any) -> None:
    """AU-28: it fits, and no smaller one does."""
    schema = schema_of(type_)
    assert smallest(schema.node) == value
    schema.admit(value)


def test_the_smallest_secret_is_a_text() -> None:
    """AU-28: where a secret may stand, something fits without one."""
    schema = compile_schema("t/T@1", HIDDEN, type_of)
    made = smallest(schema.node)
    assert schema.admit(made).value == made
    assert references(schema.node, made) == ()


@pytest.mark.parametrize(
    "type_",
    [bounded({"set": {"uuid": {}}}, min_len=2), bounded(TEXT, pattern="ab", min_len=5)],
)
def test_bounds_that_nothing_small_fits_are_refused(type_: dict[str, Any]) -> None:
    """AU-28: with a hint to give samples."""
    with pytest.raises(BadDefinition) as caught:
        smallest(schema_of(type_).node)
    assert caught.value.code == "check.no_sample"


# ---- refusals -----------------------------------------------------------------------------------


def test_a_document_over_the_size_is_refused_by_the_judge_too() -> None:
    """VA-05: the judge of sugared values knows the limit that the hot way knows."""
    with pytest.raises(SchemaMismatch) as caught:
        schema_of(TEXT).admit({"text": "a" * canon.SIZE_MAX}, "tagged")
    assert caught.value.errors[0]["code"] == "value.too_large"


def test_a_text_that_is_none_is_refused_as_a_document() -> None:
    """VA-05: half of a surrogate pair has no bytes."""
    with pytest.raises(SchemaMismatch) as caught:
        schema_of(TEXT).document("\ud800")
    assert caught.value.errors


PLACES: dict[str, Any] = {
    "record": {
        "one": {"variant": {"s": HIDDEN, "n": {"nat": {}}}},
        "list": {"list": HIDDEN},
        "map": {"map": {"key": TEXT, "value": HIDDEN}},
        "option": {"option": HIDDEN},
        "free": {"json": {}},
    }
}


def test_secrets_are_found_in_every_kind_of_place() -> None:
    """06 section 5: by the type of the place: arms, lists, maps, options; free JSON is data."""
    secret = {"$tag": "secret", "$value": {"alias": "k", "version": 1}}
    made = compile_schema("t/T@1", PLACES, type_of)
    held = {
        "one": {"$tag": "s", "$value": secret},
        "list": [{"$tag": "literal", "$value": "x"}, secret],
        "map": {"a/b": secret},
        "option": None,
        "free": secret,
    }
    found = {each.path for each in references(made.node, held)}
    assert found == {"/one/$value", "/list/1", "/map/a~1b"}
    other = {**held, "one": {"$tag": "n", "$value": 1}, "option": secret}
    assert {each.path for each in references(made.node, other)} == {*found, "/option"} - {
        "/one/$value"
    }


@pytest.mark.parametrize("text", ["a: 1e999", "a: -1e999", "a: \0"])
def test_yaml_that_is_no_value_is_refused(text: str) -> None:
    """PB-01: a number that no float holds, and a character that no text has."""
    with pytest.raises(yaml12.NotYamlError):
        yaml12.read(text)
