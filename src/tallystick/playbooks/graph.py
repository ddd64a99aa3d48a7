"""The net as a graph of steps: order, components, dominators; all linear in its arcs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Arrows = Mapping[str, list[str]]


def reached(arrows: Arrows, begin: Iterable[str]) -> dict[str, None]:
    """The nodes that can be come to, those to begin with included."""
    seen: dict[str, None] = {}
    todo = list(begin)
    while todo:
        at = todo.pop()
        if at not in seen:
            seen[at] = None
            todo += arrows.get(at, ())
    return seen


def turned(arrows: Arrows) -> dict[str, list[str]]:
    """Every arrow the other way round."""
    made: dict[str, list[str]] = {name: [] for name in arrows}
    for name, ends in arrows.items():
        for end in ends:
            made.setdefault(end, []).append(name)
    return made


def without(arrows: Arrows, names: Iterable[str]) -> dict[str, list[str]]:
    """The graph without some nodes."""
    gone = frozenset(names)
    return {
        name: [end for end in ends if end not in gone]
        for name, ends in arrows.items()
        if name not in gone
    }


# tidy: one walk; its stacks belong together.
def components(arrows: Arrows) -> list[list[str]]:
    """The cycles: sets of nodes that all come to each other (Tarjan), without single nodes.

    A node with an arrow to itself is a cycle of one.
    """
    found: list[list[str]] = []
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    inside: dict[str, None] = {}
    for root in arrows:
        if root in order:
            continue
        work = [(root, iter(arrows[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        inside[root] = None
        while work:
            at, ends = work[-1]
            end = next(ends, None)
            if end is not None:
                if end not in order:
                    order[end] = low[end] = len(order)
                    stack.append(end)
                    inside[end] = None
                    work.append((end, iter(arrows.get(end, ()))))
                elif end in inside:
                    low[at] = min(low[at], order[end])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[at])
            if low[at] == order[at]:
                cut = stack.index(at)
                part, stack[cut:] = stack[cut:], []
                for name in part:
                    del inside[name]
                if len(part) > 1 or at in arrows[at]:
                    found.append(part)
    return found


class Dominators:
    """Which nodes every way from the root passes; nodes out of reach have none."""

    def __init__(self, arrows: Arrows, root: str) -> None:
        self._above: dict[str, str] = {root: root}
        rank = {name: i for i, name in enumerate(_last_first(arrows, root))}
        before = turned(arrows)
        moved = True
        while moved:
            moved = False
            for name in rank:
                if name == root:
                    continue
                known = [each for each in before[name] if each in self._above]
                top = known[0]
                for other in known[1:]:
                    top = self._meet(top, other, rank)
                if self._above.get(name) != top:
                    self._above[name] = top
                    moved = True
        self._spans = self._tour(root)

    def _meet(self, one: str, other: str, rank: Mapping[str, int]) -> str:
        while one != other:
            while rank[one] > rank[other]:
                one = self._above[one]
            while rank[other] > rank[one]:
                other = self._above[other]
        return one

    def _tour(self, root: str) -> dict[str, tuple[int, int]]:
        below: dict[str, list[str]] = {name: [] for name in self._above}
        for name, top in self._above.items():
            if name != root:
                below[top].append(name)
        begins: dict[str, int] = {}
        spans: dict[str, tuple[int, int]] = {}
        todo: list[tuple[str, bool]] = [(root, False)]
        while todo:
            name, leaving = todo.pop()
            if leaving:
                spans[name] = (begins[name], len(begins))
                continue
            begins[name] = len(begins)
            todo.append((name, True))
            todo += [(each, False) for each in below[name]]
        return spans

    def dominates(self, one: str, other: str) -> bool:
        """True when every way to `other` passes `one`, which is another node."""
        if one == other or one not in self._spans or other not in self._spans:
            return False
        first, last = self._spans[one]
        return first <= self._spans[other][0] < last

    def nearest(self, name: str) -> str | None:
        """The last node that every way to a node passes."""
        above = self._above.get(name)
        return None if above == name else above


def _last_first(arrows: Arrows, root: str) -> list[str]:
    """Nodes that can be reached, in reverse order of being left: each behind its dominators."""
    left: list[str] = []
    seen = {root: None}
    work = [(root, iter(arrows.get(root, ())))]
    while work:
        at, ends = work[-1]
        end = next(ends, None)
        if end is None:
            left.append(at)
            work.pop()
        elif end not in seen:
            seen[end] = None
            work.append((end, iter(arrows.get(end, ()))))
    return left[::-1]
