"""Rendering, strict reading, Admitted, hashes and JSON text."""

from __future__ import annotations

import json

import pytest

from tallystick.errors import NotCanonical, SchemaMismatch
from tallystick.values import canon
from tallystick.values.schema import Admitted, parse_json
from tests.values.strategies import schema_of
from tests.values.strategies_tables import (
    INT_MAP,
    POINT,
    SHAPE,
    UUID_TEXT,
    Plain,
    rows,
)

RENDERED = [
    ({"int": {}}, 2**53, 2**53, {"int": 2**53}),
    ({"int": {}}, -(2**53) - 1, str(-(2**53) - 1), {"int": str(-(2**53) - 1)}),
    ({"bytes": {}}, b"hi", "aGk=", {"bytes_b64": "aGk="}),
    ({"time": {}}, 0, "1970-01-01T00:00:00Z", {"time_ns": 0}),
    ({"time": {}}, -1, "1969-12-31T23:59:59.999999999Z", {"time_ns": -1}),
    ({"duration": {}}, 90 * 10**9, "90s", {"duration_ns": 90 * 10**9}),
    ({"duration": {}}, 250 * 10**6, "250ms", {"duration_ns": 250 * 10**6}),
    ({"duration": {}}, -7, "-7ns", {"duration_ns": -7}),
    ({"duration": {}}, 0, "0s", {"duration_ns": 0}),
    ({"unit": {}}, None, None, {"null": {}}),
    (INT_MAP, {5: 6}, {"5": 6}, {"map": [{"key": {"int": 5}, "value": {"int": 6}}]}),
    (SHAPE, {"$tag": "Idle"}, {"$tag": "Idle"}, {"variant": {"tag": "Idle"}}),
    ({"json": {}}, [1.5], [1.5], {"json": [1.5]}),
]


@pytest.mark.clause("K-10")
@pytest.mark.parametrize(("type_", "value", "sugar", "tagged"), RENDERED, ids=rows(RENDERED))
def test_render_writes_the_forms_in_italics(type_, value, sugar, tagged):
    """VA-05: what render writes is the form that the table sets in italics."""
    schema = schema_of(type_)
    assert schema.render(value) == sugar
    assert schema.render(value, "tagged") == tagged


STRICT_REFUSED = [
    ({"dec128": {}}, "1.50", "bad_format"),
    ({"uuid": {}}, UUID_TEXT.upper(), "bad_format"),
    ({"set": {"int": {}}}, [2, 1], "bad_format"),
    ({"set": {"int": {}}}, [1, 1], "bad_format"),
    (POINT, {"x": 1}, "missing_field"),
    (SHAPE, {"$tag": "Idle", "$value": None}, "bad_variant"),
    (SHAPE, {"Ok": {"n": 1}}, "bad_variant"),
    (SHAPE, "Idle", "wrong_type"),
    (SHAPE, {"$tag": "No"}, "unknown_tag"),
    ({"json": {}}, {1: 1}, "wrong_type"),
    ({"json": {}}, [b""], "wrong_type"),
    ({"record": {}}, {"a": 1}, "unknown_field"),
    ({"bytes": {}}, "aGk=", "wrong_type"),
    ({"nat": {}}, -1, "out_of_range"),
    ({"int": {}}, 2**63, "out_of_range"),
    ({"where": {"type": {"nat": {}}, "max": 1}}, 2, "bound"),
]


@pytest.mark.clause("K-12")
@pytest.mark.parametrize(("type_", "value", "code"), STRICT_REFUSED, ids=rows(STRICT_REFUSED))
def test_read_never_normalises(type_, value, code):
    """VA-05: canonical CBOR of another spelling is refused by read."""
    with pytest.raises(SchemaMismatch) as refused:
        schema_of(type_).read(canon.encode(value))
    assert refused.value.errors[0]["code"] == "value." + code


@pytest.mark.clause("K-12")
def test_read_refuses_bytes_that_are_not_canonical():
    """VA-05: broken bytes keep the code of the codec."""
    schema = schema_of(POINT)
    whole = schema.admit({"x": 1}).bytes
    for data, code in [
        (whole[:-1], "cbor.truncated"),
        (whole + b"\x00", "cbor.trailing"),
        (whole[3:], "cbor.prefix"),
        (canon.PREFIX + bytes.fromhex("a26178180161 79f6".replace(" ", "")), "cbor.not_minimal"),
    ]:
        with pytest.raises(NotCanonical) as refused:
            schema.read(data)
        assert refused.value.code == code


@pytest.mark.clause("K-10")
def test_an_admitted_value_is_encoded_once():
    """VA-21: bytes, digest, hash and a second admit never look at the value again."""
    schema = schema_of(POINT)
    counted = Plain({"x": 1, "y": 2})
    admitted = schema.admit(counted)
    assert isinstance(admitted, Admitted)
    assert sorted(counted.looks) == ["x", "y"]
    assert admitted.digest == canon.digest_of(admitted.bytes)
    assert admitted.hash == canon.hash_of(admitted.bytes)
    assert schema.admit(admitted) is admitted
    assert schema_of(POINT, "t/Other@1").admit(admitted) is admitted
    assert schema.read(admitted.bytes).bytes is admitted.bytes
    assert sorted(counted.looks) == ["x", "y"]


@pytest.mark.clause("K-10")
def test_admitted_of_another_shape_is_read_again():
    """VA-21: only an equal shape lets an Admitted through as it is."""
    wide = schema_of(
        {"record": {"x": {"int": {}}, "y": {"option": {"int": {}}}, "z": {"option": {"int": {}}}}}
    )
    first = schema_of(POINT).admit({"x": 1})
    again = wide.admit(first)
    assert again.value == {"x": 1, "y": None, "z": None}
    assert again != first
    assert repr(first) == f"Admitted(t/T@1, {len(first.bytes)} bytes)"


@pytest.mark.clause("K-10")
def test_a_document_over_the_size_is_refused():
    """VA-05: value.too_large at the root, for admit; cbor.size for read."""
    schema = schema_of({"bytes": {}})
    with pytest.raises(SchemaMismatch) as refused:
        schema.admit(bytes(canon.SIZE_MAX))
    assert refused.value.errors[0]["code"] == "value.too_large"
    fits = schema.admit(bytes(canon.SIZE_MAX - 8))
    with pytest.raises(NotCanonical) as over:
        schema.read(fits.bytes + b"\x00" * 9)
    assert over.value.code == "cbor.size"


@pytest.mark.clause("K-09")
def test_hashes_are_found_where_the_type_has_them():
    """VA-05: typed hashes in canonical order; text that looks like one is no hash."""
    one, two, three = ("sha256:" + digit * 64 for digit in "123")
    schema = schema_of(
        {
            "record": {
                "z": {"hash": {}},
                "ref": {"option": {"hash": {}}},
                "many": {"map": {"key": {"hash": {}}, "value": {"list": {"hash": {}}}}},
                "arm": {"variant": {"A": {"hash": {}}, "B": {"text": {}}, "C": {"unit": {}}}},
                "word": {"text": {}},
                "free": {"json": {}},
            }
        }
    )
    value = schema.admit(
        {"z": one, "many": {two: [three]}, "arm": {"A": two}, "word": one, "free": one}
    ).value
    assert schema.hashes(value) == [one, two, two, three]
    assert schema.hashes(schema.admit({**value, "arm": "C", "ref": three}).value)[-1] == three
    assert schema_of({"list": {"text": {}}}).hashes([one]) == []


@pytest.mark.clause("K-10")
def test_json_text_is_read_exactly():
    """VA-05: integers keep every digit, 2.0 is a float until a schema reads it."""
    assert parse_json('{"a":[9007199254740993,2.0,-0.0,null,true,"\\u00e9"]}') == {
        "a": [9007199254740993, 2.0, -0.0, None, True, "é"]
    }
    assert parse_json(b"[]") == []
    assert parse_json("[" * 64 + "]" * 64) is not None


@pytest.mark.clause("K-10")
@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ('{"a":1,"a":1}', "duplicate_key", "/a"),
        ('{"b":[0,{"a/x":1,"a/x":2}]}', "duplicate_key", "/b/1/a~1x"),
        ("[" * 65 + "]" * 65, "too_deep", ""),
        ('{"a":' * 100_000, "too_deep", ""),
        ('["' + "[" * 100 + '"', "bad_format", ""),
        ("NaN", "not_finite", ""),
        ("[-Infinity]", "not_finite", ""),
        ("[1,]", "bad_format", ""),
        ("", "bad_format", ""),
        (b"\xff", "bad_format", ""),
        ("1" * 5000, "out_of_range", ""),
        ('[1,{"a":{"x":0}},{"b":1,"b":2}]', "duplicate_key", "/2/b"),
    ],
    ids=lambda x: str(x)[:20],
)
def test_json_text_that_is_refused(text, code, path):
    """VA-05: repeated keys, depth, and what is not JSON have their codes."""
    with pytest.raises(SchemaMismatch) as refused:
        parse_json(text)
    assert refused.value.code == "value." + code
    assert refused.value.errors[0]["path"] == path


@pytest.mark.clause("K-10")
def test_brackets_in_strings_do_not_nest():
    """VA-05: depth is that of the data, not of its texts."""
    value = ["[" * 100 + '"\\{']
    assert parse_json(json.dumps(value)) == value


BROKEN = [
    ({"text": {}}, "7817" + "61" * 23, "cbor.not_minimal"),
    ({"text": {}}, "7f6161ff", "cbor.indefinite"),
    ({"text": {}}, "6261", "cbor.truncated"),
    ({"text": {}}, "61ff", "cbor.utf8"),
    ({"bytes": {}}, "4261", "cbor.truncated"),
    ({"bytes": {}}, "5c61", "cbor.not_minimal"),
    ({"nat": {}}, "190001", "cbor.not_minimal"),
    ({"nat": {}}, "1901", "cbor.truncated"),
    ({"nat": {}}, "c101", "cbor.tag"),
    ({"list": {"nat": {}}}, "9b00ffffffffffffff", "cbor.truncated"),
    ({"map": {"key": {"nat": {}}, "value": {"nat": {}}}}, "a202000100", "cbor.key_order"),
    ({"json": {}}, "fb3ff8000000000000", "cbor.float"),
    ({"variant": {"A": {"int": {}}}}, "a2642474616761416176", "cbor.key_order"),
]


@pytest.mark.clause("K-12")
@pytest.mark.parametrize(("type_", "item", "code"), BROKEN, ids=rows(BROKEN))
def test_broken_items_keep_the_code_of_the_codec(type_, item, code):
    """VA-05: the hot reader refuses broken items, and the codec says why."""
    with pytest.raises(NotCanonical) as refused:
        schema_of(type_).read(canon.PREFIX + bytes.fromhex(item))
    assert refused.value.code == code


MISFITS = [
    ({"text": {}}, 5, "wrong_type"),
    ({"unit": {}}, 5, "wrong_type"),
    ({"bool": {}}, 5, "wrong_type"),
    ({"int": {}}, "5", "wrong_type"),
    ({"nat": {}}, "5", "wrong_type"),
    ({"dec128": {}}, 5, "wrong_type"),
    ({"hash": {}}, "5", "bad_format"),
    ({"list": {"int": {}}}, 5, "wrong_type"),
    ({"record": {}}, 5, "wrong_type"),
    (SHAPE, {"$tag": "Ok", "$w": 1}, "bad_variant"),
    (SHAPE, {"$tag": "Ok"}, "bad_variant"),
    ({"variant": {"A": {"int": {}}}}, {"$tag": "A", "$wrong": 1}, "bad_variant"),
]


@pytest.mark.clause("K-12")
@pytest.mark.parametrize(("type_", "value", "code"), MISFITS, ids=rows(MISFITS))
def test_canonical_documents_of_another_type_are_refused(type_, value, code):
    """VA-05: read refuses a canonical document that is of another type."""
    with pytest.raises(SchemaMismatch) as refused:
        schema_of(type_).read(canon.encode(value))
    assert refused.value.errors[0]["code"] == "value." + code


@pytest.mark.clause("K-10")
def test_schemas_and_admitted_values_compare_by_content():
    """VA-21: equal bytes of equal shapes are equal, whatever the schema is called."""
    one, other = schema_of(POINT), schema_of(POINT, "t/Other@1")
    assert one.admit({"x": 1}) == other.admit({"x": 1})
    assert len({one.admit({"x": 1}), other.admit({"x": 1})}) == 1
    assert one.admit({"x": 1}) != {"x": 1}
    assert repr(one) == "Schema(t/T@1)"
    assert one.render({"x": 1, "y": None}, "native") == {"x": 1, "y": None}


@pytest.mark.clause("K-12")
@pytest.mark.parametrize("text", ["", "short", "t" * 23, "t" * 24, "t" * 300])
@pytest.mark.parametrize("number", [0, 23, 24, 255, 256, 2**40])
def test_fields_read_in_place_are_read_whole_or_not_at_all(text, number):
    """VA-01: texts and numbers of a record read back at every length; any cut is refused."""
    fields = {"a": {"text": {}}, "b": {"nat": {}}, "c": {"option": {"text": {}}}, "d": {"text": {}}}
    schema = schema_of({"record": fields})
    for other in (None, text):
        value = {"a": text, "b": number, "c": other, "d": text}
        admitted = schema.admit(value)
        assert admitted.bytes == canon.encode(value)
        assert schema.read(admitted.bytes).value == admitted.value == value
        for cut in range(3, len(admitted.bytes)):
            with pytest.raises(NotCanonical):
                schema.read(admitted.bytes[:cut])


def test_a_record_without_fields_is_the_empty_map():
    """VA-01: nothing else is read as it."""
    schema = schema_of({"record": {}})
    assert schema.read(schema.admit({}).bytes).value == {}
    with pytest.raises(SchemaMismatch):
        schema.read(canon.encode({"a": 1}))
