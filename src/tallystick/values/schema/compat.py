"""Evolution: may the definition behind a name be replaced (01 section 5)?

`compatible(old, new)` holds when every canonical value of `old` is accepted by `new`, read with
`admit_older`, and means the same. It is a rule about types, so it may refuse a change that no value
would notice; it never accepts one that refuses an old value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from tallystick.values.schema.bounds import Bounds
from tallystick.values.schema.nodes import (
    Bounded,
    ListOf,
    MapOf,
    Option,
    Record,
    Scalar,
    SetOf,
    Type,
    Variant,
    is_option,
)
from tallystick.values.schema.pointer import under
from tallystick.values.schema.types import parse_type


def compatible(old_type: Mapping[str, Any], new_type: Mapping[str, Any]) -> str | None:
    """None when the change is additive, else the pointer into the new type where it breaks.

    Both types have their references inlined.
    """
    return _breach(parse_type(old_type, _no_refs), parse_type(new_type, _no_refs), "")


def _no_refs(name: str) -> NoReturn:
    raise KeyError(name)


def _breach(old: Type, new: Type, path: str) -> str | None:
    # tidy: the table of rules, row by row.
    if isinstance(new, Option):
        inner = old.inner if isinstance(old, Option) else old
        return _breach(inner, new.inner, under(path, "option"))
    if isinstance(new, Bounded):
        at = under(path, "where")
        if not isinstance(old, Bounded):
            return at
        narrowed = _narrowed(old.bounds, new.bounds)
        if narrowed is not None:
            return under(at, narrowed)
        return _breach(old.inner, new.inner, under(at, "type"))
    if isinstance(old, Bounded):
        return _breach(old.inner, new, path)
    match old, new:
        case Scalar(before), Scalar(after):
            return None if before == after else path
        case Record(), Record():
            return _record_breach(old, new, under(path, "record"))
        case Variant(), Variant():
            return _variant_breach(old, new, under(path, "variant"))
        case ListOf(before), ListOf(after):
            return _breach(before, after, under(path, "list"))
        case SetOf(before), SetOf(after):
            return _breach(before, after, under(path, "set"))
        case MapOf(), MapOf():
            at = under(path, "map")
            if old.key != new.key:
                return under(at, "key")
            return _breach(old.value, new.value, under(at, "value"))
        case _:
            return path


def _record_breach(old: Record, new: Record, path: str) -> str | None:
    kept = dict(new.fields)
    for name, field in old.fields:
        at = under(path, name)
        found = _breach(field, kept[name], at) if name in kept else at
        if found is not None:
            return found
    before = dict(old.fields)
    for name, field in new.fields:
        if name not in before and not is_option(field):
            return under(path, name)
    return None


def _variant_breach(old: Variant, new: Variant, path: str) -> str | None:
    kept = dict(new.arms)
    for tag, arm in old.arms:
        at = under(path, tag)
        found = _breach(arm, kept[tag], at) if tag in kept else at
        if found is not None:
            return found
    return None


def _narrowed(old: Bounds, new: Bounds) -> str | None:
    """The first bound that refuses what the old ones took."""
    if new.least is not None and (old.least is None or new.least > old.least):
        return "min"
    if new.most is not None and (old.most is None or new.most < old.most):
        return "max"
    if new.min_len and (old.min_len is None or new.min_len > old.min_len):
        return "min_len"
    if new.max_len is not None and (old.max_len is None or new.max_len < old.max_len):
        return "max_len"
    if new.pattern is not None and new.written.get("pattern") != old.written.get("pattern"):
        return "pattern"
    if new.one_of is not None and (
        old.one_of is None or any(choice not in new.one_of for choice in old.one_of)
    ):
        return "one_of"
    return None
