"""`Record`: the frozen value class that state, events and parameters are written with.

A record is a frozen, slotted dataclass whose fields are given by keyword, so type checkers know it.
The metaclass makes it one, because a decorator would have to be repeated on every class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, Self, dataclass_transform

from tallystick.errors import BadDefinition


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
    """One field: how it is read, and how a new record gets it, past the refusing `__setattr__`."""

    name: str
    get: Callable[[Any], Any]
    set: Callable[[Any, Any], None]


_MISSING: Final = dataclasses.MISSING
# The methods stand once in `Record`: writing them for every class is what makes dataclasses slow to
# define, and a space of the lane defines all of its classes anew.
_sliced = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
class RecordType(type):
    """Makes each subclass of `Record` a frozen, slotted, keyword-only dataclass."""

    tally_named: Named
    tally_slots: tuple[FieldSlot, ...]
    tally_defaults: dict[str, Any]
    tally_factories: dict[str, Callable[[], Any]]

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
        _refuse_mutable(class_name, namespace)
        namespace["tally_named"] = Named(name, version)
        namespace.setdefault("__doc__", class_name)
        plain = super().__new__(mcs, class_name, bases, namespace)
        made: Any = _sliced(plain)
        fields = dataclasses.fields(made)
        made.tally_slots = tuple(
            FieldSlot(f.name, getattr(made, f.name).__get__, getattr(made, f.name).__set__)
            for f in fields
        )
        made.tally_defaults = {f.name: f.default for f in fields if f.default is not _MISSING}
        made.tally_factories = {
            f.name: f.default_factory for f in fields if f.default_factory is not _MISSING
        }
        return made

    def __init__(cls, class_name: str, bases: Any, namespace: Any, /, **_named: Any) -> None:
        super().__init__(class_name, bases, namespace)


def _refuse_mutable(class_name: str, namespace: dict[str, Any]) -> None:
    """Refuse a default that all records of a class would share."""
    for name in namespace.get("__annotations__", ()):
        kind = type(namespace.get(name))
        if kind in (list, dict, set):
            message = f"{class_name}.{name} has a default that could change"
            hint = f"from dataclasses import field, then = field(default_factory={kind.__name__})"
            where = {"path": f"/{name}"}
            raise BadDefinition(message, code="schema.unsupported", where=where, hint=hint)


class Record(metaclass=RecordType):
    """Base of everything that has a schema: `class Greet(Record): name: str`."""

    def __init__(self, **given: Any) -> None:
        cls = type(self)
        left = len(given)
        for name, _, set_ in cls.tally_slots:
            if name in given:
                set_(self, given[name])
                left -= 1
            elif name in cls.tally_defaults:
                set_(self, cls.tally_defaults[name])
            elif name in cls.tally_factories:
                set_(self, cls.tally_factories[name]())
            else:
                raise TypeError(f"{cls.__name__} needs {name}")
        if left:
            _refuse_unknown(cls, given)

    def __setattr__(self, name: str, _value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: use replace")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be taken away")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(get(self) == get(other) for _, get, _ in type(self).tally_slots)

    def __hash__(self) -> int:
        return tuple(get(self) for _, get, _ in type(self).tally_slots).__hash__()

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={get(self)!r}" for name, get, _ in type(self).tally_slots)
        return f"{type(self).__qualname__}({held})"

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
            _refuse_unknown(type(self), changes)
        return made


def _refuse_unknown(cls: RecordType, given: dict[str, Any]) -> NoReturn:
    known = [slot.name for slot in cls.tally_slots]
    wrong = sorted(name for name in given if name not in known)
    raise TypeError(f"{cls.__name__} has no field {', '.join(wrong)}")
