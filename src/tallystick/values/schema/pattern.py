r"""Patterns of `where`: matched whole, in time linear in the text.

A backtracking engine would be an unmetered loop in the kernel, so this is a position automaton
(Glushkov): each character item of the pattern is one bit, a set of live items is one integer, and
a step is `union of the followers of the live items, masked by those that accept the character`.
Sets that were seen are remembered as states of a DFA; the memory is bounded and, when full,
forgotten, so the worst case stays linear in the text.
"""

from __future__ import annotations

from bisect import bisect_right

from tallystick.values.schema.pattern_grammar import Ranges, automaton_of

_STATES_MAX = 512


class Pattern:
    """A compiled pattern; `matches` is true when the whole text is in its language."""

    __slots__ = ("_ascii", "_cuts", "_first", "_follow", "_last", "_masks", "_nullable", "_states")

    def __init__(self, text: str) -> None:
        made = automaton_of(text)
        self._nullable = made.whole.nullable
        self._first = made.whole.first
        self._last = made.whole.last
        self._follow = made.follow
        cuts = sorted({edge for ranges in made.items for pair in ranges for edge in pair})
        # Characters between two cuts are alike for every item: one class each.
        self._cuts = cuts
        self._masks = [_mask(made.items, 0)] + [_mask(made.items, cut) for cut in cuts]
        self._ascii = [bisect_right(cuts, code) for code in range(128)]
        self._states: dict[int, list[int]] = {}

    def matches(self, text: str) -> bool:
        """True when the pattern matches all of the text."""
        if not text:
            return self._nullable
        cuts, ascii_class, states = self._cuts, self._ascii, self._states
        live = -1  # the start: every first item may be next
        for char in text:
            code = ord(char)
            kind = ascii_class[code] if code < 128 else bisect_right(cuts, code)
            row = states.get(live)
            if row is None:
                row = self._row(live)
            live = row[kind]
            if live < 0:
                live = row[kind] = self._step(row[-1], kind)
            if live == 0:
                return False
        return live & self._last != 0

    def _row(self, live: int) -> list[int]:
        if len(self._states) >= _STATES_MAX:
            self._states.clear()
        # One place for each class, not yet known; and last, what may come next.
        row = [-1] * len(self._masks)
        row.append(self._next(live))
        self._states[live] = row
        return row

    def _next(self, live: int) -> int:
        if live < 0:
            return self._first
        reach = 0
        while live:
            low = live & -live
            reach |= self._follow[low.bit_length() - 1]
            live ^= low
        return reach

    def _step(self, reach: int, kind: int) -> int:
        return reach & self._masks[kind]


def _mask(items: list[Ranges], code: int) -> int:
    mask = 0
    for i, ranges in enumerate(items):
        if any(low <= code < high for low, high in ranges):
            mask |= 1 << i
    return mask
