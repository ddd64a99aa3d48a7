"""The net once more, as plainly as it can be said: no code of the room is used here.

It knows steps, arcs, gates, loops, joins and endings, counts by looking, and keeps no indexes.
What it tells is the history of tokens: made, consumed, absorbed, discarded, and the status.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Groups = tuple[int, ...]


@dataclass
class Step:
    """A step of a net: `work` is done elsewhere; guards are '', 'failed' or 'n'."""

    name: str
    work: bool
    arcs: list[tuple[str, str]] = field(default_factory=list)
    inclusive: bool = False
    join: dict[str, Any] | None = None
    gate: bool = False
    items: int = 0
    wide: int = 1


@dataclass
class Net:
    """A net: its steps in order, how it is judged, and what runs last."""

    steps: dict[str, Step]
    status: str
    final: str | None


@dataclass
class Token:
    """A token: the groups around it, outermost first, and where it comes from."""

    step: str
    groups: Groups
    source: str
    at: str = "ready"
    final: bool = False


@dataclass
class Run:
    """A run with the units that are open; a loop counts what it has begun and what has ended."""

    step: str
    groups: Groups
    open: list[int | None]
    begun: int = 0
    ended: int = 0
    final: bool = False


class Model:
    """One execution."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.history: list[tuple[str, ...]] = []
        self.tokens: dict[int, Token] = {}
        self.queue: list[int] = []
        self.runs: dict[int, Run] = {}
        self.splits: dict[int, str] = {}
        self.fired: list[tuple[int, str]] = []
        self.n = self.rung = False
        self.made = self.ran = self.failed = self.handled = self.lost = self.well = 0
        self.visited: list[str] = []
        self.status = self.result = ""
        self._emit(next(iter(net.steps)), (), "")
        self._go()

    def _emit(self, step: str, groups: Groups, source: str, *, final: bool = False) -> None:
        self.made += 1
        self.tokens[self.made] = Token(step, groups, source, final=final)
        self.queue.append(self.made)
        self.history.append(("enqueued", f"t{self.made}", step))

    def _end(self, number: int, how: str) -> None:
        token = self.tokens.pop(number)
        self.history.append((how, f"t{number}", token.step))

    def _live(self, group: int) -> int:
        """Tokens and runs in a group; 0 is the execution."""
        holders: list[Token | Run] = [*self.tokens.values(), *self.runs.values()]
        return sum(group == 0 or group in each.groups for each in holders)

    def _go(self) -> None:
        """Go on until nothing can, then judge."""
        while self._turn() or self._join() or self._open_gates():
            pass
        if self.queue or self.runs or self.result:
            return
        if self.status:
            self.result = self.status
        elif any(token.at == "pending" for token in self.tokens.values()):
            return
        elif self._starve():
            self._go()
        else:
            self._quiet()

    def _turn(self) -> bool:
        moved = bool(self.queue)
        while self.queue:
            self._take(self.queue.pop(0))
        for number in list(self.runs):
            moved = self._more(number) or moved
        return moved

    def _take(self, number: int) -> None:
        token = self.tokens.get(number)
        if token is None:
            return
        step = self.net.steps[token.step]
        if step.gate and not self.n:
            token.at = "pending"
        elif step.join is not None and not token.final:
            group = self._collects(token)
            if (group, step.name) in self.fired:
                self._end(number, "absorbed")
            else:
                token.at = "joining"
        else:
            self._begin(step, [number], token.groups)

    def _open(self, name: str, numbers: list[int], groups: Groups) -> int:
        self.ran += 1
        final = any(self.tokens[each].final for each in numbers)
        self.visited.append(name)
        self.runs[self.ran] = Run(name, groups, [], final=final)
        for each in numbers:
            self._end(each, "consumed")
        return self.ran

    def _begin(self, step: Step, numbers: list[int], groups: Groups) -> None:
        number = self._open(step.name, numbers, groups)
        if step.items:
            self._more(number)
        elif step.work:
            self.runs[number].open.append(None)
        else:
            self._ended(number, ok=True)

    def _more(self, number: int) -> bool:
        """Begin iterations while there is room."""
        run = self.runs.get(number)
        step = None if run is None else self.net.steps[run.step]
        moved = False
        while run and step and run.begun < step.items and len(run.open) < step.wide:
            moved = True
            index, run.begun = run.begun, run.begun + 1
            if step.work:
                run.open.append(index)
            else:
                run.ended += 1
                if run.ended == step.items:
                    self._ended(number, ok=True)
        return moved

    def _open_gates(self) -> bool:
        rung, self.rung = self.rung, False
        waiting = [n for n, token in self.tokens.items() if token.at == "pending"]
        if not rung or not waiting:
            return False
        for number in waiting if self.n else []:
            self.tokens[number].at = "ready"
            self.queue.append(number)
        return True

    def _reach(self, start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += [end for end, _ in self.net.steps[at].arcs]
        return seen

    def _collects(self, token: Token) -> int:
        """The outermost split whose every arc can come to the join, else the innermost group."""
        for group in token.groups:
            ends = [end for end, _ in self.net.steps[self.splits[group]].arcs]
            if all(token.step in self._reach(end) for end in ends):
                return group
        return token.groups[-1] if token.groups else 0

    def _waiting(self) -> dict[tuple[int, str], list[int]]:
        """Who waits where: by group, then in the order in which each join was first come to."""
        found: dict[tuple[int, str], list[int]] = {}
        for number, token in self.tokens.items():
            if token.at == "joining":
                found.setdefault((self._collects(token), token.step), []).append(number)
        return dict(sorted(found.items(), key=lambda item: item[0][0]))

    def _join(self) -> bool:
        for (group, name), numbers in self._waiting().items():
            rules = self.net.steps[name].join or {}
            wanted = {"all": 10**9, "any": 1, "n_of_m": int(rules.get("n", 1))}[rules["mode"]]
            if len(numbers) >= wanted or len(numbers) == self._live(group):
                self._fire(group, name, numbers)
                return True
        return False

    def _fire(self, group: int, name: str, numbers: list[int]) -> None:
        rules = self.net.steps[name].join or {}
        self.fired.append((group, name))
        around = self.tokens[numbers[0]].groups
        outer = around[: around.index(group)] if group else ()
        order = list(self.net.steps)
        numbers = sorted(numbers, key=lambda n: (order.index(self.tokens[n].source), n))
        if rules["mode"] == "n_of_m" and len(numbers) < rules["n"]:
            self._ended(self._open(name, numbers, outer), ok=False)
        else:
            self._begin(self.net.steps[name], numbers, outer)
        if rules.get("cancel_rest"):
            for number in [n for n, t in self.tokens.items() if group == 0 or group in t.groups]:
                self._end(number, "discarded")
            for number in [n for n, r in self.runs.items() if group and group in r.groups]:
                del self.runs[number]

    def _starve(self) -> bool:
        stuck = self._waiting()
        for (group, name), numbers in stuck.items():
            around = self.tokens[numbers[0]].groups
            self.fired.append((group, name))
            outer = around[: around.index(group)] if group else ()
            self._ended(self._open(name, numbers, outer), ok=False)
        return bool(stuck)

    def settle(self, number: int, index: int | None, *, ok: bool, patch: bool) -> None:
        """The outcome of a unit that was done elsewhere."""
        run = self.runs[number]
        run.open.remove(index)
        if patch:
            self.n = self.rung = True
        if index is None or not ok:
            run.open.clear()
            self._ended(number, ok=ok)
        else:
            run.ended += 1
            if run.ended == self.net.steps[run.step].items:
                self._ended(number, ok=True)
        self._go()

    def patch(self) -> None:
        """Somebody sets ctx.n."""
        self.n = self.rung = True
        self._go()

    def _ended(self, number: int, *, ok: bool) -> None:
        run = self.runs[number]
        step = self.net.steps[run.step]
        if run.final:
            del self.runs[number]
            if not ok:
                self.status = "failed"
            return
        taken = [
            (end, guard)
            for end, guard in step.arcs
            if guard == "" or (guard == "failed" and not ok) or (guard == "n" and self.n)
        ]
        taken = taken if step.inclusive else taken[:1]
        if not ok:
            self.failed += 1
            self.handled += any(guard for _, guard in taken)
        groups = run.groups
        if step.inclusive and len(taken) > 1:
            number_of = len(self.splits) + 1
            self.splits[number_of] = step.name
            groups = (*groups, number_of)
        for end, _ in taken:
            self._emit(end, groups, step.name)
        if not taken:
            self.lost += not ok
            self.well += ok
        del self.runs[number]

    def _quiet(self) -> None:
        """Nothing is left: what is the status, and is there a final step to run?"""
        unhandled = self.failed - self.handled
        if self.net.status == "fail_on_branch_error":
            self.status = "failed" if self.lost else "success"
        elif self.net.status == "allow_partial" and unhandled:
            self.status = "partial" if self.well else "failed"
        else:
            self.status = "failed" if unhandled else "success"
        if self.net.final is not None and self.net.final not in self.visited:
            self._emit(self.net.final, (), "", final=True)
            self._go()
        else:
            self.result = self.status
