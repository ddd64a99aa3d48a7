"""Sets whose order is turned round: what a sampled tick runs on the second time (05 section 3).

The order of a set is chance from process to process, but the same for two runs in one process, so
running a tick twice would never show that it depends on it.
In the second namespace `set` and `frozenset` therefore give their members in the opposite order:
code that lets an order out, by `repr`, by a tie or by a copy, answers otherwise and is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_GIVE_SETS: Final = (
    "__and__", "__or__", "__sub__", "__xor__", "__rand__", "__ror__", "__rsub__", "__rxor__",
    "copy", "difference", "intersection", "symmetric_difference", "union",
)  # fmt: skip


class _Kind(type):
    """Plain sets count as instances: values of a state and literals are such."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__base__ or object)

    def __getitem__(cls, item: Any) -> Any:
        base: Any = cls.__base__
        return base[item]  # an annotation means the plain type


def _turned(base: Any) -> Any:
    def members(self: Any) -> Any:
        return reversed(list(base.__iter__(self)))

    def shown(self: Any) -> str:
        inside = ", ".join(repr(member) for member in members(self))
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
    body |= {"__iter__": members, "__repr__": shown, "__slots__": ()}
    kind: Any = _Kind(base.__name__, (base,), body)
    return kind


class _TypeKind(type):
    """`type` as code of the second namespace sees it: a plain set is of the turned kind."""

    def __call__(cls, *given: Any) -> Any:
        found = type(*given)
        return _KINDS.get(found, found) if len(given) == 1 else found

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, type)

    def __getitem__(cls, item: Any) -> Any:
        return type[item]


_KINDS: Final = {set: _turned(set), frozenset: _turned(frozenset)}
TURNED: Final = {
    "set": _KINDS[set],
    "frozenset": _KINDS[frozenset],
    "type": _TypeKind("type", (), {}),
}
