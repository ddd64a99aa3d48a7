"""Violations: what a checker raises when its invariant does not hold."""

from __future__ import annotations

from collections import Counter


class Violation(Exception):  # noqa: N818 - what a run finds, not an error of the product
    """An invariant does not hold."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        self.message = message


# How often each invariant was looked at since somebody last cleared it: a checker that is never
# asked proves nothing.
LOOKED: Counter[str] = Counter()


def must(good: bool, invariant: str, message: str) -> None:
    """Raise unless it holds."""
    LOOKED[invariant] += 1
    if not good:
        raise Violation(invariant, message)
