"""Canonical bytes: vectors, refusals, caps."""

from __future__ import annotations

import enum
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import NotCanonical, SchemaMismatch
from tallystick.values import canon
from tests.golden.values.build import HERE, files
from tests.values.documents import (
    documents_strategy,
    load,
    outcome,
    refused_documents,
    value_of,
)

CODES = {
    "cbor.prefix",
    "cbor.truncated",
    "cbor.trailing",
    "cbor.not_minimal",
    "cbor.indefinite",
    "cbor.key_order",
    "cbor.key_duplicate",
    "cbor.key_type",
    "cbor.tag",
    "cbor.simple",
    "cbor.float",
    "cbor.utf8",
    "cbor.int_range",
    "cbor.depth",
    "cbor.size",
}


def row_name(row: dict[str, Any]) -> str:
    return str(row["name"])


@pytest.mark.clause("K-12", "D3")
@pytest.mark.parametrize("row", load("accepted.json"), ids=row_name)
def test_vector_reproduces(row: dict[str, Any]) -> None:
    """VA-01: each vector gives its bytes and its hash, and its bytes give the value again."""
    value = value_of(row["value"])
    data = bytes.fromhex(row["hex"])
    assert canon.encode(value) == data
    assert canon.encode_item(value) == data[3:]
    assert canon.hash(value) == canon.hash_of(data) == "sha256:" + row["sha256"]
    assert canon.digest(value) == canon.digest_of(data) == bytes.fromhex(row["sha256"])
    again = canon.decode(data)
    assert again == value
    assert canon.encode(again) == data


@pytest.mark.clause("K-12", "D3")
@pytest.mark.parametrize("row", load("identities.json"), ids=row_name)
def test_identity_reproduces(row: dict[str, Any]) -> None:
    """VA-01: documents of the model that others hash too have the published hash."""
    value = value_of(row["value"])
    assert canon.hash(value) == "sha256:" + row["sha256"]
    if "$type" in value:
        fields = {key: item for key, item in value.items() if key != "$type"}
        assert canon.tagged(value["$type"], fields).hex() == row["sha256"]


@pytest.mark.clause("K-12")
def test_golden_files_are_the_built_ones() -> None:
    """VA-02: the stored vectors are those of the builder, which never asks the codec."""
    for name, content in files().items():
        assert (HERE / name).read_text(encoding="ascii") == content, name


@pytest.mark.clause("K-12")
def test_refused_documents() -> None:
    """VA-02, KN-22: over 200 refused documents give their code and offset; every code occurs."""
    rows = refused_documents()
    assert len({data for data, _, _ in rows}) >= 200
    assert {code for _, code, _ in rows} == CODES
    for data, code, offset in rows:
        with pytest.raises(NotCanonical) as caught:
            canon.decode(data)
        got = (caught.value.code, caught.value.offset, caught.value.where)
        assert got == (code, offset, {"offset": offset}), data[:80].hex()


@pytest.mark.clause("K-12")
@settings(deadline=None, max_examples=300)
@given(documents_strategy())
def test_round_trip(value: Any) -> None:
    """VA-02: what is encoded is accepted, and reads back as the same bytes."""
    data = canon.encode(value)
    again = canon.decode(data)
    assert again == value
    assert canon.encode(again) == data


@pytest.mark.clause("K-12")
@settings(deadline=None, max_examples=500)
@given(st.binary(max_size=24))
def test_noise_is_refused_or_canonical(noise: bytes) -> None:
    """VA-02: for any bytes, accepted means canonical, and nothing but a refusal is raised."""
    data = canon.PREFIX + noise
    value, refusal = outcome(data)
    if refusal is None:
        assert canon.encode(value) == data
    else:
        assert refusal.code in CODES
        assert 0 <= refusal.offset <= len(data)


@pytest.mark.clause("K-12")
@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.text(max_size=6) | st.integers(0, 300), st.integers(), max_size=8))
def test_insertion_order_never_matters(items: dict[Any, int]) -> None:
    """VA-02: equal maps have equal bytes, whatever order their keys came in."""
    small = {key: item % 1000 for key, item in items.items()}
    turned = dict(reversed(small.items()))
    assert canon.encode(small) == canon.encode(turned)


def nested(kind: str, levels: int) -> Any:
    value: Any = [] if kind == "array" else {}
    for _ in range(levels - 1):
        value = [value] if kind == "array" else {"a": value}
    return value


@pytest.mark.clause("K-12")
@pytest.mark.parametrize("kind", ["array", "map"])
def test_depth_cap(kind: str) -> None:
    """VA-09: depth 64 is accepted, 65 and 100,000 are refused both ways, without RecursionError."""
    head = {"array": b"\x81", "map": b"\xa1\x61a"}[kind]
    last = {"array": b"\x80", "map": b"\xa0"}[kind]
    data = canon.PREFIX + head * 63 + last
    assert canon.encode(nested(kind, 64)) == data
    assert canon.decode(data) == nested(kind, 64)
    for levels in (65, 100_000):
        with pytest.raises(SchemaMismatch) as unsaid:
            canon.encode(nested(kind, levels))
        assert unsaid.value.code == "value.too_deep"
        with pytest.raises(NotCanonical) as unread:
            canon.decode(canon.PREFIX + head * (levels - 1) + last)
        assert (unread.value.code, unread.value.offset) == ("cbor.depth", 3 + 64 * len(head))


@pytest.mark.clause("K-12")
def test_size_cap() -> None:
    """VA-09: a document of 16 MiB is accepted, one byte more is refused both ways."""
    room = canon.SIZE_MAX - len(canon.PREFIX) - 5
    full = bytes(room)
    data = canon.encode(full)
    assert len(data) == 16 * 1024 * 1024
    assert canon.decode(data) == full
    with pytest.raises(SchemaMismatch) as unsaid:
        canon.encode(full + b"\x00")
    assert unsaid.value.code == "value.too_large"
    over = canon.PREFIX + canon.put_bytes(full + b"\x00")
    assert len(over) == canon.SIZE_MAX + 1
    with pytest.raises(NotCanonical) as unread:
        canon.decode(over)
    assert (unread.value.code, unread.value.offset) == ("cbor.size", canon.SIZE_MAX)


class Word(str):  # noqa: SLOT000 - a subclass as careless as they come
    """A text that is not exactly a text."""


class Level(enum.IntEnum):
    """An integer that is not exactly an integer."""

    LOW = 1


@pytest.mark.clause("K-12")
@pytest.mark.parametrize(
    ("value", "code"),
    [
        (2**64, "value.out_of_range"),
        (-(2**63) - 1, "value.out_of_range"),
        (math.nan, "value.not_finite"),
        (math.inf, "value.not_finite"),
        (-math.inf, "value.not_finite"),
        ("\ud800", "value.bad_format"),
        ({"\udfff": 1}, "value.bad_format"),
        ({1, 2}, "value.wrong_type"),
        (bytearray(b"a"), "value.wrong_type"),
        (memoryview(b"a"), "value.wrong_type"),
        (1j, "value.wrong_type"),
        (object, "value.wrong_type"),
        (Word("a"), "value.wrong_type"),
        (Level.LOW, "value.wrong_type"),
        ({b"a": 1}, "value.wrong_type"),
        ({None: 1}, "value.wrong_type"),
        ({True: 1}, "value.wrong_type"),
        ({1.5: 1}, "value.wrong_type"),
        ({("a",): 1}, "value.wrong_type"),
        ({2**64: 1}, "value.out_of_range"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_unsayable_values(value: Any, code: str) -> None:
    """VA-02: what the profile cannot say is refused by the encoder, never repaired."""
    for wrapped in (value, [value], {"a": value}):
        with pytest.raises(SchemaMismatch) as caught:
            canon.encode(wrapped)
        assert caught.value.code == code


@pytest.mark.clause("K-12")
def test_memory_of_shapes_accepts_nothing_new() -> None:
    """VA-02: a key that only equals a remembered text is refused before and after it is seen."""
    for known in ("never_seen_before", "seen"):
        if known == "seen":
            canon.encode({known: 1, "other": 2})
        for odd in ({Word(known): 1, "other": 2}, {known: 1, Word("other"): 2}):
            with pytest.raises(SchemaMismatch) as caught:
                canon.encode(odd)
            assert caught.value.code == "value.wrong_type"
    canon.encode({1: 0})
    with pytest.raises(SchemaMismatch):
        canon.encode({True: 0})


@pytest.mark.clause("K-12")
def test_memories_stay_bounded_and_right() -> None:
    """VA-02: thousands of keys of a stranger overflow the memories and change no answer."""
    for n in range(5000):
        key = f"stranger_{n}"
        data = canon.encode({key: n, "a": 0})
        assert canon.decode(data) == {"a": 0, key: n}
    assert max(len(canon._KEYS), len(canon._TEXTS)) <= 4096
    assert len(canon._SHAPES) <= 1024
    assert canon.encode({"b": 2, "a": 1}).hex() == "d9d9f7a2616101616202"


@pytest.mark.clause("K-12")
def test_large_shapes_are_not_remembered() -> None:
    """VA-02: long keys and wide maps are encoded each time anew, and each time the same."""
    long, wide = {"k" * 100: 1, "a": 2}, {f"key_{n:03}": n for n in range(99, -1, -1)}
    for value in (long, wide):
        first = canon.encode(value)
        assert canon.encode(value) == first
        assert list(canon.decode(first)) == sorted(value, key=lambda key: (len(key), key))
        assert tuple(value) not in canon._SHAPES
    assert "k" * 100 not in canon._KEYS


@pytest.mark.clause("K-12")
@pytest.mark.parametrize("raw", [bytes(32), bytes(range(32)), b"\xff" * 32])
def test_digest_as_text_and_back(raw: bytes) -> None:
    """VA-01: a digest has one text, and the text gives the digest."""
    assert canon.text_of(raw) == "sha256:" + raw.hex()
    assert canon.raw_of(canon.text_of(raw)) == raw


@pytest.mark.clause("D3")
def test_type_separates_digests() -> None:
    """VA-01: the same fields under two types have two digests."""
    fields = {"a": 1}
    assert canon.tagged("one@1", fields) != canon.tagged("two@1", fields)
    assert canon.tagged("one@1", fields) == canon.digest({"$type": "one@1", "a": 1})
    assert fields == {"a": 1}
