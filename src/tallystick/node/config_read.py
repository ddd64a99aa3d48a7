"""How a setting is read: sizes, durations, types, and the nearest name of one that is unknown."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from types import MappingProxyType
from typing import Any, Final, TypeVar

from tallystick.errors import Rejected
from tallystick.values import names

Section = TypeVar("Section")

_SIZES: Final = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_TIMES: Final = {
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3_600 * 10**9,
    "d": 86_400 * 10**9,
}


def size_bytes(given: Any) -> int:
    """Bytes of "256MiB" or of a plain count; refuses with `config.type`."""
    return _counted(given, _SIZES, "a size like 256MiB")


def duration_ns(given: Any) -> int:
    """Nanoseconds of "24h", "30s" or "200ms"; refuses with `config.type`."""
    return _counted(given, _TIMES, "a duration like 24h")


def size(text: str) -> Any:
    """A field that holds bytes, with its default as people write it."""
    return field(default=size_bytes(text), metadata={"read": size_bytes, "text": text})


def duration(text: str) -> Any:
    """A field that holds nanoseconds, with its default as people write it."""
    return field(default=duration_ns(text), metadata={"read": duration_ns, "text": text})


def from_one(given: int) -> Any:
    """A field that holds a number of something of which there must be one."""
    return field(default=given, metadata={"least": 1})


def table(given: dict[str, Any]) -> Any:
    """A field that holds a table of free keys."""
    return field(default_factory=lambda: MappingProxyType(given), metadata={"text": given})


def _counted(given: Any, units: Mapping[str, int], want: str) -> int:
    found = re.fullmatch(r"(\d{1,15})([A-Za-z]*)", str(given))
    if found is None or isinstance(given, bool) or found[2] not in units:
        raise Rejected(f"{given!r} is not {want}", code="config.type", where={"got": str(given)})
    return int(found[1]) * units[found[2]]


def nearest(kind: str, name: str, known: Iterable[str]) -> Rejected:
    """The refusal of a name that nobody reads, with the name that was probably meant."""
    meant = names.nearest(name.rsplit(".", 1)[-1], known)
    hint = meant or f"known: {', '.join(sorted(known))}"
    return Rejected(
        f"unknown {kind} {name!r}", code="config.unknown_key", where={"key": name}, hint=hint
    )


def one_of(key: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a word that a setting does not know."""
    if value not in known:
        raise Rejected(
            f"{key} is {value!r}",
            code="config.type",
            where={"key": key},
            hint=f"one of {', '.join(known)}",
        )


def read_section(
    cls: type[Section], name: str, given: Mapping[str, Any], env: Mapping[str, str]
) -> Section:
    """One section from its table, with the environment over it; refuses what `cls` has not."""
    parts: dict[str, Field[Any]] = {part.name: part for part in fields(cls)}  # type: ignore[arg-type]  # every section is a dataclass
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in parts:
            raise nearest("setting", f"{name}.{key}", parts)
        values[key] = _read(parts[key], f"{name}.{key}", value)
    prefix = f"TALLY_{name.upper().replace('.', '_')}_"
    for variable, text in env.items():
        if not variable.startswith(prefix):
            continue
        key = variable.removeprefix(prefix).lower()
        if key not in parts:
            raise nearest("setting", f"{name}.{key}", parts)
        values[key] = _read(parts[key], variable, _from_text(text))
    return cls(**values)


def _from_text(text: str) -> Any:
    """A variable holds a TOML value; what is none is a plain text."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def _default(part: Field[Any]) -> Any:
    if part.default_factory is not MISSING:
        return part.default_factory()
    return part.default


def _read(part: Field[Any], key: str, value: Any) -> Any:
    reader = part.metadata.get("read") or _BY_TYPE[type(_default(part))]
    try:
        given = reader(value)
        if "least" in part.metadata:
            _check_least(given, part.metadata["least"])
    except Rejected as why:
        raise Rejected(
            f"{key}: {why.message}", code=why.code, where={"key": key}, hint=_hint(part)
        ) from why
    return given


def _check_least(given: int, least: int) -> None:
    if given < least:
        raise _refuse(given, f"a whole number from {least}")


def _hint(part: Field[Any]) -> str:
    return f"the default is {part.metadata.get('text', _default(part))!r}"


def _refuse(value: Any, want: str) -> Rejected:
    return Rejected(f"{value!r} is not {want}", code="config.type")


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise _refuse(value, "a whole number from 0")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < 10**9:
        raise _refuse(value, "a number from 0")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _refuse(value, "a text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(value, "true or false")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _refuse(value, "a list of texts")
    return tuple(value)


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _refuse(value, "a table")
    return MappingProxyType(value)


_BY_TYPE: Final[Mapping[type, Callable[[Any], Any]]] = {
    int: _whole,
    float: _number,
    str: _text,
    bool: _flag,
    tuple: _texts,
    MappingProxyType: _table,
}
