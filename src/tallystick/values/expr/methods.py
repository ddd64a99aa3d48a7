"""Functions and methods of the language: a closed table, bound to types, never to objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.values.expr.access import check_name
from tallystick.values.expr.fault import TYPE, fault
from tallystick.values.expr.filters_lists import pairs_of
from tallystick.values.expr.filters_text import join, replace, split
from tallystick.values.expr.operate import is_int, keys_of, kind_of
from tallystick.values.expr.run import MISSING, Run, text_size
from tallystick.values.expr.signature import table


def _strip(run: Run, text: str, chars: Any = None) -> str:
    if chars is not None and type(chars) is not str:
        raise fault(TYPE, f"strip of {kind_of(chars)}")
    run.charge(text_size(text))
    return text.strip(chars)


def _upper(run: Run, text: str) -> str:
    run.charge(3 * text_size(text))
    return text.upper()


def _lower(run: Run, text: str) -> str:
    run.charge(3 * text_size(text))
    return text.lower()


def _startswith(_run: Run, text: str, start: Any) -> bool:
    if type(start) is not str:
        raise fault(TYPE, f"startswith of {kind_of(start)}")
    return text.startswith(start)


def _endswith(_run: Run, text: str, end: Any) -> bool:
    if type(end) is not str:
        raise fault(TYPE, f"endswith of {kind_of(end)}")
    return text.endswith(end)


def _get(_run: Run, value: Mapping[Any, Any], key: Any, other: Any = None) -> Any:
    if type(key) not in (str, int):
        return other
    if type(key) is str:
        check_name(key)
    return value.get(key, other)


def _keys(run: Run, value: Mapping[Any, Any]) -> list[Any]:
    run.spend(len(value))
    return keys_of(value)


def _values(run: Run, value: Mapping[Any, Any]) -> list[Any]:
    run.spend(len(value))
    return [value[key] for key in keys_of(value)]


TEXT_METHODS = table(
    upper=(_upper,),
    lower=(_lower,),
    strip=(_strip, "chars"),
    split=(split, "sep maxsplit", 0, False, (None,)),
    replace=(replace, "old new count", 2),
    startswith=(_startswith, "prefix", 1),
    endswith=(_endswith, "suffix", 1),
    join=(lambda run, gap, items: join(run, items, gap), "iterable", 1),
)
MAP_METHODS = table(
    get=(_get, "key default", 1),
    keys=(_keys,),
    values=(_values,),
    items=(pairs_of,),
)


def range_of(run: Run, first: Any, stop: Any = MISSING, step: Any = 1) -> list[int]:
    """The numbers of a range, counted and paid for before they are made."""
    start, end = (0, first) if stop is MISSING else (first, stop)
    for bound in (start, end, step):
        if not is_int(bound):
            raise fault(TYPE, f"range of {kind_of(bound)}")
    if step == 0:
        raise fault(TYPE, "a range step is zero")
    count = max(0, (end - start + step - (1 if step > 0 else -1)) // step)
    run.spend(count)
    run.charge(8 * count)
    return list(range(start, end, step))


def dict_of(run: Run, base: Any, entries: Mapping[str, Any]) -> dict[Any, Any]:
    """A map from another map and named values."""
    made: dict[Any, Any] = {}
    if isinstance(base, Mapping):
        made.update(base)
    elif base is not MISSING:
        raise fault(TYPE, f"dict of {kind_of(base)}")
    made.update(entries)
    run.charge_deep(made)
    return made


RANGE = table(range=(range_of, "start stop step", 1, False, (MISSING,)))["range"]
