"""Corners of the schema language: odd annotations, odd values, hashes in every position."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any, Literal, NewType, Required, TypedDict

import pytest

from tallystick.errors import BadDefinition, SchemaMismatch
from tallystick.values import canon
from tallystick.values.schema import compatible, type_of
from tallystick.values.schema.decimals import is_reduced
from tests.values.strategies import schema_of

ONE = canon.hash(1)
TWO = canon.hash(2)
HASH = {"hash": {}}


def refusal(annotation: Any) -> BadDefinition:
    with pytest.raises(BadDefinition) as caught:
        type_of(annotation)
    assert caught.value.hint
    return caught.value


def twins() -> tuple[type, type]:
    """Two classes that only their fields tell apart."""
    made = [dataclasses.make_dataclass("Twin", [(field, int)], frozen=True) for field in ("a", "b")]
    return made[0], made[1]


class Empty(Enum):
    pass


class Strict(TypedDict, total=False):
    here: Required[int]
    there: str


class TypeAliasType:
    """Stands for what a `type` statement makes, on a Python that does not have it yet."""

    __value__ = list[int]


@pytest.mark.clause("K-03")
@pytest.mark.parametrize(
    ("annotation", "code"),
    [
        (Literal[["a"]], "schema.unsupported"),
        (twins()[0] | twins()[1], "schema.bad_name"),
        (Empty, "schema.empty_variant"),
        (dataclasses.make_dataclass("Odd", [("größe", int)]), "schema.bad_name"),
        (type_of, "schema.unsupported"),
    ],
)
def test_annotations_without_a_canonical_form(annotation: Any, code: str):
    """VA-19: what has no canonical form is refused with the code that says why."""
    assert refusal(annotation).code == code


@pytest.mark.clause("K-03")
def test_the_path_of_a_bad_field_is_told():
    """VA-19: the refusal of a field names the field."""
    odd = dataclasses.make_dataclass("Odd", [("fine", int), ("größe", int)])
    assert refusal(odd).where == {"path": "/größe"}


def test_required_keys_are_no_options():
    """VA-19: in a loose TypedDict a Required key stays required, the others become options."""
    assert type_of(Strict) == {"record": {"here": {"int": {}}, "there": {"option": {"text": {}}}}}


def test_an_alias_means_what_it_names():
    """VA-19: a `type` statement and a NewType are looked through, also one behind the other."""
    assert type_of(TypeAliasType()) == {"list": {"int": {}}}
    assert type_of(NewType("N", NewType("M", bytes))) == {"bytes": {}}


@pytest.mark.parametrize(
    ("type_", "value", "hashes"),
    [
        ({"map": {"key": HASH, "value": {"text": {}}}}, {ONE: "a", TWO: "b"}, sorted([ONE, TWO])),
        ({"map": {"key": HASH, "value": HASH}}, {ONE: TWO}, [ONE, TWO]),
        ({"map": {"key": {"text": {}}, "value": HASH}}, {"a": TWO}, [TWO]),
        ({"map": {"key": {"text": {}}, "value": {"int": {}}}}, {"a": 1}, []),
        ({"option": HASH}, None, []),
        ({"option": HASH}, ONE, [ONE]),
        ({"option": {"text": {}}}, "a", []),
        ({"where": {"type": {"list": HASH}, "max_len": 4}}, [TWO], [TWO]),
        ({"record": {"a": HASH, "b": {"set": HASH}}}, {"a": TWO, "b": [ONE]}, [TWO, ONE]),
        ({"variant": {"Some": HASH, "None": {"unit": {}}}}, {"$tag": "None"}, []),
        ({"variant": {"Some": HASH, "None": {"unit": {}}}}, {"$tag": "Some", "$value": ONE}, [ONE]),
        ({"variant": {"Some": {"text": {}}}}, {"$tag": "Some", "$value": "a"}, []),
    ],
)
def test_hashes_are_found_wherever_they_are_typed(
    type_: dict[str, Any], value: Any, hashes: list[str]
):
    """Every typed hash is gathered, in canonical order, and nothing that is only text."""
    found = schema_of(type_).admit(value)
    assert found.schema.hashes(found.value) == hashes


@pytest.mark.parametrize("lens", ["sugar", "tagged"])
def test_every_kind_of_type_can_be_rendered(lens: str):
    """VA-06: what a lens renders it also reads, bounds, sets and arms with values included."""
    type_ = {
        "record": {
            "arm": {"variant": {"Full": {"int": {}}, "Bare": {"unit": {}}}},
            "other": {"variant": {"Full": {"int": {}}, "Bare": {"unit": {}}}},
            "some": {"set": {"text": {}}},
            "short": {"where": {"type": {"text": {}}, "max_len": 3}},
            "maybe": {"option": {"map": {"key": {"text": {}}, "value": {"nat": {}}}}},
        }
    }
    schema = schema_of(type_)
    value = {
        "arm": {"$tag": "Full", "$value": 7},
        "other": {"$tag": "Bare"},
        "some": ["a", "b"],
        "short": "abc",
        "maybe": {"k": 1},
    }
    made = schema.admit(value)
    assert schema.admit(schema.render(made.value, lens), lens).bytes == made.bytes  # type: ignore[arg-type]


@dataclasses.dataclass(slots=True)
class Half:
    a: int
    b: int | None = None


def test_an_unset_attribute_is_an_absent_field():
    """VA-05: a slot that was never filled counts as left out, not as an error of Python."""
    half = object.__new__(Half)
    half.a = 1
    schema = schema_of({"record": {"a": {"int": {}}, "b": {"option": {"int": {}}}}})
    assert schema.admit(half).value == {"a": 1, "b": None}


def test_a_map_is_only_made_from_a_mapping():
    """VA-05: a list of pairs is no map in the native lens; the refusal names the type."""
    schema = schema_of({"map": {"key": {"text": {}}, "value": {"int": {}}}})
    with pytest.raises(SchemaMismatch) as caught:
        schema.admit([("a", 1)])
    assert caught.value.errors[0]["code"] == "value.wrong_type"


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [("[^\x00]", "a", "\x00"), ("[^\\n-\\r]", "a", "\n"), ("a\\tb", "a\tb", "a b")],
)
def test_patterns_at_the_ends_of_unicode(pattern: str, good: str, bad: str):
    """VA-15: control escapes and negated classes match by code point."""
    schema = schema_of({"where": {"type": {"text": {}}, "pattern": pattern}})
    assert schema.admit(good).value == good
    with pytest.raises(SchemaMismatch):
        schema.admit(bad)


def test_a_class_may_end_with_the_last_code_point():
    """VA-15: the complement of everything above a letter has nothing behind it."""
    schema = schema_of({"where": {"type": {"text": {}}, "pattern": "[^b-\U0010ffff]"}})
    assert schema.admit("a").value == "a"
    with pytest.raises(SchemaMismatch):
        schema.admit("b")


def test_types_with_references_are_not_compared():
    """VA-12: only inlined types are compared; a name that is left over is refused."""
    with pytest.raises(BadDefinition):
        compatible({"ref": "t/A@1"}, {"ref": "t/A@1"})


@pytest.mark.parametrize(
    ("text", "reduced"),
    [("1.5", True), ("1.50", False), ("nan", False), ("1E9999", False), ("", False)],
)
def test_only_the_one_form_of_a_decimal_is_reduced(text: str, reduced: bool):
    """VA-10: a text that is no decimal at all is not reduced either, and raises nothing."""
    assert is_reduced(text) is reduced


NUMBERED = {
    "record": {
        "id": {"text": {}},
        "n": {"nat": {}},
        "i": {"int": {}},
        "note": {"option": {"text": {}}},
        "more": {"option": {"int": {}}},
    }
}


@pytest.mark.parametrize("number", [0, 23, 24, 255, 256, 65_536, 2**32, 2**63 - 1])
@pytest.mark.parametrize("length", [0, 23, 24, 255, 256, 70_000])
def test_fields_written_in_place_are_the_plain_ones(number: int, length: int):
    """VA-01: every width of a number and of a text has the bytes of the codec, options or not."""
    schema = schema_of(NUMBERED)
    value = {"id": "x" * length, "n": number, "i": -1 - number, "note": None, "more": number}
    absent = {name: each for name, each in value.items() if name != "note"}
    plain = canon.encode(value)
    assert schema.admit(value).bytes == schema.admit(absent).bytes == plain
    assert schema.document(value) == schema.document(absent) == plain
    assert schema.plain(plain) == schema.admit(absent).value == value


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": -1},
        {"n": 2**64},
        {"i": 2**63},
        {"i": -(2**63) - 1},
        {"n": True},
        {"id": "\ud800"},
        {"id": None},
        {"other": 1},
    ],
)
def test_fields_written_in_place_refuse_as_the_judge_does(wrong: dict[str, Any]):
    """VA-05: out of range, of another type, without bytes, null and unknown: the same refusal."""
    schema = schema_of(NUMBERED)
    value = {"id": "x", "n": 1, "i": 1, "note": None, "more": None, **wrong}
    with pytest.raises(SchemaMismatch) as first:
        schema.admit(value)
    with pytest.raises(SchemaMismatch) as second:
        schema.document(value)
    assert first.value.errors == second.value.errors != []


def test_a_value_that_is_handed_on_is_given_once() -> None:
    """VA-05: the next reader has the very value, the one behind it a fresh one; few are kept."""
    schema = schema_of({"record": {"n": {"nat": {}}, "any": {"json": {}}}})
    many = [schema.admit({"n": n, "any": {"list": [n, None]}}).bytes for n in range(200)]
    read = {data: schema.plain(data) for data in many}
    for data in many:
        schema.hand_on(data, read[data])
    assert schema.plain(many[-1]) is read[many[-1]]
    again = schema.plain(many[-1])
    assert again == read[many[-1]]
    assert again is not read[many[-1]]
    kept = [schema.plain(data) is read[data] for data in many]
    assert 0 < sum(kept) < 100
