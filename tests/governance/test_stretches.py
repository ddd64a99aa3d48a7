"""A proof put together from stretches of a history says what the whole history says."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.governance.prove import Ticks, Verdict, verdict_on
from tallystick.governance.stretches import Stretch, stretches
from tallystick.model.cells import CellId

CELL = CellId("t/w@1", b"k")


def told(ticks: list[bool], tail: int | None, since: int = 0) -> Ticks:
    """What a stretch says of ticks, each of which differs or not, as a prover notes it."""
    made = Ticks(CELL, deque(maxlen=tail or 1))
    for place, differs in enumerate(ticks, since):
        if tail is None and made.found:
            break
        made.count += 1
        if differs:
            made.found.append((made.count, {"seq": place}))
    return made


def in_parts(ticks: list[bool], cuts: list[int], tail: int | None) -> Verdict:
    """The verdict from the stretches between the cuts."""
    edges = [0, *sorted({cut for cut in cuts if cut < len(ticks)}), len(ticks)]
    parts = [told(ticks[a:b], tail, a) for a, b in pairwise(edges)]
    return verdict_on((CELL, 9), parts, tail)


def expected(ticks: list[bool], tail: int | None) -> tuple[str, int, int | None]:
    """The model: the first tick that differs among those that count."""
    counted = ticks if tail is None else ticks[-tail:]
    behind = len(ticks) - len(counted)
    at = next((place for place, differs in enumerate(counted, behind) if differs), None)
    if at is None:
        return "identical", len(counted), None
    return "diverges", at + 1 if tail is None else len(counted), at


@pytest.mark.clause("X-21")
@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    ticks=st.lists(st.booleans(), max_size=12),
    cuts=st.lists(st.integers(0, 12), max_size=4),
    tail=st.none() | st.integers(1, 14),
)
def test_parts_say_what_the_whole_says(
    ticks: list[bool], cuts: list[int], tail: int | None
) -> None:
    """AG-23, AG-26: however a history is cut, the verdict, its ticks and its place are the same."""
    found = in_parts(ticks, cuts, tail)
    place = None if found.detail is None else found.detail["seq"]
    assert (found.verdict, found.ticks, place) == expected(ticks, tail)
    assert (found.seq, found.ok) == (9, found.verdict == "identical")


def test_control_a_stretch_that_is_forgotten() -> None:
    """AG-26, control: were only the first stretch looked at, a later difference would be lost."""
    ticks = [False, False, True, False]
    parts = [told(ticks[:2], None), told(ticks[2:], None, 2)]
    assert verdict_on((CELL, 9), parts, None).verdict == "diverges"
    assert verdict_on((CELL, 9), parts[:1], None).verdict == "identical"


def test_stretches_begin_at_snapshots() -> None:
    """AG-26: nearly equal stretches without a gap; where no snapshot is near, the whole."""
    every = range(0, 1001, 50)
    assert stretches(Stretch(0, 1000), every, 1) == [Stretch(0, 1000)]
    assert stretches(Stretch(0, 1000), every, 2) == [Stretch(0, 500), Stretch(500, 1000)]
    assert stretches(Stretch(10, 1000), every, 3) == [
        Stretch(10, 350),
        Stretch(350, 650),
        Stretch(650, 1000),
    ]
    assert stretches(Stretch(0, 1000), [400], 2) == [Stretch(0, 400), Stretch(400, 1000)]
    for none_near in ([], [100], [0, 1000], [2000]):
        assert stretches(Stretch(0, 1000), none_near, 2) == [Stretch(0, 1000)]
    assert stretches(Stretch(0, 1000), [500], 4) == [Stretch(0, 1000)]
