"""The table of normalisation, cell by cell: what is accepted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tallystick.values import canon
from tests.values.strategies import schema_of
from tests.values.strategies_tables import (
    HASH,
    NATIVE,
    POINT,
    SHAPE,
    SUGAR,
    TAGGED,
    UUID_TEXT,
    Arm,
    Ok,
    Plain,
    Point,
    PointStruct,
    Small,
    Word,
    rows,
)

PLUS_2 = timezone(timedelta(hours=2))
# (type, canonical value, [(lens, spelling), ...]): all spellings are one value.
ACCEPTED: list[tuple[dict[str, Any], Any, list[tuple[str, Any]]]] = [
    ({"bool": {}}, True, [(NATIVE, True), (SUGAR, True), (TAGGED, {"bool": True})]),
    (
        {"int": {}},
        -1,
        [(NATIVE, -1), (SUGAR, -1), (TAGGED, {"int": -1}), (SUGAR, {"$tagged": {"int": -1}})],
    ),
    ({"int": {}}, 1, [(NATIVE, Small.ONE), (NATIVE, 1)]),
    (
        {"int": {}},
        -(2**63),
        [
            (NATIVE, -(2**63)),
            (SUGAR, str(-(2**63))),
            (SUGAR, -(2**63)),
            (TAGGED, {"int": -(2**63)}),
        ],
    ),
    (
        {"nat": {}},
        2**64 - 1,
        [(NATIVE, 2**64 - 1), (SUGAR, str(2**64 - 1)), (TAGGED, {"nat": str(2**64 - 1)})],
    ),
    ({"nat": {}}, 42, [(TAGGED, {"nat": 42}), (SUGAR, 42)]),
    (
        {"dec128": {}},
        "12.5",
        [
            (NATIVE, Decimal("12.50")),
            (NATIVE, "12.5"),
            (SUGAR, "12.500"),
            (SUGAR, "125e-1"),
            (TAGGED, {"dec128": "12.5"}),
        ],
    ),
    ({"dec128": {}}, "1200", [(NATIVE, 1200), (SUGAR, 1200), (SUGAR, "1.2E+3")]),
    ({"dec128": {}}, "0", [(NATIVE, Decimal("-0.00")), (SUGAR, "-0"), (SUGAR, "0e999999999999")]),
    ({"dec128": {}}, "0.001", [(NATIVE, "0.0010"), (SUGAR, "1E-" + "0" * 9000 + "3")]),
    ({"dec128": {}}, "15E-40", [(NATIVE, Decimal("15E-40")), (SUGAR, "1.5e-39")]),
    ({"dec128": {}}, "1E40", [(NATIVE, 10**40), (SUGAR, 10**40)]),
    ({"dec128": {}}, "-1E6111", [(NATIVE, -(10**6111)), (SUGAR, "-1e6111")]),
    (
        {"bytes": {}},
        b"hi",
        [
            (NATIVE, b"hi"),
            (NATIVE, memoryview(b"hi")),
            (SUGAR, "aGk="),
            (TAGGED, {"bytes_b64": "aGk="}),
        ],
    ),
    ({"text": {}}, "a", [(NATIVE, "a"), (NATIVE, Word.A), (SUGAR, "a"), (TAGGED, {"text": "a"})]),
    (
        {"time": {}},
        1_500_000_000,
        [
            (NATIVE, 1_500_000_000),
            (NATIVE, datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
            (NATIVE, datetime(1970, 1, 1, 2, 0, 1, 500_000, tzinfo=PLUS_2)),
            (SUGAR, "1970-01-01T00:00:01.5Z"),
            (SUGAR, "1970-01-01t02:00:01.500000000+02:00"),
            (SUGAR, "1969-12-31T19:30:01.5-04:30"),
            (SUGAR, 1_500_000_000),
            (TAGGED, {"time_ns": 1_500_000_000}),
        ],
    ),
    (
        {"duration": {}},
        90 * 10**9,
        [
            (NATIVE, 90 * 10**9),
            (NATIVE, timedelta(seconds=90)),
            (SUGAR, "90s"),
            (SUGAR, "1m30s"),
            (SUGAR, "1.5m"),
            (SUGAR, "90000ms"),
            (SUGAR, 90 * 10**9),
            (TAGGED, {"duration_ns": 90 * 10**9}),
        ],
    ),
    ({"duration": {}}, 5_400 * 10**9, [(SUGAR, "1h30m"), (SUGAR, "0d1h30m")]),
    ({"duration": {}}, -250_000_000, [(SUGAR, "-250ms"), (NATIVE, timedelta(milliseconds=-250))]),
    ({"duration": {}}, 1_002_003, [(SUGAR, "1ms2us3ns"), (SUGAR, 1_002_003)]),
    ({"hash": {}}, HASH, [(NATIVE, HASH), (SUGAR, HASH), (TAGGED, {"hash": HASH})]),
    (
        {"uuid": {}},
        UUID_TEXT,
        [
            (NATIVE, UUID_TEXT),
            (NATIVE, UUID(UUID_TEXT)),
            (SUGAR, UUID_TEXT.upper()),
            (TAGGED, {"uuid": UUID_TEXT}),
        ],
    ),
    ({"unit": {}}, None, [(NATIVE, None), (SUGAR, None), (SUGAR, {}), (TAGGED, {"null": {}})]),
    (
        POINT,
        {"x": 1, "y": None},
        [
            (NATIVE, {"x": 1}),
            (NATIVE, {"y": None, "x": 1}),
            (NATIVE, Point(1)),
            (NATIVE, PointStruct(1)),
            (NATIVE, Plain({"x": 1})),
            (SUGAR, {"x": 1}),
            (SUGAR, {"x": {"$tagged": {"int": 1}}, "y": {"$tagged": {"null": {}}}}),
            (TAGGED, {"record": {"x": {"int": 1}}}),
            (TAGGED, {"record": {"x": {"int": 1}, "y": {"null": {}}}}),
        ],
    ),
    (
        SHAPE,
        {"$tag": "Ok", "$value": {"n": 1}},
        [
            (NATIVE, {"$tag": "Ok", "$value": {"n": 1}}),
            (NATIVE, {"Ok": {"n": 1}}),
            (NATIVE, Ok(1)),
            (SUGAR, {"$tag": "Ok", "$value": {"n": 1}}),
            (SUGAR, {"Ok": {"n": 1}}),
            (TAGGED, {"variant": {"tag": "Ok", "value": {"record": {"n": {"int": 1}}}}}),
        ],
    ),
    (
        SHAPE,
        {"$tag": "Idle"},
        [
            (NATIVE, "Idle"),
            (NATIVE, Arm.Idle),
            (NATIVE, {"$tag": "Idle"}),
            (SUGAR, "Idle"),
            (SUGAR, {"Idle": {}}),
            (SUGAR, {"$tag": "Idle", "$value": None}),
            (TAGGED, {"variant": {"tag": "Idle"}}),
            (TAGGED, {"variant": {"tag": "Idle", "value": {"null": {}}}}),
        ],
    ),
    (
        {"list": {"int": {}}},
        [2, 1],
        [
            (NATIVE, [2, 1]),
            (NATIVE, (2, 1)),
            (SUGAR, [2, 1]),
            (TAGGED, {"list": [{"int": 2}, {"int": 1}]}),
        ],
    ),
    (
        {"set": {"int": {}}},
        [1, 100, -1],
        [
            (NATIVE, {-1, 1, 100}),
            (NATIVE, frozenset({-1, 1, 100})),
            (NATIVE, [100, -1, 1]),
            (SUGAR, [1, 1, -1, 100]),
            (TAGGED, {"set": [{"int": -1}, {"int": 1}, {"int": 100}]}),
        ],
    ),
    (
        {"map": {"key": {"text": {}}, "value": {"int": {}}}},
        {"b": 1, "aa": 2},
        [
            (NATIVE, {"aa": 2, "b": 1}),
            (NATIVE, Plain({"aa": 2, "b": 1})),
            (SUGAR, {"aa": 2, "b": 1}),
            (
                TAGGED,
                {
                    "map": [
                        {"key": {"text": "aa"}, "value": {"int": 2}},
                        {"key": {"text": "b"}, "value": {"int": 1}},
                    ]
                },
            ),
        ],
    ),
    (
        {"map": {"key": {"text": {}}, "value": {"int": {}}}},
        {"$tagged": 1},
        [(NATIVE, {"$tagged": 1}), (SUGAR, {"$tagged": 1})],
    ),
    (
        {"map": {"key": {"uuid": {}}, "value": {"bool": {}}}},
        {UUID_TEXT: True},
        [(NATIVE, {UUID(UUID_TEXT): True}), (SUGAR, {UUID_TEXT.upper(): True})],
    ),
    ({"map": {"key": {"hash": {}}, "value": {"bool": {}}}}, {HASH: True}, [(SUGAR, {HASH: True})]),
    (
        {"map": {"key": {"int": {}}, "value": {"bool": {}}}},
        {10: True, -1: False},
        [
            (NATIVE, {-1: False, 10: True}),
            (SUGAR, {"-1": False, "10": True}),
            (SUGAR, [[-1, False], [10, True]]),
            (
                TAGGED,
                {
                    "map": [
                        {"key": {"int": 10}, "value": {"bool": True}},
                        {"key": {"int": -1}, "value": {"bool": False}},
                    ]
                },
            ),
        ],
    ),
    (
        {"option": {"text": {}}},
        None,
        [(NATIVE, None), (SUGAR, None), (TAGGED, {"null": {}}), (SUGAR, {"$tagged": {"null": {}}})],
    ),
    ({"option": {"text": {}}}, "a", [(NATIVE, "a"), (SUGAR, "a"), (TAGGED, {"text": "a"})]),
    (
        {"json": {}},
        {"a": [2, 0, 0.1, None, True], "bb": "t"},
        [
            (NATIVE, {"bb": "t", "a": (2.0, -0.0, 0.1, None, True)}),
            (SUGAR, {"bb": "t", "a": [2.0, -0.0, 0.1, None, True]}),
            (TAGGED, {"json": {"bb": "t", "a": [2, 0, 0.1, None, True]}}),
        ],
    ),
    ({"json": {}}, {"$tagged": {"int": 1}}, [(SUGAR, {"$tagged": {"int": 1}})]),
    (
        {"where": {"type": {"text": {}}, "max_len": 2}},
        "é😀",
        [(NATIVE, "é😀"), (SUGAR, "é😀"), (TAGGED, {"text": "é😀"})],
    ),
]


@pytest.mark.clause("K-10")
@pytest.mark.parametrize(("type_", "canonical", "spellings"), ACCEPTED, ids=rows(ACCEPTED))
def test_every_spelling_of_a_value_has_its_bytes(type_, canonical, spellings):
    """VA-05: each accepted spelling of the table gives the same value and the same bytes."""
    schema = schema_of(type_)
    expected = canon.encode(canonical)
    for lens, spelling in spellings:
        admitted = schema.admit(spelling, lens)
        assert admitted.bytes == expected, (lens, spelling)
        assert admitted.value == canonical
        assert type(admitted.value) is type(canonical)
    assert schema.read(expected).value == canonical
