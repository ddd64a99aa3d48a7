"""Values that a trial makes or narrows: the smallest of a schema, and what an older one takes."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.governance.compare import changes, key_shown
from tallystick.governance.smallest import smallest
from tallystick.kernel.pins import narrowed
from tallystick.values import canon
from tallystick.values.schema import Schema, compile_schema

INT, TEXT = {"int": {}}, {"text": {}}


def made(type_: Any) -> Schema:
    return compile_schema("t/X@1", type_, {}.__getitem__)  # type: ignore[arg-type]


SMALLEST: list[tuple[Any, Any]] = [
    (INT, 0),
    (TEXT, ""),
    ({"bytes": {}}, b""),
    ({"unit": {}}, None),
    ({"bool": {}}, False),
    ({"record": {"a": TEXT, "b": {"option": INT}}}, {"a": "", "b": None}),
    ({"variant": {"A": TEXT, "B": {"unit": {}}}}, {"$tag": "B"}),
    ({"variant": {"A": INT, "C": TEXT}}, {"$tag": "A", "$value": 0}),
    ({"list": TEXT}, []),
    ({"set": TEXT}, []),
    ({"map": {"key": TEXT, "value": INT}}, {}),
    ({"where": {"type": INT, "min": 7}}, 7),
    ({"where": {"type": TEXT, "min_len": 2}}, "aa"),
    ({"where": {"type": {"bytes": {}}, "min_len": 2}}, b"\0\0"),
    ({"where": {"type": {"list": INT}, "min_len": 2}}, [0, 0]),
    ({"where": {"type": TEXT, "one_of": ["x", "y"]}}, "x"),
    ({"where": {"type": TEXT, "max_len": 9}}, ""),
    ({"where": {"type": TEXT, "pattern": "ab+"}}, "ab"),
]


@pytest.mark.parametrize(("type_", "value"), SMALLEST, ids=[str(n) for n in range(len(SMALLEST))])
def test_the_smallest_value_of_a_type(type_: Any, value: Any) -> None:
    """06 section 7: a synthetic receipt is the smallest value that its schema takes."""
    found = smallest(made(type_))
    assert found is not None
    assert found.value == value


def test_no_smallest_value_where_nothing_is_obvious() -> None:
    """06 section 7: two different ids give no value; the effect stays pending."""
    assert smallest(made({"where": {"type": {"set": {"uuid": {}}}, "min_len": 2}})) is None


OLD = {"record": {"a": INT, "deep": {"list": {"record": {"b": INT}}}}}
NEW = {
    "record": {
        "a": INT,
        "more": {"option": TEXT},
        "deep": {"list": {"record": {"b": INT, "c": {"option": INT}}}},
    }
}


@pytest.mark.clause("X-20")
@pytest.mark.parametrize(
    ("old", "new", "value", "want"),
    [
        (
            OLD,
            NEW,
            {"a": 1, "more": None, "deep": [{"b": 2, "c": None}]},
            {"a": 1, "deep": [{"b": 2}]},
        ),
        (OLD, NEW, {"a": 1, "more": "x", "deep": []}, None),
        (OLD, NEW, {"a": 1, "more": None, "deep": [{"b": 2, "c": 3}]}, None),
        (
            {"variant": {"A": OLD}},
            {"variant": {"A": NEW, "B": INT}},
            {"$tag": "A", "$value": {"a": 1, "more": None, "deep": []}},
            {"$tag": "A", "$value": {"a": 1, "deep": []}},
        ),
        (
            {"variant": {"A": INT}},
            {"variant": {"A": INT, "B": INT}},
            {"$tag": "B", "$value": 1},
            None,
        ),
        (
            {"map": {"key": TEXT, "value": {"option": OLD}}},
            {"map": {"key": TEXT, "value": {"option": NEW}}},
            {"x": None, "y": {"a": 1, "more": None, "deep": []}},
            {"x": None, "y": {"a": 1, "deep": []}},
        ),
        ({"where": {"type": INT, "max": 3}}, INT, 9, None),
        (INT, INT, 4, 4),
    ],
    ids=[str(n) for n in range(8)],
)
def test_a_newer_value_for_an_older_schema(old: Any, new: Any, value: Any, want: Any) -> None:
    """AG-27: a pinned cell is given what its schema knows; what would be lost is not given."""
    found = narrowed(made(old), made(new).admit(value))
    assert (None if found is None else found.value) == want


def test_one_schema_narrows_nothing() -> None:
    """AG-27: a value of the very schema is handed on as it is."""
    schema = made(OLD)
    value = schema.admit({"a": 1, "deep": []})
    assert narrowed(schema, value) is value


def test_keys_and_changes_are_for_readers() -> None:
    """06 section 7: keys and values are shown as JSON holds them; a diff is cut at a hundred."""
    assert key_shown(b"") is None
    assert key_shown(canon.encode(["a", b"\1", {"x": b"\2"}])) == ["a", "01", {"x": "02"}]
    many = changes({str(n): n for n in range(200)}, {})
    assert len(many) == 100
    assert changes([1, {"a": 2}], [1, {"a": 3}]) == [{"path": "$[1].a", "live": 2, "shadow": 3}]
    assert changes(1, True) == [{"path": "$", "live": 1, "shadow": True}]


@pytest.mark.clause("K-21")
def test_a_map_whose_keys_became_texts_is_compared() -> None:
    """06 section 7: a candidate may keep by text what was kept by number; both are told."""
    assert changes({"m": {1: "a", 2: "b"}}, {"m": {"one": "a"}}) == [
        {"path": "$.m.1", "live": "a", "shadow": None},
        {"path": "$.m.2", "live": "b", "shadow": None},
        {"path": "$.m.one", "live": None, "shadow": "a"},
    ]
