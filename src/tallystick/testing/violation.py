"""Violations: what a checker raises when its invariant does not hold."""

from __future__ import annotations


class Violation(Exception):  # noqa: N818 - what a run finds, not an error of the product
    """An invariant does not hold."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        self.message = message


def must(good: bool, invariant: str, message: str) -> None:
    """Raise unless it holds."""
    if not good:
        raise Violation(invariant, message)
