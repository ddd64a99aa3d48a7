"""P330: joins that can starve or fall short, with the firing sequence that shows it.

Theory of operation.
The net is played without values: a guard is a free choice, a gate lets everybody in, a run ends at
once.
Every marking that can be come to is looked at once, up to a bound; beyond it nothing is known.
The order matters only to joins that cancel the rest or take the first of named steps, and there
only the order of arrivals: steps run first, in one order, then every order of arriving is tried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple

from tallystick.playbooks.check_net import constant
from tallystick.playbooks.finding import Remark
from tallystick.playbooks.joins import lacking
from tallystick.playbooks.plan import Plan

STATES_MAX: Final = 20_000
ARCS_MAX: Final = 10  # of one inclusive router: more subsets than these are not tried


class Token(NamedTuple):
    """A token: where it is, in which groups (outermost first), where from, and whether it waits.

    A group is its split and a number, so that a second round is another group.
    """

    step: str
    groups: tuple[tuple[str, int], ...]
    source: str
    waits: bool = False
    joined: bool = False


class Marking(NamedTuple):
    """Tokens, and the joins that have fired, each with the groups it fired for."""

    tokens: tuple[Token, ...]
    fired: frozenset[tuple[str, tuple[tuple[str, int], ...]]]
    made: int


class Firing(NamedTuple):
    """A step that ran, and the arcs it took."""

    step: str
    arcs: tuple[int, ...]


class Found(NamedTuple):
    """A join that went wrong, and how the net came to it."""

    code: str
    join: str
    why: str
    firings: tuple[Firing, ...]
    marking: tuple[tuple[str, str], ...]


def remarks(plan: Plan) -> Iterator[Remark]:
    """P330, once for each join that can go wrong."""
    for found in unsound(plan)[0]:
        way = ", ".join(f"{one.step} -> {_targets(plan, one) or 'end'}" for one in found.firings)
        left = ", ".join(f"{step} from {source}" for step, source in found.marking)
        message = f"the join {found.join} {found.why} ({found.code}): after {way}; left: {left}"
        hint = "let every branch come to the join, or end before the split"
        yield Remark("P330", "error", found.join, message[:1000], hint)


def _targets(plan: Plan, firing: Firing) -> str:
    return " + ".join(plan.arcs(firing.step)[i]["step"] for i in firing.arcs)


def unsound(plan: Plan) -> tuple[list[Found], bool]:
    """The first counter-example of each join, and whether every marking was looked at."""
    joins = [name for name, step in plan.steps.items() if "join" in step]
    if not joins:
        return [], True
    rules = [plan.steps[name]["join"] for name in joins]
    ordered = [each["cancel_rest"] or ("steps" in each and each["mode"] != "all") for each in rules]
    search = _Search(plan, any_order=any(ordered))
    whole = search.explore()
    return list(search.found.values()), whole


class _Search:
    """The markings of a net, breadth first: the first counter-example of a join is a shortest."""

    def __init__(self, plan: Plan, *, any_order: bool) -> None:
        self.plan = plan
        self.any_order = any_order
        self.found: dict[str, Found] = {}
        self._reach: dict[tuple[str, str], bool] = {}
        self._choices: dict[str, list[tuple[int, ...]]] = {}

    def explore(self) -> bool:
        first = Marking((Token(self.plan.spec["entry_step"], (), ""),), frozenset(), 0)
        todo: deque[tuple[Marking, tuple[Firing, ...]]] = deque([(first, ())])
        seen = {_key(first)}
        while todo:
            marking, way = todo.popleft()
            for after, firing in self._moves(marking, way):
                key = _key(after)
                if key not in seen:
                    if len(seen) >= STATES_MAX:
                        return False
                    seen.add(key)
                    todo.append((after, (*way, firing) if firing is not None else way))
        return True

    def _moves(
        self, marking: Marking, way: tuple[Firing, ...]
    ) -> Iterator[tuple[Marking, Firing | None]]:
        ready = [i for i, token in enumerate(marking.tokens) if not token.waits]
        if not ready:
            self._starved(marking, way)
            return
        for i in self._first(marking, ready):
            token = marking.tokens[i]
            rest = marking.tokens[:i] + marking.tokens[i + 1 :]
            if self._arrives(token):
                yield self._settled(self._arrived(marking, rest, token), way), None
                continue
            for arcs in self._options(token.step):
                after = self._fired(marking, rest, token, arcs)
                firing = Firing(token.step, arcs)
                yield self._settled(after, (*way, firing)), firing

    def _first(self, marking: Marking, ready: list[int]) -> list[int]:
        """The tokens of which one is next: any that arrives, once no step is left to run."""
        running = [i for i in ready if not self._arrives(marking.tokens[i])]
        return running[:1] or (ready if self.any_order else ready[:1])

    def _arrives(self, token: Token) -> bool:
        return "join" in self.plan.steps[token.step] and not token.joined

    # ---- steps ------------------------------------------------------------------------------

    def _options(self, step: str) -> list[tuple[int, ...]]:
        if step not in self._choices:
            self._choices[step] = list(self._choose(step))
        return self._choices[step]

    def _choose(self, step: str) -> Iterator[tuple[int, ...]]:
        """The sets of arcs that may match together."""
        arcs = self.plan.arcs(step)
        known = [constant(arc.get("when")) for arc in arcs]
        if self.plan.steps[step].get("next", {}).get("mode") == "inclusive":
            free = [i for i, always in enumerate(known) if always is None][:ARCS_MAX]
            for picked in product((True, False), repeat=len(free)):
                chosen = {i for i, yes in zip(free, picked, strict=True) if yes}
                yield tuple(i for i, always in enumerate(known) if always or i in chosen)
            return
        for i, always in enumerate(known):
            if always is not False:
                yield (i,)
            if always:
                return
        yield ()

    def _fired(
        self, marking: Marking, rest: tuple[Token, ...], token: Token, arcs: tuple[int, ...]
    ) -> Marking:
        groups, made = token.groups, marking.made
        split = self.plan.steps[token.step].get("next", {}).get("mode") == "inclusive"
        if split and len(arcs) > 1:
            made += 1
            groups = (*groups, (token.step, made))
        ends = [self.plan.arcs(token.step)[i]["step"] for i in arcs]
        return Marking(
            (*rest, *(Token(end, groups, token.step) for end in ends)), marking.fired, made
        )

    # ---- joins ------------------------------------------------------------------------------

    def _group(self, token: Token) -> tuple[tuple[str, int], ...]:
        """The groups down to the one that a join collects, as `joins` decides it."""
        of = self.plan.steps[token.step]["join"].get("of")
        groups = token.groups
        if of is not None:
            fits = [i for i, (split, _) in enumerate(groups) if split == of]
            return groups[: fits[-1] + 1] if fits else ()
        fits = [i for i, (split, _) in enumerate(groups) if self._all_reach(split, token.step)]
        return groups[: fits[0] + 1] if fits else groups

    def _all_reach(self, split: str, step: str) -> bool:
        if (split, step) not in self._reach:
            ends = [arc["step"] for arc in self.plan.arcs(split)]
            self._reach[split, step] = all(step in self.plan.reach(end) for end in ends)
        return self._reach[split, step]

    def _arrived(self, marking: Marking, rest: tuple[Token, ...], token: Token) -> Marking:
        if (token.step, self._group(token)) in marking.fired:
            return marking._replace(tokens=rest)
        return marking._replace(tokens=(*rest, token._replace(waits=True)))

    def _settled(self, marking: Marking, way: tuple[Firing, ...]) -> Marking:
        """The marking once every join that can fire has fired."""
        while True:
            after = self._fire_one(marking, way)
            if after is None:
                return marking
            marking = after

    def _fire_one(self, marking: Marking, way: tuple[Firing, ...]) -> Marking | None:
        waiting: dict[tuple[str, tuple[tuple[str, int], ...]], list[Token]] = {}
        for token in marking.tokens:
            if token.waits:
                waiting.setdefault((token.step, self._group(token)), []).append(token)
        for (step, group), here in waiting.items():
            rules = self.plan.steps[step]["join"]
            live = sum(token.groups[: len(group)] == group for token in marking.tokens)
            wanted: int = {"all": live, "any": 1, "n_of_m": rules.get("n", 1)}[rules["mode"]]
            if len(here) < wanted and len(here) != live:
                continue
            short = lacking(rules, [token.source for token in here])
            if short:
                self._tell("P405", step, f"falls short, {short}", way, marking)
            return self._joined(marking, step, group, rules)
        return None

    def _joined(
        self, marking: Marking, step: str, group: tuple[tuple[str, int], ...], rules: Any
    ) -> Marking:
        def is_taken(token: Token) -> bool:
            return token.waits and token.step == step and self._group(token) == group

        rest = [token for token in marking.tokens if not is_taken(token)]
        if rules["cancel_rest"]:
            rest = [token for token in rest if token.groups[: len(group)] != group]
        run = Token(step, group[:-1], "", joined=True)
        return Marking((*rest, run), marking.fired | {(step, group)}, marking.made)

    def _starved(self, marking: Marking, way: tuple[Firing, ...]) -> None:
        for token in marking.tokens:
            self._tell("P406", token.step, "starves", way, marking)

    def _tell(
        self, code: str, join: str, why: str, way: tuple[Firing, ...], marking: Marking
    ) -> None:
        if join not in self.found:
            left = tuple((token.step, token.source) for token in marking.tokens)
            self.found[join] = Found(code, join, why, way, left)


def _key(marking: Marking) -> Any:
    """Markings that differ only in the numbers of their groups, or in order, are one."""
    numbers: dict[int, int] = {}
    rows = sorted(marking.tokens)
    for token in rows:
        for _, number in token.groups:
            numbers.setdefault(number, len(numbers))

    def renamed(groups: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return tuple((split, numbers.get(number, -1)) for split, number in groups)

    tokens = tuple(sorted(token._replace(groups=renamed(token.groups)) for token in rows))
    # A join that fired for a group that nobody is in any more is of no consequence.
    live = frozenset(
        (step, renamed(groups))
        for step, groups in marking.fired
        if all(number in numbers for _, number in groups)
    )
    return tokens, live
