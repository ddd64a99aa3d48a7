"""Frozen globals: what module code may hold between two ticks (05 section 3).

Functions, classes, scalars, tuples, frozensets, enums, records and read-only tables, and nothing
that could be changed.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Final
from uuid import UUID

from tallystick.errors import BadDefinition
from tallystick.workflow.bundle import Bundle
from tallystick.workflow.records import RecordType

_SCALARS: Final = (str, bytes, int, float, complex, bool, type(None), Decimal, Fraction, UUID)
_SHAPES: Final[tuple[type, ...]] = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.GenericAlias,
    types.UnionType,
    types.MappingProxyType,
    type(typing.Optional),
    typing.TypeVar,
    typing.ForwardRef,
    type(...),
    type(NotImplemented),
    property,
    classmethod,
    staticmethod,
    Bundle,
)


def refuse_mutable(path: str, module: types.ModuleType) -> None:
    """Refuse a module that could remember something between two ticks, by the name of the thing."""
    for name, value in vars(module).items():
        if name.startswith(("@", "__")):
            continue
        found = _mutable(value, module.__name__, name)
        if found is not None:
            message = f"{path}: {found} could remember something between two ticks"
            hint = "use a tuple, a frozenset or MappingProxyType, or keep it in the state"
            where = {"path": path, "name": found}
            raise BadDefinition(message, code="lane.mutable_global", where=where, hint=hint)


def _mutable(value: Any, module: str, name: str, depth: int = 0) -> str | None:
    """The name of a mutable thing that a value holds, or None."""
    if isinstance(value, type):
        if value.__module__ != module or isinstance(value, RecordType) or depth > 4:
            return None
        inner = {k: v for k, v in vars(value).items() if not k.startswith("_")}
        if issubclass(value, Enum):
            return None
        parts = ((f"{name}.{k}", v) for k, v in inner.items())
        return _first(parts, module, depth)
    if isinstance(value, types.FunctionType):
        held = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_full(cell)]
        named = f"a default of {name}"
        found = _first(((named, v) for v in held), module, depth)
        return found or _first(((f"the closure of {name}", v) for v in cells), module, depth)
    if isinstance(value, tuple | frozenset):
        parts = ((name, part) for part in sorted(value, key=repr) if part is not value)
        return _first(parts, module, depth)
    return None if _is_frozen(value) else name


def _first(parts: Any, module: str, depth: int) -> str | None:
    if depth > 8:
        return None
    for name, value in parts:
        found = _mutable(value, module, name, depth + 1)
        if found is not None:
            return found
    return None


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading is the only way to ask
    except ValueError:
        return False
    return True


def _is_frozen(value: Any) -> bool:
    if isinstance(value, _SCALARS + _SHAPES + (Enum,)):
        return True
    if typing.get_origin(value) is not None or isinstance(type(value), RecordType):
        return True
    if type(value).__module__ == "typing" or isinstance(value, typing.NewType):
        return True
    params = getattr(type(value), "__dataclass_params__", None)
    return dataclasses.is_dataclass(value) and bool(params and params.frozen)
