"""What the writers of frames remember is bounded, and forgetting changes no byte (I20, I42)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.errors import TickFault
from tallystick.model import bundle_python, frames, hot
from tallystick.model.abi import read_effect

# The memory, how its keys are made, and its bound.
BOUNDED: list[tuple[Any, Callable[[int], Any], int]] = [
    (frames._Starts, lambda n: f"n{n}", frames._STARTS_MAX),
    (hot._Ran, lambda n: ("e", n & 1, f"n{n}", 1, "w", n, bytes(32), 1, bytes(32)), hot._RAN_MAX),
]


@pytest.mark.invariant("I42")
@pytest.mark.parametrize(("kind", "key", "most"), BOUNDED)
def test_a_full_memory_gives_the_same_and_grows_no_more(
    kind: Any, key: Callable[[int], Any], most: int
) -> None:
    """I20, I42: behind its bound a part is made each time, equal to what a fresh one makes."""
    full = kind()
    for number in range(most + 3):
        assert full[key(number)]
    assert len(full) == most
    assert full[key(most + 2)] == kind()[key(most + 2)]


def test_vendored_packages_are_known_by_their_folders() -> None:
    """K-01: dist and version of each, once, in order; what stands elsewhere is none."""
    files = ["vendor/b-1.0/b.py", "vendor/a-x-2/a.py", "vendor/a-x-2/c.py", "app.py"]
    assert bundle_python.vendored_in(files) == [("a-x", "2"), ("b", "1.0")]


def test_an_unusual_request_is_read_the_slow_way() -> None:
    """X-04: the usual fields with an unusual value are judged like any other."""
    with pytest.raises(TickFault) as caught:
        read_effect({"effect": "a/b@1", "params": {}, "cap_slot": None}, b"params")
    assert caught.value.code == "bad_output"
