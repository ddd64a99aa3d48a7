"""Loops as a state writes them: what every iteration writes again is as short as it can be.

Theory of operation.
In memory a loop has the numbers of its open iterations, and a page of rows `[i, kept]`.
Written, open iterations are a `span`: how many are passed over and how many follow, in turn,
because most of them lie side by side.
So do the results of a page, its `rows`: `[i, v, v, ...]` is those of i and the ones behind it.
Results that stand elsewhere, by hash, are rows of their own under `kept`.
The rows of a page have no order: whoever turns it sorts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tallystick.values import canon

DEPTH: Final = 5  # of a result: in its run of a page, in its loop, among the loops of a state
Loop = dict[str, Any]
_KEYS: Final = {name: canon.put_key(name) for name in ("ok", "kept", "next", "rows", "span")}
_FAILED: Final = canon.put_key("failed")
_NUMBERS: Final = canon.NUMBERS


class Page:
    """The rows of an open page as bytes, grown by one at a time."""

    __slots__ = ("_kept", "_runs")

    def __init__(self, rows: Iterable[list[Any]]) -> None:
        # [first iteration, encoded results], in order and never side by side.
        self._runs: list[tuple[int, list[bytes]]] = []
        kept: list[list[Any]] = []
        for i, value in sorted(rows, key=lambda row: row[0]):
            if value.keys() == {"v"}:
                self.add(i, inside(value["v"]))
            else:
                kept.append([i, value])
        self._kept = _KEYS["kept"] + inside(kept, DEPTH - 2) if kept else b""

    def add(self, i: int, item: bytes) -> None:
        """One more result that stands in the page itself."""
        runs = self._runs
        if runs:
            first, items = runs[-1]
            if i == first + len(items):
                items.append(item)
                return
        rows = [(first + at, each) for first, items in runs for at, each in enumerate(items)]
        runs.clear()
        for at, each in sorted([*rows, (i, item)], key=lambda row: row[0]):
            if runs and at == runs[-1][0] + len(runs[-1][1]):
                runs[-1][1].append(each)
            else:
                runs.append((at, [each]))

    def loop(self, loop: Mapping[str, Any]) -> bytes:
        """The encoded loop around this page."""
        spans = spans_of(loop["open"])
        parts = [
            canon.head(5, 6 if self._kept else 5),
            _KEYS["ok"],
            _NUMBERS[loop["ok"]],
            self._kept,
            _KEYS["next"],
            _NUMBERS[loop["next"]],
            _KEYS["rows"],
            canon.head(4, len(self._runs)),
        ]
        for first, items in self._runs:
            parts += (canon.head(4, 1 + len(items)), _NUMBERS[first], *items)
        parts += (_KEYS["span"], canon.head(4, len(spans)), *map(_NUMBERS.__getitem__, spans))
        return b"".join((*parts, _FAILED, _NUMBERS[loop["failed"]]))


def inside(value: Any, depth: int = DEPTH) -> bytes:
    """An item as it stands inside of so many maps: depth counts from the top of a document."""
    for _ in range(depth):
        value = [value]
    return canon.encode_item(value)[depth:]


def spans_of(numbers: Sequence[int]) -> list[int]:
    """Growing numbers as pairs: how many are passed over, how many follow one another."""
    if numbers and numbers[-1] - numbers[0] + 1 == len(numbers):
        return [numbers[0], len(numbers)]
    spans: list[int] = []
    end = 0
    for number in numbers:
        if number == end and spans:
            spans[-1] += 1
        else:
            spans += (number - end, 1)
        end = number + 1
    return spans


def put_loops(loops: Mapping[str, Loop], pages: Mapping[str, Page]) -> bytes:
    """The encoded map of loops; a loop whose page is not at hand is written from its rows."""
    parts = [canon.head(5, len(loops))]
    for name in sorted(loops, key=lambda each: (len(each), each)):
        loop = loops[name]
        page = pages.get(name)
        parts += (canon.put_key(name), (Page(loop["page"]) if page is None else page).loop(loop))
    return b"".join(parts)


def loops_of(written: Mapping[str, Any]) -> dict[str, Loop]:
    """The loops of a decoded state."""
    return {name: _loop(loop) for name, loop in written.items()}


def _loop(written: Mapping[str, Any]) -> Loop:
    opened: list[int] = []
    at = 0
    spans = iter(written["span"])
    for passed, count in zip(spans, spans, strict=True):
        opened += range(at + passed, at + passed + count)
        at += passed + count
    page = [
        [run[0] + n, {"v": value}] for run in written["rows"] for n, value in enumerate(run[1:])
    ]
    counts = {name: written[name] for name in ("next", "ok", "failed")}
    return {**counts, "open": opened, "page": page + written.get("kept", [])}
