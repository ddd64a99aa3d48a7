"""Stretches: where a history is cut, so that several can run parts of it at a time.

A stretch begins where a snapshot was taken: nobody has to fold what another one runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple


class Stretch(NamedTuple):
    """The frames behind one sequence, up to another."""

    after: int
    upto: int


def stretches(whole: Stretch, snapshots: Iterable[int], count: int) -> list[Stretch]:
    """So many stretches of nearly the same length; only the whole one where that cannot be."""
    after, upto = whole
    between = [seq for seq in snapshots if after < seq < upto]
    length = (upto - after) / count
    cuts = [after, *(_nearest(between, after + length * n) for n in range(1, count)), upto]
    made = [Stretch(*pair) for pair in pairwise(cuts)]
    # Folding a frame costs about half of running its tick: a longer one is better shared by cells.
    fair = all(0 < each.upto - each.after <= 1.5 * length for each in made)
    return made if fair else [whole]


def _nearest(places: list[int], wanted: float) -> int:
    return min(places, key=lambda seq: abs(seq - wanted), default=-1)
