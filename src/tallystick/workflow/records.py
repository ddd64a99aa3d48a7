"""`Record`: the frozen value class that state, events and parameters are written with.

A record is a frozen, slotted dataclass whose fields are given by keyword, so type checkers know it.
The metaclass makes it one, because a decorator would have to be repeated on every class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Self, dataclass_transform


class Named(NamedTuple):
    """What the class keywords say about a definition's name."""

    name: str | None
    version: int

    def full(self, namespace: str, class_name: str) -> str:
        """The name of the definition: a full one as it is, else inside the namespace."""
        if self.name is not None and "/" in self.name:
            return self.name
        return f"{namespace}/{self.name or class_name}@{self.version}"


class FieldSlot(NamedTuple):
    """One field: how it is read and how a new record gets it, past the frozen `__setattr__`."""

    name: str
    get: Callable[[Any], Any]
    set: Callable[[Any, Any], None]


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
class RecordType(type):
    """Makes each subclass of `Record` a frozen, slotted, keyword-only dataclass."""

    tally_named: Named
    tally_slots: tuple[FieldSlot, ...]

    def __new__(
        mcs,
        class_name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        name: str | None = None,
        version: int = 1,
    ) -> Any:
        """The class; `name` and `version` say how its definition is called."""
        if "__dataclass_fields__" in namespace:
            # `dataclass` makes a slotted class by calling us again with what it has collected.
            return super().__new__(mcs, class_name, bases, namespace)
        namespace["tally_named"] = Named(name, version)
        plain = super().__new__(mcs, class_name, bases, namespace)
        made: Any = dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(plain)
        made.tally_slots = tuple(
            FieldSlot(f.name, getattr(made, f.name).__get__, getattr(made, f.name).__set__)
            for f in dataclasses.fields(made)
        )
        return made

    def __init__(cls, class_name: str, bases: Any, namespace: Any, /, **_named: Any) -> None:
        super().__init__(class_name, bases, namespace)


class Record(metaclass=RecordType):
    """Base of everything that has a schema: `class Greet(Record): name: str`."""

    def replace(self, **changes: Any) -> Self:
        """The same record with other values in the named fields; refuses unknown fields."""
        made = object.__new__(type(self))
        left = len(changes)
        for name, get, set_ in type(self).tally_slots:
            if name in changes:
                set_(made, changes[name])
                left -= 1
            else:
                set_(made, get(self))
        if left:
            known = {slot.name for slot in type(self).tally_slots}
            wrong = sorted(name for name in changes if name not in known)
            raise TypeError(f"{type(self).__name__} has no field {', '.join(wrong)}")
        return made
