"""What a filter, test, function or method takes: names in order, some of them required."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Signature:
    """A callable of the language; `tolerant` ones may be given an undefined subject.

    `skipped` has what stands for each argument that may be passed over to give a later one.
    """

    work: Callable[..., Any]
    takes: tuple[str, ...] = ()
    needs: int = 0
    tolerant: bool = False
    skipped: tuple[Any, ...] = ()


def table(**entries: tuple[Any, ...]) -> Mapping[str, Signature]:
    """A table from `name=(work, "first second", needed, tolerant, skipped)`; the tail may lack."""
    return {name: _signature(*entry) for name, entry in entries.items()}


def _signature(
    work: Callable[..., Any],
    takes: str = "",
    needs: int = 0,
    tolerant: bool = False,
    skipped: tuple[Any, ...] = (),
) -> Signature:
    return Signature(work, tuple(takes.split()), needs, tolerant, skipped)
