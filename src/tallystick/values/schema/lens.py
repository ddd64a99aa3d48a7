"""Lenses: how the parts of a value are found, before they are checked.

native   what Python code or decoded CBOR gives
sugar    plain JSON read under the schema
strict   canonical values and nothing else
older    as strict, but an absent option is null (01 section 5)

The tagged lens wraps every value in its type's tag; inside the tag it finds parts as sugar does.
Each function returns the parts or raises `Misfit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from tallystick.values.schema import leaves
from tallystick.values.schema.leaves import Leaf
from tallystick.values.schema.misfit import Misfit


class _Absent:
    """The one value that says that no value was given."""

    __slots__ = ()


ABSENT: Final = _Absent()


class Arm(NamedTuple):
    """The tag of a variant, and what stands behind it; `step` is the key that leads there."""

    tag: str
    value: Any
    step: str


class InPair(NamedTuple):
    """A key that was given in `[key, value]`."""

    key: Any


@dataclass(frozen=True, slots=True)
class Lens:
    """One way of reading; compiled closures hold its parts, never the lens itself."""

    name: str
    leaves: Mapping[str, Leaf]
    keys: Mapping[str, Leaf]
    record: Callable[[Any], Mapping[Any, Any]]
    arm: Callable[[Any], Arm]
    items: Callable[[Any], Sequence[Any]]
    members: Callable[[Any], Sequence[Any]]
    pairs: Callable[[Any, str], Iterable[tuple[Any, Any]]]
    absent_is_null: bool = True
    canonical: bool = False


def _object(value: Any) -> Mapping[Any, Any]:
    if isinstance(value, dict):
        return value
    raise Misfit("wrong_type")


def _native_record(value: Any) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        # One look at each key: a mapping that counts or computes is asked once.
        return {key: value[key] for key in value}
    names = _object_fields(value)
    if names is None:
        raise Misfit("wrong_type")
    found: dict[Any, Any] = {}
    for name in names:
        item = getattr(value, name, ABSENT)
        if item is not ABSENT:
            found[name] = item
    return found


def _object_fields(value: Any) -> Sequence[str] | None:
    if isinstance(value, type):
        return None
    if is_dataclass(value):
        return [field.name for field in fields(value)]
    # msgspec is not imported here: a Struct says what its fields are.
    names = getattr(type(value), "__struct_fields__", None)
    return names if isinstance(names, tuple) else None


def _sugar_arm(value: Any) -> Arm:
    if isinstance(value, str):
        return Arm(str.__str__(value), ABSENT, "")
    found = _object(value)
    if "$tag" in found:
        return _canonical_arm(found)
    if len(found) != 1:
        raise Misfit("bad_variant", _ARM)
    for tag, inner in found.items():
        if isinstance(tag, str):
            return Arm(tag, inner, tag)
    raise Misfit("bad_variant", _ARM)


_ARM = '{"$tag": tag, "$value": value}'


def _canonical_arm(found: Mapping[Any, Any]) -> Arm:
    tag = found["$tag"]
    extra = len(found) - 1 - ("$value" in found)
    if extra or not isinstance(tag, str):
        raise Misfit("bad_variant", _ARM)
    return Arm(tag, found.get("$value", ABSENT), "$value")


def _native_arm(value: Any) -> Arm:
    # Annotations make variants of enums by member name, and of classes by class name.
    if isinstance(value, Enum):
        return Arm(value.name, ABSENT, "")
    if isinstance(value, Mapping):
        return _sugar_arm({key: value[key] for key in value})
    if _object_fields(value) is not None:
        return Arm(type(value).__name__, value, "")
    return _sugar_arm(value)


def _strict_arm(value: Any) -> Arm:
    found = _object(value)
    if "$tag" not in found:
        raise Misfit("bad_variant", _ARM)
    return _canonical_arm(found)


def _array(value: Any) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    raise Misfit("wrong_type")


def _native_items(value: Any) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return value
    raise Misfit("wrong_type")


def _native_members(value: Any) -> Sequence[Any]:
    if isinstance(value, (set, frozenset)):
        # The order of a set is not ours to see: who takes these members sorts them.
        return list(value)
    return _array(value)


def _native_pairs(value: Any, _kind: str) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    raise Misfit("wrong_type")


def _sugar_pairs(value: Any, kind: str) -> Iterable[tuple[Any, Any]]:
    if kind in ("int", "nat") and isinstance(value, list):
        return [_pair(entry) for entry in value]
    return _object(value).items()


def _pair(entry: Any) -> tuple[InPair, Any]:
    if isinstance(entry, list) and len(entry) == 2:
        # A key from a pair is a number; one from an object is text. The mark keeps them apart.
        return (InPair(entry[0]), entry[1])
    raise Misfit("wrong_type", "[key, value]")


def entry_of(lens: Lens, entry: Any) -> tuple[str, Any, str, Any]:
    """Key and value of one entry of a map in a list, each with the step that leads to it."""
    if lens is not TAGGED:
        key, part = _pair(entry)
        return "0", key.key, "1", part
    if isinstance(entry, dict) and sorted(map(str, entry)) == ["key", "value"]:
        return "key", entry["key"], "value", entry["value"]
    raise Misfit("wrong_type", '{"key": key, "value": value}')


def unwrapped(tag: str, value: Any) -> Any:
    """What stands inside the tag of a tagged value."""
    if isinstance(value, dict) and len(value) == 1 and tag in value:
        return value[tag]
    raise Misfit("wrong_type", f'{{"{tag}": value}}')


def _tagged_arm(value: Any) -> Arm:
    found = _object(value)
    tag = found.get("tag")
    extra = len(found) - 1 - ("value" in found)
    if extra or not isinstance(tag, str):
        raise Misfit("bad_variant", '{"tag": tag, "value": value}')
    return Arm(tag, found.get("value", ABSENT), "value")


def _tagged_unit(value: Any) -> None:
    if value != {}:
        raise Misfit("wrong_type", '{"null": {}}')


def _integer_key(leaf: Leaf) -> Leaf:
    def key_of(value: Any) -> Any:
        if type(value) is InPair:
            return leaf(value.key)
        if not isinstance(value, str):
            raise Misfit("wrong_type")
        return leaf(leaves.decimal_int(value))

    return key_of


NATIVE: Final = Lens(
    name="native",
    leaves=leaves.NATIVE,
    keys=leaves.NATIVE,
    record=_native_record,
    arm=_native_arm,
    items=_native_items,
    members=_native_members,
    pairs=_native_pairs,
)
SUGAR: Final = Lens(
    name="sugar",
    leaves=leaves.SUGAR,
    keys={
        **leaves.SUGAR,
        "int": _integer_key(leaves.sugar_integer),
        "nat": _integer_key(leaves.sugar_natural),
    },
    record=_object,
    arm=_sugar_arm,
    items=_array,
    members=_array,
    pairs=_sugar_pairs,
)
TAGGED: Final = Lens(
    name="tagged",
    leaves={
        **leaves.SUGAR,
        "time": leaves.sugar_integer,
        "duration": leaves.sugar_integer,
        "unit": _tagged_unit,
    },
    keys={},
    record=_object,
    arm=_tagged_arm,
    items=_array,
    members=_array,
    pairs=_sugar_pairs,
)
STRICT: Final = Lens(
    name="strict",
    leaves=leaves.STRICT,
    keys=leaves.STRICT,
    record=_object,
    arm=_strict_arm,
    items=_array,
    members=_array,
    pairs=_native_pairs,
    absent_is_null=False,
    canonical=True,
)
OLDER: Final = Lens(
    name="older",
    leaves=leaves.STRICT,
    keys=leaves.STRICT,
    record=_object,
    arm=_strict_arm,
    items=_array,
    members=_array,
    pairs=_native_pairs,
    canonical=True,
)
