"""A playbook made ready to be played: what is known of it before any token moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from tallystick.playbooks.kinds import FAMILY, NEEDS_GRANT
from tallystick.playbooks.render import expression, names_in
from tallystick.values import canon

# The cell plays these itself: they ask nobody, or only for time, people, signals and children.
OWN: Final = frozenset(("noop", "wait", "human", "playbook"))


class Plan:
    """The steps of one document and what follows from them."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.spec: Mapping[str, Any] = document["spec"]
        self.steps: dict[str, Mapping[str, Any]] = {s["step"]: s for s in document["steps"]}
        self.order = {name: i for i, name in enumerate(self.steps)}
        self._reach: dict[str, frozenset[str]] = {}
        self._reads: dict[str, frozenset[str] | None] = {}
        self._kinds: dict[str, list[str]] = {}
        self._gate_reads: dict[str, frozenset[str]] = {}
        self._followers: dict[str, str | None] = {}

    def arcs(self, name: str) -> list[Mapping[str, Any]]:
        """The arcs out of a step."""
        found: list[Mapping[str, Any]] = self.steps[name].get("next", {}).get("arcs", [])
        return found

    def is_own(self, name: str) -> bool:
        """True when the cell plays the step itself, without a worker."""
        return all(task["kind"] in OWN for task in self.steps[name]["tool"])

    def asks(self) -> bool:
        """True when some step is asked for, of a worker."""
        return not all(map(self.is_own, self.steps))

    def kinds(self, name: str) -> list[str]:
        """The kinds of a step's tools that need a grant, by family."""
        if name not in self._kinds:
            found = (FAMILY.get(t["kind"], t["kind"]) for t in self.steps[name]["tool"])
            self._kinds[name] = sorted(dict.fromkeys(kind for kind in found if kind in NEEDS_GRANT))
        return list(self._kinds[name])

    def reach(self, name: str) -> frozenset[str]:
        """The steps that a token of a step can come to, itself included."""
        if name not in self._reach:
            seen: dict[str, None] = {}
            todo = [name]
            while todo:
                at = todo.pop()
                if at not in seen:
                    seen[at] = None
                    todo += [arc["step"] for arc in self.arcs(at)]
            self._reach[name] = frozenset(seen)
        return self._reach[name]

    def reads(self, name: str) -> frozenset[str] | None:
        """The names that a step's pipeline reads; None means that it may read anything."""
        if name not in self._reads:
            self._reads[name] = _reads(self.steps[name])
        return self._reads[name]

    def timeout_of(self, name: str) -> int | None:
        """How long a run may take, by its lifecycle."""
        found: int | None = self.steps[name].get("lifecycle", {}).get("timeout_ns")
        return found

    def gate_reads(self, name: str) -> frozenset[str]:
        """The names that a step's gate reads."""
        if name not in self._gate_reads:
            rules = self.steps[name].get("admit", ())
            found = [r["when"] for r in rules if isinstance(r.get("when"), str)]
            names = frozenset().union(*(expression(when).names for when in found))
            self._gate_reads[name] = names
        return self._gate_reads[name]

    def follower(self, name: str) -> str | None:
        """The one step that begins when a step ends well, if nothing is evaluated on the way."""
        if name not in self._followers:
            self._followers[name] = self._follower(name)
        return self._followers[name]

    def _follower(self, name: str) -> str | None:
        step = self.steps[name]
        router = step.get("next")
        if router is None or not router["arcs"] or "set_ctx" in step or "loop" in step:
            return None
        arc = router["arcs"][0]
        if "when" in arc or arc.get("args"):
            return None
        if router["mode"] != "exclusive" and len(router["arcs"]) > 1:
            return None
        after = self.steps.get(arc["step"])
        if after is None or any(word in after for word in ("admit", "join", "loop")):
            return None
        return None if self.is_own(arc["step"]) else str(arc["step"])


def _reads(step: Mapping[str, Any]) -> frozenset[str] | None:
    names = names_in(step.get("args", {}))
    for task in step["tool"]:
        if task["kind"] == "python" and "context" in str(task["inputs"].get("code", "context")):
            return None
        inputs = {k: v for k, v in task["inputs"].items() if k not in ("code", "code_b64")}
        names |= names_in([inputs, task.get("args", {})])
        for rule in task.get("rules", ()):
            if isinstance(rule.get("when"), str):
                names |= expression(rule["when"]).names
            names |= names_in([rule.get(k) for k in ("delay", "set_ctx", "set_iter")])
    return names


@lru_cache(maxsize=64)
def plan_of(data: bytes) -> Plan:
    """The plan of a normal form by its bytes."""
    return Plan(canon.decode(data))


_NAMED: Final[dict[str, Plan]] = {}
_NAMED_MAX: Final = 64


def plan_named(name: str, content: Callable[[str], bytes]) -> Plan:
    """The plan of a normal form by its hash: what is known already is not read again."""
    plan = _NAMED.get(name)
    if plan is None:
        plan = plan_of(content(name))
        if len(_NAMED) >= _NAMED_MAX:
            _NAMED.clear()
        _NAMED[name] = plan
    return plan
