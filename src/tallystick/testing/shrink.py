"""Shrinking: the smallest plan that still breaks the same invariant.

Operations are dropped by halves, then faults, then scripts get shorter and the configuration
plainer; what no longer fails is put back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from tallystick.testing.plan import Config, Decision, Plan

Fails = Callable[[Plan], bool]


class Shrinker:
    """Tries smaller plans within a budget of runs."""

    def __init__(self, fails: Fails, runs_max: int = 300) -> None:
        self._fails = fails
        self._left = runs_max

    def shrink(self, plan: Plan) -> Plan:
        """The smallest failing plan that was found; the plan itself when nothing smaller is."""
        size = -1
        while size != len(plan.decisions) and self._left > 0:
            size = len(plan.decisions)
            plan = self._drop(plan, "do")
            plan = self._drop(plan, "fault")
        plan = self._shorten(plan)
        return self._plainer(plan)

    def _try(self, plan: Plan) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        return self._fails(plan)

    def _drop(self, plan: Plan, kind: str) -> Plan:
        """Leave out runs of decisions of a kind: halves first, single ones last."""
        size = max(sum(1 for d in plan.decisions if kind in d) // 2, 1)
        while True:
            at = 0
            while True:
                chosen = [i for i, d in enumerate(plan.decisions) if kind in d]
                if at >= len(chosen):
                    break
                smaller = plan.without(frozenset(chosen[at : at + size]))
                if self._try(smaller):
                    plan = smaller
                else:
                    at += size
            if size == 1:
                return plan
            size //= 2

    def _shorten(self, plan: Plan) -> Plan:
        """Shorter scripts: one word less at a time, from the end."""
        for i, decision in enumerate(plan.decisions):
            while _words(decision):
                value = {**decision["value"], "todo": decision["value"]["todo"][:-1]}
                shorter = {**decision, "value": value}
                changed = (*plan.decisions[:i], shorter, *plan.decisions[i + 1 :])
                smaller = replace(plan, decisions=changed)
                if not self._try(smaller):
                    break
                plan, decision = smaller, shorter  # noqa: PLW2901 - the shorter one is next
        return plan

    def _plainer(self, plan: Plan) -> Plan:
        """Each setting at its plainest, where that still fails."""
        plainest = Config()
        for setting in fields(Config):
            value = getattr(plainest, setting.name)
            if getattr(plan.config, setting.name) == value:
                continue
            config = replace(plan.config, **{setting.name: value})
            smaller = replace(plan, config=config)
            if self._try(smaller):
                plan = smaller
        return plan


def _words(decision: Decision) -> bool:
    value: Any = decision.get("value")
    return isinstance(value, dict) and bool(value.get("todo"))
