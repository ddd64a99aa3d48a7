"""Between Python values and plain values, by annotation (01 section 6).

Plain values are what decoding a document gives: dicts, lists, text, numbers, bytes and null.
A codec is two closures, made once per annotation; None stands for "as it is", so that records of
scalars cost no calls for their fields.
The schema stays the judge: a codec that is handed nonsense passes it on to be refused.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from tallystick.errors import BadDefinition
from tallystick.values.schema.annotations import Marker
from tallystick.values.schema.misfit import Misfit
from tallystick.values.schema.times import span_of_text, time_of_text
from tallystick.workflow.records import RecordType
from tallystick.workflow.sets import ORDERED

Way = Callable[[Any], Any]


class Codec(NamedTuple):
    """Both ways; None is the identity."""

    put: Way | None
    take: Way | None

    def plain(self, value: Any) -> Any:
        """The plain value of a Python value."""
        return value if self.put is None else self.put(value)

    def value(self, plain: Any) -> Any:
        """The Python value of a plain value."""
        return plain if self.take is None else self.take(plain)


AS_IS: Final = Codec(None, None)
_DECIMAL: Final = Codec(None, Decimal)
_UUID: Final = Codec(None, UUID)


def codec_of(annotation: Any) -> Codec:
    """The codec of an annotation; what has no canonical form is refused by `type_of`, not here."""
    try:
        return _known(annotation)
    except TypeError:  # an annotation that cannot be hashed
        return _made(annotation)


@cache
def _known(annotation: Any) -> Codec:
    return _made(annotation)


def _made(annotation: Any) -> Codec:
    if isinstance(annotation, typing.NewType):
        return codec_of(annotation.__supertype__)
    if type(annotation).__name__ == "TypeAliasType":
        return codec_of(annotation.__value__)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _annotated(args)
    if origin in (typing.Union, types.UnionType):
        return _union(args)
    if origin is typing.Literal:
        return Codec(_tag, _untag)
    if origin in (list, tuple):
        return _sequence(codec_of(args[0]), origin)
    if origin in (set, frozenset):
        return _members(codec_of(args[0]), ORDERED[origin])
    if origin is dict:
        return _mapping(codec_of(args[0]), codec_of(args[1]))
    if annotation is Decimal:
        return _DECIMAL
    if annotation is UUID:
        return _UUID
    if isinstance(annotation, type):
        return _class(annotation)
    return AS_IS


def _annotated(args: tuple[Any, ...]) -> Codec:
    for note in args[1:]:
        if isinstance(note, Marker):
            if note.kind == "duration":
                return Codec(span_ns, None)
            if note.kind == "time":
                return Codec(time_ns, None)
            return AS_IS
    return codec_of(args[0])


def span_ns(span: Any) -> Any:
    """Nanoseconds of `"30s"`; refuses a text that is no span, what is no text goes on as it is."""
    try:
        return span_of_text(span) if type(span) is str else span
    except Misfit:
        raise ValueError(f'{span!r} is no duration: write "30s", "5m", "2h" or "1d"') from None


def time_ns(time: Any) -> Any:
    """Nanoseconds of an RFC 3339 text; refuses one that is none, what is no text goes on as is."""
    try:
        return time_of_text(time) if type(time) is str else time
    except Misfit:
        raise ValueError(f"{time!r} is no time: write 2026-01-31T12:00:00Z") from None


def _tag(value: Any) -> Any:
    return {"$tag": value}


def _untag(plain: Any) -> Any:
    return plain["$tag"]


def _sequence(item: Codec, kind: Any) -> Codec:
    put, take = item
    if kind is list and put is None and take is None:
        return AS_IS
    return Codec(
        list if put is None else lambda value: [put(part) for part in value],
        kind if take is None else lambda plain: kind([take(part) for part in plain]),
    )


def _members(item: Codec, kind: Any) -> Codec:
    put, take = item
    # The schema sorts members by their bytes, so the order in which a set gives them is not seen.
    return Codec(
        list if put is None else lambda value: [put(part) for part in value],
        kind if take is None else lambda plain: kind([take(part) for part in plain]),
    )


def _mapping(key: Codec, value: Codec) -> Codec:
    if key == AS_IS and value == AS_IS:
        return AS_IS
    return Codec(
        lambda given: {key.plain(k): value.plain(v) for k, v in given.items()},
        lambda plain: {key.value(k): value.value(v) for k, v in plain.items()},
    )


def _union(members: tuple[Any, ...]) -> Codec:
    some = [member for member in members if member is not type(None)]
    inner = codec_of(some[0]) if len(some) == 1 else variant_of(some)
    if len(some) == len(members) or inner == AS_IS:
        return inner
    put, take = inner
    return Codec(
        None if put is None else lambda value: None if value is None else put(value),
        None if take is None else lambda plain: None if plain is None else take(plain),
    )


def variant_of(members: list[Any]) -> Codec:
    """A union of records: the tag is the name of the class."""
    puts = {member: (member.__name__, codec_of(member)) for member in members}
    takes = {member.__name__: codec_of(member) for member in members}

    def put(value: Any) -> Any:
        found = puts.get(type(value))
        if found is None:
            return value
        return {"$tag": found[0], "$value": found[1].plain(value)}

    return Codec(put, lambda plain: takes[plain["$tag"]].value(plain["$value"]))


def _class(cls: type) -> Codec:
    if issubclass(cls, Enum):
        return Codec(lambda value: {"$tag": value.name}, lambda plain: cls[plain["$tag"]])
    if isinstance(cls, RecordType):
        return _record(cls)
    if dataclasses.is_dataclass(cls) or hasattr(cls, "__struct_fields__"):
        return _object(cls)
    if issubclass(cls, datetime | timedelta):
        hint = "use Time or Duration: integer nanoseconds"
        raise BadDefinition(f"{cls.__name__} is not a value of the lane", hint=hint)
    return AS_IS


def hints_of(thing: Any) -> dict[str, Any]:
    """The annotations of a class or function; refuses one that names what is not there yet."""
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except NameError as why:
        named = [
            name for name, given in thing.__annotations__.items() if str(why.name) in repr(given)
        ]
        raise BadDefinition(
            f"{thing.__name__}: {why}",
            code="schema.unsupported",
            where={"path": "/" + "".join(named[:1])},
            hint="name a class that stands above this one; no record contains itself",
        ) from why


def fields_of(cls: Any) -> dict[str, Any]:
    """The annotations of the fields of a record, a dataclass or a struct."""
    hints = hints_of(cls)
    if dataclasses.is_dataclass(cls):
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    return {name: hints[name] for name in cls.__struct_fields__}


def _record(cls: Any) -> Codec:
    hints = fields_of(cls)
    rows = [(slot, codec_of(hints[slot.name])) for slot in cls.tally_slots]
    puts = tuple((slot.name, slot.get, codec.put) for slot, codec in rows)
    takes = tuple((slot.name, slot.set, codec.take) for slot, codec in rows)
    new: Callable[[Any], Any] = object.__new__

    def put(value: Any) -> Any:
        # What is no record of this class is left to the schema to refuse.
        if type(value) is not cls:
            return value
        found: dict[str, Any] = {}
        for name, get, put_field in puts:
            found[name] = get(value) if put_field is None else put_field(get(value))
        return found

    def take(plain: Any) -> Any:
        made = new(cls)
        for name, set_, take_field in takes:
            if name not in plain:
                return _filled(cls, plain)
            set_(made, plain[name] if take_field is None else take_field(plain[name]))
        return made

    return Codec(put, take)


def _filled(cls: Any, plain: Mapping[str, Any]) -> Any:
    """A record from an older document: absent fields get their defaults, or null."""
    hints = fields_of(cls)
    given = {name: codec_of(hints[name]).value(plain[name]) for name in hints if name in plain}
    for field in dataclasses.fields(cls):
        needs = field.default is dataclasses.MISSING and field.default_factory is field.default
        if field.name not in given and needs:
            given[field.name] = None
    return cls(**given)


def _object(cls: Any) -> Codec:
    codecs = {name: codec_of(hint) for name, hint in fields_of(cls).items()}

    def put(value: Any) -> Any:
        if type(value) is not cls:
            return value
        return {name: codec.plain(getattr(value, name)) for name, codec in codecs.items()}

    def take(plain: Any) -> Any:
        return cls(**{n: codec.value(plain[n]) for n, codec in codecs.items() if n in plain})

    return Codec(put, take)
