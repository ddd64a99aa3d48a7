"""A run through the pure rooms, for `tests/test_contracts.py` to repeat among traps (ST-03).

Everything is imported and prepared when the file is loaded; `roots` runs after clock, chance,
disk and wire are trapped, and yields lines that must be equal under every hash seed.
Each room adds one function to `PARTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tallystick.model import sys_definitions
from tallystick.values import canon
from tallystick.values.expr import compile_expression


def canonical_bytes() -> Iterator[str]:
    """Values: one encoding, whatever the order of the keys."""
    yield canon.hash({"b": [1, None, True], "a": {"y": b"x", "x": "text"}})
    yield canon.hash({"a": {"x": "text", "y": b"x"}, "b": [1, None, True]})


def expressions() -> Iterator[str]:
    """Values: an expression over equal values gives an equal value and equal names."""
    expression = compile_expression("order.lines | length > limit")
    yield str(expression.evaluate({"order": {"lines": [1, 2]}, "limit": 1}))
    yield " ".join(sorted(expression.names))


def definitions() -> Iterator[str]:
    """Model: our own definitions hash alike."""
    for kind, name in sys_definitions.DEFINITIONS:
        yield f"{kind} {name} {sys_definitions.hash_of(kind, name)}"


PARTS: tuple[Callable[[], Iterator[str]], ...] = (
    canonical_bytes,
    expressions,
    definitions,
)


def roots() -> Iterator[str]:
    """The lines of all parts."""
    for part in PARTS:
        yield from part()
