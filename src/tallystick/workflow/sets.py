"""Sets whose members come in the same order in every process.

The order of a plain set of texts is chance: it hangs on the seed that a process hashes with.
Code of the lane may not iterate over a set, but there are ways round that: a text made of one, a
copy, a function written in C.
So the sets of the lane, and those that records bring, give their members in an order of their own:
the natural one, or that of their texts.
A second kind gives them the other way round; a tick that answers otherwise on it lets an order out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_GIVE_SETS: Final = (
    "__and__", "__or__", "__sub__", "__xor__", "__rand__", "__ror__", "__rsub__", "__rxor__",
    "copy", "difference", "intersection", "symmetric_difference", "union",
)  # fmt: skip


class _Kind(type):
    """Plain sets count as instances: what comes from elsewhere is such."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__base__ or object)

    def __getitem__(cls, item: Any) -> Any:
        base: Any = cls.__base__
        return base[item]  # an annotation means the plain type


def _in_order(members: list[Any]) -> list[Any]:
    """By nature where there is one; the texts come first, because nature may be a partial order."""
    told = sorted(members, key=lambda member: (type(member).__name__, repr(member)))
    try:
        return sorted(told)
    except TypeError:
        return told


def _kind_of(base: Any, order: Callable[[list[Any]], list[Any]]) -> Any:
    def members(self: Any) -> list[Any]:
        return order(list(base.__iter__(self)))

    def shown(self: Any) -> str:
        inside = ", ".join([repr(member) for member in members(self)])
        if base is frozenset:
            return f"frozenset({{{inside}}})" if inside else "frozenset()"
        return f"{{{inside}}}" if inside else "set()"

    def giving(name: str) -> Callable[..., Any]:
        plain = getattr(base, name)

        def give(self: Any, *others: Any) -> Any:
            made = plain(self, *others)
            return made if made is NotImplemented else kind(made)

        return give

    body: dict[str, Any] = {name: giving(name) for name in _GIVE_SETS}
    body |= {"__iter__": lambda self: iter(members(self)), "__repr__": shown, "__slots__": ()}
    kind: Any = _Kind(base.__name__, (base,), body)
    return kind


def _turned(members: list[Any]) -> list[Any]:
    return _in_order(members)[::-1]


ORDERED: Final[dict[type, Any]] = {base: _kind_of(base, _in_order) for base in (set, frozenset)}
TURNED: Final[dict[type, Any]] = {base: _kind_of(base, _turned) for base in (set, frozenset)}
