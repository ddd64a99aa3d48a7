"""Putting a broken part in place of a good one, for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def swapped(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Each (owner, name, broken part) for the length of the block."""
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, broken in changes:
        setattr(owner, name, broken)
    try:
        yield
    finally:
        for owner, name, good in reversed(kept):
            setattr(owner, name, good)


@contextmanager
def refolded(kind: type, broken: Callable[[Any, Any], None]) -> Iterator[None]:
    """Another fold for one kind of record."""
    from tallystick.kernel.fold import _FOLDS

    good = _FOLDS[kind]
    _FOLDS[kind] = broken
    try:
        yield
    finally:
        _FOLDS[kind] = good
