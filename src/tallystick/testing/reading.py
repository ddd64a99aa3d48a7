"""Reading a frame against what a model expects: each record is taken, or the two differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallystick.testing.violation import LOOKED, Violation


class Reading:
    """The records of one frame, in order; a model takes them one by one."""

    def __init__(self) -> None:
        self.seq = 0
        self.left: list[Any] = []  # records of the frame that are not explained yet

    def begin(self, seq: int, records: Sequence[Any]) -> str:
        """A new frame; gives the kind of its first record."""
        self.seq, self.left = seq - 1, list(records)
        return type(records[0]).__name__

    def finish(self) -> None:
        """Differ if anything was left."""
        self.must(not self.left, "I17", f"{[type(r).__name__ for r in self.left]} unexplained")

    def must(self, good: bool, invariant: str, message: str) -> None:
        """Differ unless it holds."""
        LOOKED[invariant] += 1
        if not good:
            raise Violation(invariant, f"at seq {self.seq}: {message}")

    def take(self, name: str, invariant: str = "I17", **wanted: Any) -> Any:
        """The next record of the frame, which must be this one."""
        self.seq += 1
        self.must(bool(self.left), invariant, f"{name} is missing")
        record = self.left.pop(0)
        got = type(record).__name__
        self.must(got == name, invariant, f"{got} where the model has {name}")
        for field, value in wanted.items():
            found = getattr(record, field)
            self.must(found == value, invariant, f"{name}.{field} is {found!r}, not {value!r}")
        return record

    def drops(self, unread: Sequence[Any]) -> None:
        """Mail that nobody will read leaves sixteen records at most, and a count."""
        for _ in unread[:16]:
            self.take("Dropped", what="mail")
        if len(unread) > 16:
            self.take("Noted", topic="mail.dropped")
