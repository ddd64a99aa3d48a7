"""Canonical bytes under mutation, and against another codec."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import cbor2
import pytest

from tallystick.errors import NotCanonical
from tallystick.values import canon
from tests.values import documents


@pytest.mark.clause("K-12")
def test_single_byte_mutations() -> None:
    """VA-03: of 10,000 documents with one byte changed, each is refused or is another value."""
    rng = Random(20_261)
    refused = 0
    for _ in range(10_000):
        original = canon.encode(documents.value(rng, keys="mixed"))
        at = rng.randrange(len(original))
        flipped = original[at] ^ rng.randrange(1, 256)
        mutated = original[:at] + bytes((flipped,)) + original[at + 1 :]
        value, refusal = documents.outcome(mutated)
        if refusal is None:
            # Equal bytes would be the old value; other canonical bytes are another one.
            assert canon.encode(value) == mutated != original
        else:
            refused += 1
            assert 0 <= refusal.offset <= len(mutated)
    assert 1000 < refused < 10_000


@pytest.mark.clause("K-12")
@pytest.mark.parametrize("head", ["5a", "7a", "9a", "ba", "5b", "7b", "9b", "bb"])
def test_memory_is_bounded_by_input(head: str) -> None:
    """VA-03: a length that promises gigabytes is refused before anything is allocated for it."""
    width = 4 if head.endswith("a") else 8
    for nesting in (0, 1, 60):
        promise = bytes.fromhex("81" * nesting + head) + b"\x7f" * width
        data = canon.PREFIX + promise + bytes(64)
        tracemalloc.start()
        try:
            with pytest.raises(NotCanonical) as caught:
                canon.decode(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert caught.value.code == "cbor.truncated"
        assert caught.value.offset == 3 + nesting
        assert peak < 200_000


@pytest.mark.clause("D3")
def test_equal_to_cbor2() -> None:
    """VA-04: on 30,000 text-keyed values the item equals the canonical one of cbor2."""
    rng = Random(8949)
    for _ in range(30_000):
        value = documents.value(rng, depth=2)
        assert canon.encode_item(value) == cbor2.dumps(value, canonical=True)


def bytewise(value: Any) -> bytes:
    """A slow and plain reference: cbor2 for the leaves, our order for the keys."""
    if isinstance(value, list):
        return canon.head(4, len(value)) + b"".join(bytewise(item) for item in value)
    if isinstance(value, dict):
        pairs = sorted((cbor2.dumps(key), bytewise(item)) for key, item in value.items())
        return canon.head(5, len(value)) + b"".join(key + item for key, item in pairs)
    return cbor2.dumps(value, canonical=True)


@pytest.mark.clause("D3")
def test_bytewise_where_cbor2_is_length_first() -> None:
    """VA-04: mixed keys are ordered bytewise; cbor2 puts the shorter key first."""
    rng = Random(7049)
    differing = 0
    for _ in range(3000):
        value = documents.value(rng, depth=2, keys="mixed")
        mine = canon.encode_item(value)
        assert mine == bytewise(value)
        differing += mine != cbor2.dumps(value, canonical=True)
    assert differing > 50
    assert list(canon.decode(canon.encode({-1: 0, 100: 0, 10: 0}))) == [10, 100, -1]
    assert list(cbor2.loads(cbor2.dumps({-1: 0, 100: 0, 10: 0}, canonical=True))) == [10, -1, 100]
