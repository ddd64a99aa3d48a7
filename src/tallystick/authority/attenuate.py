"""Attenuation: a derived grant is never wider than the one it comes from.

Each field of the child is compared with the parent's under the order the capability declares.
Absent inherits.
A field the parent leaves absent is unrestricted, so any value narrows it.
The exceptions are `equal` and the closed fields of the built-in capabilities, where absent means
nothing is given; there the child may only repeat what the parent says.
A field without an order cannot be compared, so it must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.authority.denial import Denial
from tallystick.authority.enforcers import BUILTIN_MODULE, CLOSED_FIELDS
from tallystick.authority.paths import covers_path
from tallystick.authority.urls import covers_host
from tallystick.model.catalogue import Grant, grant_hash
from tallystick.values import canon


def attenuate(
    parent: Grant, params: Mapping[str, Any] | None, expires_ns: int | None, name: str
) -> Grant | Denial:
    """The child grant `name` of `parent`, or `cap.widening` naming the field and its value."""
    closed = _closed_of(parent)
    merged = dict(parent.params)
    given = {field: value for field, value in (params or {}).items() if value is not None}
    for field in sorted(given):
        value = given[field]
        held = parent.params.get(field)
        kind = parent.order.get(field, "equal")
        if not _within(kind, held, value, closed=field in closed):
            message = f"{field} = {_shown(value)} is wider than grant {parent.name} ({kind})"
            return Denial("capability", "cap.widening", message, None, field)
        merged[field] = value
    ends = _earlier(parent.expires_ns, expires_ns)
    return Grant(
        name=name,
        cap=parent.cap,
        cap_hash=parent.cap_hash,
        cap_type=parent.cap_type,
        params=merged,
        expires_ns=ends,
        parent=parent.name,
        hash=grant_hash(parent.cap_hash, merged, ends, parent.hash),
        order=parent.order,
        enforcer=parent.enforcer,
    )


def _closed_of(grant: Grant) -> frozenset[str]:
    if grant.enforcer is None or grant.enforcer[0] != BUILTIN_MODULE:
        return frozenset()
    return CLOSED_FIELDS.get(grant.enforcer[1], frozenset())


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _within(kind: str, held: Any, value: Any, *, closed: bool) -> bool:
    if _same(held, value):
        return True
    if held is None:
        # Absent in the parent: open fields are unrestricted, closed ones give nothing.
        return kind != "equal" and (not closed or value is False or value == [])
    if kind == "subset":
        return _each(held, value, _same)
    if kind == "prefix":
        return _each(held, value, covers_path)
    if kind == "host":
        return _each(held, value, covers_host)
    if kind in ("max", "min"):
        return _ordered(kind, held, value)
    return False


def _same(one: Any, other: Any) -> bool:
    """Equal in canonical bytes, so that true is not 1."""
    return type(one) is type(other) and canon.encode_item(one) == canon.encode_item(other)


def _ordered(kind: str, held: Any, value: Any) -> bool:
    # A truth counts as false < true, so that a switch can be given up, never taken.
    if type(held) is not type(value) or type(held) not in (int, bool):
        return False
    return bool(value <= held) if kind == "max" else bool(value >= held)


def _each(held: Any, value: Any, covers: Any) -> bool:
    """Every item of the child is covered by some item of the parent."""
    wide = held if isinstance(held, list) else [held]
    narrow = value if isinstance(value, list) else [value]
    if isinstance(held, list) != isinstance(value, list):
        return False
    return all(any(covers(w, n) for w in wide) for n in narrow)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
