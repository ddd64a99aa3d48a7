"""Reading inside values: keys, indexes, slices, dotted attribute paths, items.

Only keys of maps and positions of lists and texts can be read; no attribute of a Python object.
A name that begins with two underscores is refused, save two names of stored results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.values.expr.fault import FORBIDDEN, TYPE, fault
from tallystick.values.expr.operate import is_int, keys_of, kind_of
from tallystick.values.expr.run import MISSING, Run, Undefined

_ALLOWED = ("__ref__", "__preview__")


def check_name(name: str) -> str:
    """The name, unless it is one that Python reserves."""
    if name.startswith("__") and name not in _ALLOWED:
        raise fault(FORBIDDEN, f"{name[:40]} is not a name of the language")
    return name


def member(run: Run, base: Any, key: Any, path: str) -> Any:
    """The item under a key or an index; undefined when there is none."""
    kind = type(base)
    if type(key) is str:
        check_name(key)
    if kind is dict or (kind is not list and isinstance(base, Mapping)):
        if type(key) in (str, int):
            found = base.get(key, MISSING)
            if found is not MISSING:
                return found
    elif kind is Undefined:
        return run.chain(base, path)
    elif kind in (list, str) and is_int(key):
        place = int(key)
        if -len(base) <= place < len(base):
            return base[place]
    return run.miss(path)


def cut(run: Run, base: Any, bounds: tuple[Any, Any, Any]) -> Any:
    """A slice of a list or a text."""
    if type(base) not in (list, str):
        raise fault(TYPE, f"{kind_of(base)} cannot be sliced")
    for bound in bounds:
        if bound is not None and not is_int(bound):
            raise fault(TYPE, f"a slice bound is {kind_of(bound)}")
    if bounds[2] == 0:
        raise fault(TYPE, "a slice step is zero")
    chosen = slice(*bounds)
    run.charge(8 * len(range(*chosen.indices(len(base)))))
    return base[chosen]


def attribute(run: Run, base: Any, path: Any) -> Any:
    """The value under a dotted path such as `a.b.0`."""
    if is_int(path):
        return member(run, base, int(path), f"[{path}]")
    if type(path) is not str:
        raise fault(TYPE, f"an attribute is {kind_of(path)}")
    for part in path.split("."):
        run.spend(1)
        key: Any = int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part
        base = member(run, base, key, path)
    return base


def attribute_or_fault(run: Run, base: Any, path: Any) -> Any:
    """As `attribute`, but a missing one is null, or in strict mode a fault."""
    found = attribute(run, base, path)
    if type(found) is not Undefined:
        return found
    if run.strict:
        raise fault(TYPE, f"{found.path} is undefined")
    return None


def items_of(run: Run, value: Any) -> list[Any]:
    """What a loop or a list filter visits: items, keys in order, or characters; paid for."""
    kind = type(value)
    if kind is list:
        run.spend(len(value))
        return list(value)
    if kind is str:
        run.spend(len(value))
        return list(value)
    if kind is Undefined:
        return []
    if isinstance(value, Mapping):
        run.spend(len(value))
        return keys_of(value)
    raise fault(TYPE, f"{kind_of(value)} is not a list")
