"""Types from Python annotations (01 section 6).

The derived expression is ordinary JSON: it is printed, diffed and hashed like a hand-written one.
What has no canonical form is refused, with the hint that says what to use.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NoReturn
from uuid import UUID

from tallystick.errors import BadDefinition
from tallystick.values import names
from tallystick.values.schema.pointer import under

HINT = "use Decimal, or Json for free-form data"
# Said besides the hint; by name, because workflow code has sets of its own.
_BARE: Mapping[str, str] = {
    "list": "say of what, as list[str]",
    "tuple": "say of what, as tuple[str, ...]",
    "set": "say of what, as frozenset[str]",
    "frozenset": "say of what, as frozenset[str]",
    "dict": "say of what, as dict[str, int]",
}


NameOf = Callable[[type], str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Marker:
    """Says in an annotation which type is meant where Python has no word of its own."""

    kind: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Bounds in an annotation: `Annotated[str, Where(max_len=80)]`."""

    min: int | str | None = None
    max: int | str | None = None
    min_len: int | None = None
    max_len: int | None = None
    pattern: str | None = None
    one_of: tuple[str, ...] | None = None

    def written(self) -> dict[str, Any]:
        """The bounds as a `where` expression has them."""
        found: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            bound = getattr(self, field.name)
            if bound is not None:
                found[field.name] = list(bound) if field.name == "one_of" else bound
        return found


Nat = Annotated[int, Marker("nat")]
Time = Annotated[int, Marker("time")]
Duration = Annotated[int, Marker("duration")]
Hash = Annotated[str, Marker("hash")]
Json = Annotated[Any, Marker("json")]

_SCALARS: Mapping[Any, str] = {
    bool: "bool",
    int: "int",
    str: "text",
    bytes: "bytes",
    Decimal: "dec128",
    datetime: "time",
    timedelta: "duration",
    UUID: "uuid",
    None: "unit",
    type(None): "unit",
}


def type_of(annotation: Any, name_of: NameOf | None = None) -> dict[str, Any]:
    """The type expression of an annotation.

    A class for which `name_of` has a name becomes a ref to it.
    Refuses with `schema.unsupported`, the path of the field, and a hint.
    """
    return _Deriver(name_of).type_of(annotation, "")


def record_of(cls: type, name_of: NameOf | None = None) -> dict[str, Any]:
    """The record behind a class, also when the class itself has a name; its fields may be refs."""
    return _Deriver(name_of).record(cls, "")


class _Deriver:
    def __init__(self, name_of: NameOf | None) -> None:
        self.name_of = name_of
        self.open: list[type] = []

    def type_of(self, annotation: Any, path: str) -> dict[str, Any]:
        annotation = _unaliased(annotation)
        try:
            kind = _SCALARS.get(annotation)
        except TypeError:  # an annotation that cannot be hashed, as Literal of a list
            kind = None
        if kind is not None:
            return {kind: {}}
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            return self.annotated(annotation, path)
        if origin in (typing.Union, types.UnionType):
            return self.union(typing.get_args(annotation), path)
        if origin is typing.Literal:
            return _units(typing.get_args(annotation), path)
        if origin is not None:
            return self.generic(origin, typing.get_args(annotation), annotation, path)
        if isinstance(annotation, type):
            return self.cls(annotation, path)
        return _refuse(f"{annotation!r} has no canonical form", path)

    def annotated(self, annotation: Any, path: str) -> dict[str, Any]:
        inner, *notes = typing.get_args(annotation)
        made: dict[str, Any] | None = None
        bounds: dict[str, Any] = {}
        for note in notes:
            if isinstance(note, Marker):
                made = {note.kind: {}}
            elif isinstance(note, Where):
                bounds.update(note.written())
        if made is None:
            made = self.type_of(inner, path)
        return {"where": {"type": made, **bounds}} if bounds else made

    def union(self, members: tuple[Any, ...], path: str) -> dict[str, Any]:
        some = [member for member in members if member is not type(None)]
        optional = len(some) < len(members)
        made = self.type_of(some[0], path) if len(some) == 1 else self.variant(some, path)
        if not optional:
            return made
        if "option" in made or "json" in made:
            _refuse("null could mean two things here", path, "ambiguous_option")
        return {"option": made}

    def variant(self, members: list[Any], path: str) -> dict[str, Any]:
        arms: dict[str, Any] = {}
        for member in members:
            if not isinstance(member, type) or not _has_fields(member):
                message = "a union is of records, tagged by class name: make each a Record"
                _refuse(message, path)
            if member.__name__ in arms:
                _refuse(f"two classes are named {member.__name__}", path, "bad_name")
            arms[member.__name__] = self.type_of(member, under(path, member.__name__))
        return {"variant": arms}

    def generic(
        self, origin: Any, args: tuple[Any, ...], annotation: Any, path: str
    ) -> dict[str, Any]:
        if origin is list:
            return {"list": self.type_of(args[0], path)}
        if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
            return {"list": self.type_of(args[0], path)}
        if origin in (set, frozenset):
            return {"set": self.type_of(args[0], path)}
        if origin is dict:
            key, value = self.type_of(args[0], path), self.type_of(args[1], path)
            return {"map": {"key": key, "value": value}}
        return _refuse(f"{annotation!r} has no canonical form", path)

    def cls(self, cls: type, path: str) -> dict[str, Any]:
        if issubclass(cls, Enum):
            return _units(tuple(cls.__members__), path)
        if not _has_fields(cls):
            return _refuse(f"{cls.__name__} has no canonical form{_better(cls)}", path)
        name = self.name_of(cls) if self.name_of is not None else None
        return {"ref": name} if name is not None else self.record(cls, path)

    def record(self, cls: type, path: str) -> dict[str, Any]:
        if cls in self.open:
            _refuse(f"{cls.__name__} contains itself", path, "recursive")
        self.open.append(cls)
        fields: dict[str, Any] = {}
        for name, annotation in _hints(cls, path).items():
            at = under(path, name)
            if not names.is_field(name):
                _refuse("not the name of a field", at, "bad_name")
            fields[name] = self.field(annotation, at)
        self.open.pop()
        return {"record": fields}

    def field(self, annotation: Any, path: str) -> dict[str, Any]:
        if typing.get_origin(annotation) is typing.NotRequired:
            made = self.type_of(typing.get_args(annotation)[0], path)
            return made if "option" in made else {"option": made}
        if typing.get_origin(annotation) is typing.Required:
            annotation = typing.get_args(annotation)[0]
        return self.type_of(annotation, path)


def _unaliased(annotation: Any) -> Any:
    """The annotation behind a NewType or a `type` statement."""
    while True:
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation


def _has_fields(cls: type) -> bool:
    return (
        dataclasses.is_dataclass(cls)
        or isinstance(getattr(cls, "__struct_fields__", None), tuple)
        or typing.is_typeddict(cls)
    )


def _hints(cls: type, path: str) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as unknown:
        _refuse(f"{cls.__name__}: {unknown}", path)
    if dataclasses.is_dataclass(cls):
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    if typing.is_typeddict(cls):
        return {name: _loose(cls, name, hint) for name, hint in hints.items()}
    return {name: hints[name] for name in getattr(cls, "__struct_fields__", ())}


def _loose(cls: Any, name: str, hint: Any) -> Any:
    """A key that a TypedDict does not require is an option."""
    # Where annotations are text, Python cannot see the marks when it makes the class.
    marked = typing.get_origin(hint) in (typing.NotRequired, typing.Required)
    if name in cls.__required_keys__ or marked:
        return hint
    return typing.NotRequired[hint]


def _units(tags: tuple[Any, ...], path: str) -> dict[str, Any]:
    for tag in tags:
        if not isinstance(tag, str):
            _refuse(f"an arm is named by text, not {tag!r}", path)
        if not names.is_tag(tag):
            _refuse(f"{tag!r} is not the name of an arm", path, "bad_name")
    if not tags:
        _refuse("a variant has at least one arm", path, "empty_variant")
    return {"variant": {tag: {"unit": {}} for tag in tags}}


def _better(cls: type) -> str:
    """What to write in place of a class without fields, where that is not what the hint says."""
    own = cls.__module__ not in ("builtins", "typing", "datetime", "numbers")
    said = _BARE.get(cls.__name__) or (f"write class {cls.__name__}(Record)" if own else "")
    return f": {said}" if said else ""


def _refuse(message: str, path: str, code: str = "unsupported") -> NoReturn:
    raise BadDefinition(message, code=f"schema.{code}", where={"path": path}, hint=HINT)
