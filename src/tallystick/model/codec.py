"""The record codec: frozen tuples to canonical maps and back, without a schema walk.

Records are written for every tick and read for every open, so a shape prepares what can be
prepared: encoded keys in canonical order, and one encoder per field.
An absent field is None in the tuple and missing in the map; an unknown field stops reading,
because folding past it would be a guess (02 section 6).
A field that equals its default may be left out as well, where a shape has defaults (ADR 0028).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tallystick.errors import JournalCorrupt
from tallystick.values import canon

Put = Callable[[Any], bytes]
Load = Callable[[Any], Any]


def _put_digest(value: bytes) -> bytes:
    return b"\x58\x20" + value


def _put_flag(value: bool) -> bytes:
    return b"\xf5" if value else b"\xf4"


def _is(kind: type) -> Load:
    def load(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{kind.__name__} expected, {type(value).__name__} found")
        return value

    return load


def _load_nat(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("a natural number expected")
    return value


def _load_digest(value: Any) -> bytes:
    if type(value) is not bytes or len(value) != 32:
        raise TypeError("a digest of 32 bytes expected")
    return value


def _same(value: Any) -> Any:
    return value


class Kind:
    """How one field is written and what is accepted when it is read."""

    __slots__ = ("load", "put")

    def __init__(self, put: Put, load: Load) -> None:
        self.put = put
        self.load = load


TEXT: Final = Kind(canon.put_text, _is(str))
NAME: Final = Kind(canon.put_key, _is(str))  # text that recurs: its encoding is remembered
BYTES: Final = Kind(canon.put_bytes, _is(bytes))
DIGEST: Final = Kind(_put_digest, _load_digest)
NAT: Final = Kind(canon.put_int, _load_nat)
INT: Final = Kind(canon.put_int, _is(int))
FLAG: Final = Kind(_put_flag, _is(bool))
ANY: Final = Kind(canon.encode_item, _same)


class Shape:
    """The codec of one tuple type: `put` writes it, `load` reads it back or refuses."""

    __slots__ = (
        "_after",
        "_before",
        "_constant",
        "_defaults",
        "_loads",
        "_must",
        "_names",
        "_said",
        "make",
        "name",
    )

    def __init__(
        self,
        make: Callable[..., Any],
        fields: Mapping[str, Kind],
        constant: tuple[str, str] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self._defaults = defaults = defaults or {}
        self.make = make
        self.name = make.__name__
        self._names = tuple(fields)
        self._loads = tuple(kind.load for kind in fields.values())
        # What has no default must be there: folding a guess is worse than stopping.
        optional = getattr(make, "_field_defaults", {})
        said = zip(self._names, getattr(make, "_fields", ()), strict=True)
        self._must = frozenset(name for name, field in said if field not in optional)
        entries = sorted(
            (canon.put_key(name), i, kind.put, defaults.get(name))
            for i, (name, kind) in enumerate(fields.items())
        )
        # A constant pair (such as record: Ticked) takes its canonical place among the fields.
        self._constant = constant
        place = b"" if constant is None else canon.put_key(constant[0])
        self._said = b"" if constant is None else place + canon.put_text(constant[1])
        self._before = tuple(entry for entry in entries if entry[0] < place)
        self._after = tuple(entry for entry in entries if entry[0] > place)

    def put(self, value: Any) -> bytes:
        """The encoded map of a tuple; what is None or its default is absent."""
        out: list[bytes] = []
        for key, i, put, default in self._before:
            field = value[i]
            if field is not None and field != default:
                out.append(key)
                out.append(put(field))
        n = len(out) >> 1
        if self._said:
            out.append(self._said)
            n += 1
        for key, i, put, default in self._after:
            field = value[i]
            if field is not None and field != default:
                out.append(key)
                out.append(put(field))
                n += 1
        return canon.head(5, n) + b"".join(out)

    def load(self, raw: Any) -> Any:
        """The tuple of a decoded map; refuses unknown fields and wrong types."""
        if type(raw) is not dict:
            raise JournalCorrupt(f"{self.name}: a map expected", code="record.malformed")
        found = 0 if self._constant is None else 1
        values: list[Any] = []
        name = ""
        try:
            for name, load in zip(self._names, self._loads, strict=True):
                field = raw.get(name)
                if field is None:
                    if name in self._must and name not in raw and name not in self._defaults:
                        raise TypeError("missing")  # noqa: TRY301 - told with its field below
                    values.append(None if name in raw else self._defaults.get(name))
                else:
                    values.append(load(field))
                    found += 1
        except TypeError as why:
            raise JournalCorrupt(
                f"{self.name}.{name}: {why}", code="record.malformed", where={"field": name}
            ) from None
        if found != len(raw):
            self._refuse(raw)
        return self.make(*values)

    def _refuse(self, raw: dict[Any, Any]) -> None:
        known = {*self._names, self._constant[0] if self._constant else ""}
        extra = sorted(str(name) for name in raw if name not in known)
        null = sorted(str(name) for name in raw if raw[name] is None)
        raise JournalCorrupt(
            f"{self.name} holds unknown or null fields {extra or null}",
            code="record.unknown_field",
            where={"record": self.name, "fields": extra or null},
            hint="a newer release wrote this journal: read it with that release",
        )

    def kind(self) -> Kind:
        """This shape as the kind of a field."""
        return Kind(self.put, self.load)


def list_of(shape: Shape) -> Kind:
    """The kind of a field that holds a list of tuples of one shape."""

    def put(values: Any) -> bytes:
        return canon.head(4, len(values)) + b"".join([shape.put(v) for v in values])

    def load(raw: Any) -> Any:
        if type(raw) is not list:
            raise TypeError("a list expected")
        return tuple([shape.load(v) for v in raw])

    return Kind(put, load)
