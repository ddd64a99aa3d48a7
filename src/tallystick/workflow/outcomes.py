"""Outcomes: what a settled effect becomes for the code that matches on it.

Each effect class gets subclasses of these for itself, so `Charge.Ok` and `Timer.Ok` are told apart
by class and no `match` needs a string.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The end of one effect: `corr` is what the request was called, `at` when it was delivered."""

    corr: str = ""
    intent: str = ""
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ok(Settled):
    """It was done; `value` is its receipt."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Settled):
    """It was not done, or nobody can tell; the subclass says how."""

    kind: str = ""
    code: str = ""
    message: str = ""
    retryable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Error(Failed):
    """The executor says that it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout(Failed):
    """The deadline passed; the outside may have been touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied(Failed):
    """Admission said no; `rule` is the rule that did."""

    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(Failed):
    """The receipt could not be read (K-17)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Failed):
    """It was cancelled before it was settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """News about an open effect; it settles nothing (K-27)."""

    corr: str
    intent: str
    at: int
    seq: int
    kind: str
    payload: Any


# Bases before those that build on them.
SHAPES: Final[dict[str, tuple[type, tuple[str, ...]]]] = {
    "Settled": (Settled, ()),
    "Ok": (Ok, ("Settled",)),
    "Failed": (Failed, ("Settled",)),
    "Error": (Error, ("Failed",)),
    "Timeout": (Timeout, ("Failed",)),
    "Denied": (Denied, ("Failed",)),
    "Rejected": (Rejected, ("Failed",)),
    "Cancelled": (Cancelled, ("Failed",)),
    "Progress": (Progress, ()),
}


def outcomes_of(effect: type) -> dict[str, type]:
    """The outcome classes of one effect, by name; each says in `tally_effect` whose it is."""
    made: dict[str, type] = {}
    for name, (shape, parents) in SHAPES.items():
        bases = (*(made[parent] for parent in parents), shape)
        body = {"__slots__": (), "tally_effect": effect, "__module__": effect.__module__}
        made[name] = type(name, bases, {**body, "__qualname__": f"{effect.__qualname__}.{name}"})
    return made
