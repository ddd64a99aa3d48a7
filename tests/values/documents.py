"""Golden vectors and random values for the tests of the codec."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from tallystick.errors import NotCanonical
from tallystick.values import canon

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "values"
LETTERS = "abcdefghijklmnopqrstuvwxyz_é水😀"


def load(name: str) -> Any:
    """A golden file."""
    return json.loads((GOLDEN / name).read_text(encoding="ascii"))


def value_of(tree: list[Any]) -> Any:
    """A value from the neutral notation of the golden files."""
    kind = tree[0]
    if kind == "null":
        return None
    if kind == "int":
        return int(tree[1])
    if kind == "bytes":
        return bytes.fromhex(tree[1])
    if kind == "float":
        return struct.unpack(">d", bytes.fromhex(tree[1]))[0]
    if kind == "array":
        return [value_of(item) for item in tree[1]]
    if kind == "map":
        return {value_of(key): value_of(item) for key, item in tree[1]}
    assert kind in ("bool", "text"), kind
    return tree[1]


def refused_documents() -> list[tuple[bytes, str, int]]:
    """Every refused document with its code and offset."""
    rows = []
    for row in load("refused.json"):
        data = bytes.fromhex(row["hex"])
        if "pad" in row:
            data += bytes.fromhex(row["pad"]["byte"]) * row["pad"]["count"]
        rows.append((data, row["code"], row["offset"]))
    return rows


def outcome(data: bytes) -> tuple[Any, NotCanonical | None]:
    """What decoding gives: a value, or the refusal; any other exception is a bug and passes."""
    try:
        return canon.decode(data), None
    except NotCanonical as refusal:
        return None, refusal


def integer(rng: Random) -> int:
    """An integer of any width, with a liking for the edges of heads."""
    n = rng.getrandbits(rng.choice((3, 5, 8, 9, 16, 17, 32, 33, 63)))
    return n if rng.random() < 0.6 else -1 - n


def text(rng: Random) -> str:
    """A text, mostly short."""
    size = rng.randrange(30) if rng.random() < 0.95 else rng.randrange(300)
    return "".join(rng.choices(LETTERS, k=size))


def fraction(rng: Random) -> float:
    """A float that is not integral within 2^53, so that every codec keeps it a float."""
    value = 0.0
    while value == int(value):
        value = (rng.random() - 0.5) * 10.0 ** rng.randrange(-40, 12)
        if rng.random() < 0.5:
            value = rng.randrange(-4000, 4000) / 2.0 ** rng.randrange(1, 20)
    return value


def value(rng: Random, depth: int = 3, keys: str = "text") -> Any:
    """A random value; keys are `text`, or `mixed` texts and integers."""
    # Near the root mostly containers, at the bottom only leaves.
    kind = rng.randrange(6 if depth > 1 else 0, 11 if depth else 8)
    if kind < 2:
        return integer(rng)
    if kind < 4:
        return text(rng)
    if kind == 4:
        return rng.randbytes(rng.randrange(40))
    if kind == 5:
        return rng.choice((None, True, False))
    if kind < 8:
        return fraction(rng)
    if kind == 8:
        return [value(rng, depth - 1, keys) for _ in range(rng.randrange(6))]
    return {
        (integer(rng) if keys == "mixed" and rng.random() < 0.5 else text(rng)): value(
            rng, depth - 1, keys
        )
        for _ in range(rng.randrange(7))
    }


def documents_strategy() -> st.SearchStrategy[Any]:
    """Any value of the profile, for property tests."""
    keys = st.text(max_size=8) | st.integers(-(2**63), 2**64 - 1)
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.text(max_size=30)
        | st.binary(max_size=40)
        | st.floats(allow_nan=False, allow_infinity=False)
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
        max_leaves=12,
    )
