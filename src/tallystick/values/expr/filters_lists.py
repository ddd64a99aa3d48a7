"""Filters over lists and maps.

They keep or reorder what is there, so they pay per item; order is total and stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tallystick.values.expr.access import attribute, attribute_or_fault, items_of
from tallystick.values.expr.fault import TYPE, fault
from tallystick.values.expr.operate import add, keys_of, kind_of, order, rank, truth
from tallystick.values.expr.run import MISSING, Run, Undefined
from tallystick.values.expr.signature import table


def length(_run: Run, value: Any) -> int:
    """Items of a list or map, code points of a text, bytes of bytes; undefined has none."""
    if type(value) in (list, str, bytes) or isinstance(value, Mapping):
        return len(value)
    if type(value) is Undefined:
        return 0
    raise fault(TYPE, f"{kind_of(value)} has no length")


def _first(run: Run, value: Any) -> Any:
    items = items_of(run, value)
    return items[0] if items else run.miss("first of nothing")


def _last(run: Run, value: Any) -> Any:
    items = items_of(run, value)
    return items[-1] if items else run.miss("last of nothing")


def _keyed(run: Run, items: list[Any], path: Any) -> list[Any]:
    if path is None:
        return items
    return [attribute_or_fault(run, item, path) for item in items]


def _ranks(run: Run, items: list[Any], path: Any, exact: Any) -> list[Any]:
    """Sort keys of items; nested ones are walked, so they are paid for as written."""
    keys = _keyed(run, items, path)
    run.charge_deep(keys)
    fold = not truth(exact)
    return [rank(key, fold) for key in keys]


def _sort(
    run: Run, value: Any, reverse: Any = False, exact: Any = False, path: Any = None
) -> list[Any]:
    items = items_of(run, value)
    ranks = _ranks(run, items, path, exact)
    places = sorted(range(len(items)), key=ranks.__getitem__, reverse=truth(reverse))
    return [items[place] for place in places]


def _unique(run: Run, value: Any, exact: Any = False, path: Any = None) -> list[Any]:
    items = items_of(run, value)
    ranks = _ranks(run, items, path, exact)
    places = sorted(range(len(items)), key=ranks.__getitem__)
    # The sort is stable, so the first of equals comes first.
    kept = [
        place for at, place in enumerate(places) if at == 0 or ranks[place] != ranks[places[at - 1]]
    ]
    return [items[place] for place in sorted(kept)]


def _extreme(run: Run, value: Any, sign: str, exact: Any, path: Any) -> Any:
    items = items_of(run, value)
    if not items:
        return run.miss("extreme of nothing")
    keys = _keyed(run, items, path)
    if not truth(exact):
        keys = [key.lower() if type(key) is str else key for key in keys]
    best = 0
    for at in range(1, len(items)):
        if order(sign, keys[at], keys[best]):
            best = at
    return items[best]


def _min(run: Run, value: Any, exact: Any = False, path: Any = None) -> Any:
    return _extreme(run, value, "<", exact, path)


def _max(run: Run, value: Any, exact: Any = False, path: Any = None) -> Any:
    return _extreme(run, value, ">", exact, path)


def _sum(run: Run, value: Any, path: Any = None, start: Any = 0) -> Any:
    total = start
    for item in _keyed(run, items_of(run, value), path):
        total = add(run, total, item)
    return total


def _reverse(run: Run, value: Any) -> Any:
    if type(value) is str:
        run.charge(len(value))
        return value[::-1]
    return items_of(run, value)[::-1]


def _map(run: Run, value: Any, path: Any, other: Any = MISSING) -> list[Any]:
    found: list[Any] = []
    for item in items_of(run, value):
        if other is MISSING:
            found.append(attribute_or_fault(run, item, path))
        else:
            found.append(_attribute_or(run, item, path, other))
    return found


def _attribute_or(run: Run, item: Any, path: Any, other: Any) -> Any:
    from_item = attribute(run, item, path)
    return other if type(from_item) is Undefined else from_item


def pairs_of(run: Run, value: Any) -> list[list[Any]]:
    """The pairs of a map in the order of its keys."""
    if type(value) is Undefined:
        return []
    if not isinstance(value, Mapping):
        raise fault(TYPE, f"{kind_of(value)} has no items")
    run.spend(len(value))
    run.charge(32 * len(value))
    return [[key, value[key]] for key in keys_of(value)]


def _dictsort(
    run: Run, value: Any, exact: Any = False, by: Any = "key", reverse: Any = False
) -> list[list[Any]]:
    if by not in ("key", "value"):
        raise fault(TYPE, "dictsort is by key or by value")
    pairs = pairs_of(run, value)
    at = 0 if by == "key" else 1
    ranks = _ranks(run, [pair[at] for pair in pairs], None, exact)
    places = sorted(range(len(pairs)), key=ranks.__getitem__, reverse=truth(reverse))
    return [pairs[place] for place in places]


def select(
    run: Run, value: Any, path: Any, check: Callable[[Any], bool], *, keep: bool
) -> list[Any]:
    """The items whose attribute passes, or fails, a check."""
    items = items_of(run, value)
    return [item for item in items if check(attribute(run, item, path)) is keep]


LIST_FILTERS = table(
    length=(length,),
    count=(length,),
    first=(_first,),
    last=(_last,),
    min=(_min, "case_sensitive attribute", 0, False, (False,)),
    max=(_max, "case_sensitive attribute", 0, False, (False,)),
    sum=(_sum, "attribute start", 0, False, (None,)),
    sort=(_sort, "reverse case_sensitive attribute", 0, False, (False, False)),
    unique=(_unique, "case_sensitive attribute", 0, False, (False,)),
    reverse=(_reverse,),
    list=(items_of,),
    dictsort=(_dictsort, "case_sensitive by reverse", 0, False, (False, "key")),
    items=(pairs_of,),
)

# `map` takes its attribute by name only, as the design writes it: a filter by name is not one.
MAP = table(map=(_map, "attribute default", 1))["map"]
