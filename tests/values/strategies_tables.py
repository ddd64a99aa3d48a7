"""What the tables of the schema tests share: types, spellings and Python classes of one value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Any

import msgspec

HASH = "sha256:" + "0f" * 32
UUID_TEXT = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
POINT = {"record": {"x": {"int": {}}, "y": {"option": {"int": {}}}}}
SHAPE = {"variant": {"Ok": {"record": {"n": {"int": {}}}}, "Idle": {"unit": {}}}}
NATIVE, SUGAR, TAGGED = "native", "sugar", "tagged"


@dataclass(frozen=True)
class Point:
    x: int
    y: int | None = None


class PointStruct(msgspec.Struct):
    x: int
    y: int | None = None


@dataclass(frozen=True)
class Ok:
    n: int


class Small(IntEnum):
    ONE = 1


class Word(StrEnum):
    A = "a"


class Arm(Enum):
    Idle = 7


class Plain(Mapping[str, Any]):
    def __init__(self, inner: dict[str, Any]) -> None:
        self.inner = inner
        self.looks: list[str] = []

    def __getitem__(self, key: str) -> Any:
        self.looks.append(key)
        return self.inner[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)


def rows(table: list[Any]) -> list[str]:
    """Row numbers: the values of a row may be long, or have an address in their text."""
    return [f"row{i}" for i in range(len(table))]


BIG = 2**64
TEXT_MAP = {"map": {"key": {"text": {}}, "value": {"int": {}}}}
INT_MAP = {"map": {"key": {"int": {}}, "value": {"int": {}}}}
UUID_MAP = {"map": {"key": {"uuid": {}}, "value": {"int": {}}}}
DEEP: Any = []
for _ in range(64):
    DEEP = [DEEP]
