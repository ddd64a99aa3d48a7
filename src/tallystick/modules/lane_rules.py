"""The rules of the Python lane, read once from `lane1.toml`.

They are package data and constants, like our own definitions: a published lane never changes.
"""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any, Final

from tallystick.errors import BadDefinition
from tallystick.workflow.sets import ORDERED

LANES: Final = {1: "lane1.toml"}


@dataclass(frozen=True, slots=True)
class Rules:
    """What code of one lane may import and call, and how large things may get."""

    lane: int
    imports: Mapping[str, tuple[str, ...]]
    builtins: frozenset[str]
    banned: frozenset[str]
    items_max: int
    repeat_max: int
    bits_max: int
    product_bits_max: int

    @property
    def engine(self) -> str:
        """The name of the lane in tick records."""
        return f"python/{self.lane}"


def _read(lane: int, file: str) -> Rules:
    text = (resources.files("tallystick.modules") / file).read_text("utf-8")
    raw = tomllib.loads(text)
    return Rules(
        lane=lane,
        imports={name: tuple(rows) for name, rows in raw["imports"].items()},
        builtins=frozenset(raw["builtins"]["plain"]),
        banned=frozenset(raw["builtins"]["banned"]),
        **raw["limits"],
    )


# Read at import, so that no run of the machine touches the disk.
RULES: Final[Mapping[int, Rules]] = {lane: _read(lane, file) for lane, file in LANES.items()}


def rules_of(lane: int) -> Rules:
    """The rules of a lane; refuses one of a newer release."""
    if lane not in RULES:
        message = f"this release has no lane {lane}"
        hint = f"it has {sorted(RULES)}; build the bundle again, or use a newer release"
        raise BadDefinition(message, code="lane.unknown", hint=hint)
    return RULES[lane]


# Also in place, because a view cannot be changed and gives a new set there.
_ALGEBRA: Final = frozenset(
    ["and_", "iand", "ior", "isub", "ixor", "or_", "sub", "xor"],
)


@cache
def facade(lane: int, name: str) -> ModuleType:
    """The part of an allowed module that code of the lane sees: names, and nothing behind them."""
    real = importlib.import_module(name)
    made = ModuleType(name)
    for public in names_of(lane, name):
        found = getattr(real, public)
        is_algebra = name == "operator" and public in _ALGEBRA
        setattr(made, public, _owning(found) if is_algebra else found)
    return made


def _owning(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator whose sets have an order: those of two views of tables would have none."""

    def combined(left: Any, right: Any, /) -> Any:
        made = operator(left, right)
        return ORDERED[set](made) if type(made) is set else made

    return combined


@cache
def names_of(lane: int, name: str) -> frozenset[str]:
    """The names of an allowed module."""
    real: Any = importlib.import_module(name)
    listed = RULES[lane].imports[name]
    found = {word for word in listed if word[0] not in "*-"}
    if "*" in listed:
        found |= {word for word in _public(real) if not word.startswith("_")}
    return frozenset(found - {word[1:] for word in listed if word.startswith("-")})


def _public(real: Any) -> list[str]:
    return list(getattr(real, "__all__", None) or vars(real))
