"""Nets by chance: sound ones of blocks, and ones with a fault planted in them."""

from __future__ import annotations

import random
from typing import Any

HEAD = "apiVersion: tally/v1\nkind: Playbook\nmetadata: {name: net}\n"


class Made:
    """A net being made: steps with their arcs, whose guards are values of the workload."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.steps: dict[str, dict[str, Any]] = {}

    def step(self, **more: Any) -> str:
        """One more step."""
        name = f"s{len(self.steps)}"
        self.steps[name] = {"mode": "exclusive", "arcs": [], **more}
        return name

    def arc(self, start: str, end: str, *, guarded: bool = False) -> None:
        """An arc; a guarded one is taken when the workload says so."""
        self.steps[start]["arcs"].append((end, guarded))

    # ---- sound blocks: each has one entry and one exit, and a token that goes in comes out -----

    def block(self, depth: int) -> tuple[str, str]:
        """A block by chance."""
        kind = self.chance.choice(
            ["task", "row", "choice", "split", "split"] if depth else ["task"]
        )
        if kind == "task":
            name = self.step()
            return name, name
        if kind == "row":
            first, second = self.block(depth - 1), self.block(depth - 1)
            self.arc(first[1], second[0])
            return first[0], second[1]
        return self.fork(depth, split=kind == "split")

    def fork(self, depth: int, *, split: bool) -> tuple[str, str]:
        """A choice of blocks, or all of them and a join."""
        begin = self.step(mode="inclusive" if split else "exclusive")
        blocks = [self.block(depth - 1) for _ in range(self.chance.randint(2, 3))]
        for i, (entry, _) in enumerate(blocks):
            self.arc(begin, entry, guarded=not split and i < len(blocks) - 1)
        end = self.step()
        if split:
            n = self.chance.randint(1, len(blocks))
            steps = [leave for _, leave in blocks]
            joins = ["all", "any", f"{{mode: n_of_m, n: {n}}}"]
            joins.append(f"{{mode: all, steps: [{', '.join(steps)}]}}")
            self.steps[end]["join"] = self.chance.choice(joins)
        for _, leave in blocks:
            self.arc(leave, end)
        return begin, end

    # ---- planted faults ------------------------------------------------------------------------

    # tidy: every fault is told in a line or two.
    def fault(self) -> tuple[str, str]:
        """A block that may fall short or starve."""
        begin = self.step(mode="inclusive")
        one, two = self.block(1), self.block(1)
        for entry, _ in (one, two):
            self.arc(begin, entry)
        kind = self.chance.choice(["ends", "steps", "apart", "either", "guarded"])
        end = self.step(join="all")
        if kind == "apart":
            other = self.step(join="all")
            self.arc(one[1], end)
            self.arc(two[1], other)
            self.arc(other, end)
            return begin, end
        if kind == "either":
            other = self.step(join="all")
            self.arc(one[1], end, guarded=True)
            self.arc(one[1], other)
            self.arc(two[1], end)
            return begin, other
        self.arc(one[1], end, guarded=kind == "ends")
        self.arc(two[1], end, guarded=kind == "steps")
        if kind == "guarded":
            self.steps[begin]["arcs"] = [(name, True) for name, _ in self.steps[begin]["arcs"]]
            extra = self.step()
            self.arc(begin, extra)
            self.arc(extra, end)
        many = 3 if kind == "guarded" else 2
        steps = f"{{mode: all, steps: [{one[1]}, {two[1]}]}}"
        self.steps[end]["join"] = steps if kind == "steps" else f"{{mode: n_of_m, n: {many}}}"
        return begin, end

    def text(self, first: str) -> str:
        """The net as a playbook."""
        lines = [HEAD, f"executor: {{spec: {{entry_step: {first}}}}}\nworkflow:\n"]
        for name, step in self.steps.items():
            arcs = ", ".join(
                f"{{step: {end}" + (f", when: '{{{{ workload.{name}_{i} }}}}'" if guarded else "")
                + "}"
                for i, (end, guarded) in enumerate(step["arcs"])
            )  # fmt: skip
            join = f", join: {step['join']}" if "join" in step else ""
            lines.append(
                f"  - {{step: {name}, tool: {{kind: noop}}{join}, "
                f"next: {{spec: {{mode: {step['mode']}}}, arcs: [{arcs}]}}}}\n"
            )
        return "".join(lines)


def sound(seed: int) -> str:
    """A net in which every join gets what it waits for."""
    made = Made(seed)
    return made.text(made.block(3)[0])


def unsound(seed: int) -> str:
    """A net with one planted fault, between sound blocks."""
    made = Made(seed)
    before, bad, after = made.block(1), made.fault(), made.block(1)
    made.arc(before[1], bad[0])
    made.arc(bad[1], after[0])
    return made.text(before[0])
