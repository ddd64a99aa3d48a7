"""One evaluation: what it reads, what it may still spend, and what it did not find.

Theory of operation.
Three budgets bound every evaluation: steps (nodes evaluated and items visited), room (bytes of
intermediate values) and the size of the result.
Each is charged *before* the work, so a hostile expression fails before it allocates.
Values are shared, never copied, so a small program can describe a huge tree (`[a, a]` again and
again); that is why whatever nests or repeats a value is charged by its whole written-out size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.values.expr.fault import BUDGET, TYPE, fault

STEPS_MAX: Final = 10_000
RESULT_MAX: Final = 64 * 1024
ROOM_MAX: Final = 1024 * 1024
DEPTH_MAX: Final = 64


class Missing:
    """The mark of an argument that was not given."""

    __slots__ = ()


MISSING: Final = Missing()


class Undefined:
    """A path that led nowhere; it is falsy, equal to null and renders empty."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


class Run:
    """The state of one evaluation."""

    __slots__ = ("local", "made", "room", "scope", "steps", "strict", "undefined", "written")

    def __init__(self, scope: Mapping[str, Any], steps: int, strict: bool) -> None:
        self.scope = scope
        self.local: dict[str, Any] | None = None
        self.steps = steps
        self.room = ROOM_MAX
        self.written = 0
        self.strict = strict
        self.undefined: dict[str, None] = {}
        # Containers that were made and measured here, by identity: value, size, depth.
        self.made: dict[int, tuple[Any, int, int]] = {}

    def spend(self, steps: int) -> None:
        """Pay for steps before taking them."""
        self.steps -= steps
        if self.steps < 0:
            raise fault(BUDGET, f"over {STEPS_MAX} steps")

    def charge(self, size: int) -> None:
        """Pay for bytes before making them."""
        self.room -= size
        if self.room < 0:
            raise fault(BUDGET, f"over {ROOM_MAX} bytes of intermediate values")

    def charge_deep(self, value: Any) -> None:
        """Pay for a value as if it were written out.

        What a container holds of others that were measured before is not measured again: a value
        that doubles itself costs no more than its steps.
        """
        known = self.made.get(id(value))
        if known is not None:
            size, depth = known[1], known[2]
        elif type(value) is list or type(value) is dict:
            size, depth = self._measured(value)
        else:
            self.room -= written_size(value, self.room)
            return
        if depth >= DEPTH_MAX:
            raise fault(BUDGET, f"a value is nested over {DEPTH_MAX} levels")
        if size > self.room:
            raise fault(BUDGET, "a value is too large")
        self.made[id(value)] = (value, size, depth)
        self.room -= size + 8

    def _measured(self, value: Any) -> tuple[int, int]:
        """Size and depth of a container whose parts were measured when they were made."""
        if type(value) is list:
            size, parts = 8 * len(value), value
        else:
            size, parts = 16 * len(value), [*value.keys(), *value.values()]
        if size > self.room:
            raise fault(BUDGET, "a value is too large")
        depth = 0
        for part in parts:
            kind = type(part)
            if kind is str:
                size += text_size(part)
            elif kind is int or part is None or kind is bool or kind is float:
                continue
            else:
                known = self.made.get(id(part))
                if known is None:
                    # One of the scope: it is looked at level by level, within what is left.
                    known = self.made[id(part)] = (part, *written(part, self.room))
                size, depth = size + known[1], max(depth, known[2])
            if size > self.room:
                raise fault(BUDGET, "a value is too large")
        return size, depth + 1

    def miss(self, path: str) -> Undefined:
        """Note a path that led nowhere."""
        self.undefined[path] = None
        return Undefined(path)

    def chain(self, base: Undefined, path: str) -> Undefined:
        """Note the longer path instead of the one it begins with."""
        self.undefined.pop(base.path, None)
        return self.miss(path)


def text_size(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def written_size(value: Any, room: int) -> int:
    """The size of a value written out; over `room` bytes or 64 levels is a fault."""
    return written(value, room)[0] + 8


# tidy: the one walk over values; its cases stand together so that none is forgotten.
def written(value: Any, room: int) -> tuple[int, int]:
    """Size and depth of a value written out; over `room` bytes or 64 levels is a fault.

    Walks level by level, and each list is counted before it is opened.
    """
    total = 0
    level = [value]
    depth = 0
    while level:
        depth += 1
        if depth > DEPTH_MAX:
            raise fault(BUDGET, f"a value is nested over {DEPTH_MAX} levels")
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                total += text_size(item)
            elif kind is list:
                total += 8 * len(item)
                if total <= room:
                    below += item
            elif kind is dict or isinstance(item, Mapping):
                total += 16 * len(item)
                if total <= room:
                    below += item.keys()
                    below += item.values()
            elif kind is bytes:
                total += len(item)
            elif not (item is None or kind is int or kind is bool or kind is float):
                raise fault(TYPE, "a value of the scope is of no type of the language")
            if total > room:
                raise fault(BUDGET, "a value is too large")
        level = below
    return total, depth - 1
