"""What a sampled tick runs on the second time: sets the other way round (05 section 3).

The sets of the lane have one order in every process, so running a tick twice on them would never
show that it lets that order out, by `repr`, by a tie or by a copy.
In the second namespace they give their members in the opposite order, and such code is found.
"""

from __future__ import annotations

from typing import Any, Final

from tallystick.workflow import sets


class _TypeKind(type):
    """`type` as code of the second namespace sees it: any set is of the turned kind."""

    def __call__(cls, *given: Any) -> Any:
        found = type(*given)
        return _KINDS.get(found, found) if len(given) == 1 else found

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, type)

    def __getitem__(cls, item: Any) -> Any:
        return type[item]


_KINDS: Final = {
    **sets.TURNED,
    **{sets.ORDERED[base]: kind for base, kind in sets.TURNED.items()},
}
TURNED: Final = {
    "set": sets.TURNED[set],
    "frozenset": sets.TURNED[frozenset],
    "type": _TypeKind("type", (), {}),
}
