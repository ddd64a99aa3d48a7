"""What the steps of a playbook read and write, as far as their texts say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tallystick.playbooks.plan import Plan
from tallystick.values.expr.source import has_markers
from tallystick.values.expr.static import Path, Read, reads


class Place(NamedTuple):
    """A path that a step reads, and in which part of it."""

    where: str
    path: Path
    tolerated: bool


class Facts:
    """Reads and writes by step; each text is looked at once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.arrows = {name: [arc["step"] for arc in plan.arcs(name)] for name in plan.steps}
        self.reads = {name: list(_places(step)) for name, step in plan.steps.items()}
        self.writes = {name: _writes(step) for name, step in plan.steps.items()}
        # ctx key -> the steps that write it.
        self.writers: dict[str, list[str]] = {}
        for name, keys in self.writes.items():
            for key in keys:
                self.writers.setdefault(key, []).append(name)
        # step -> names that some arc into it gives as args.
        self.given: dict[str, dict[str, None]] = {name: {} for name in plan.steps}
        for name in plan.steps:
            for arc in plan.arcs(name):
                self.given[arc["step"]].update(dict.fromkeys(arc.get("args", {})))

    def homes(self, name: str, word: str) -> list[str]:
        """The scopes in which a bare name of a step would be found, first one first."""
        step = self.plan.steps[name]
        homes = {
            "args": word in self.given[name] or word in step.get("args", {}),
            "iter": "loop" in step and word in (step["loop"]["iterator"], "index"),
            "tasks": any(task["name"] == word for task in step["tool"]),
            "steps": word in self.plan.steps,
            "ctx": word in self.writers,
            "workload": word in self.plan.document["workload"],
        }
        return [home for home, there in homes.items() if there]


def _places(step: Mapping[str, Any]) -> Iterator[Place]:
    for rule in step.get("admit", ()):
        yield from _guard("gate", rule)
    if "loop" in step:
        yield from _texts("loop", step["loop"]["in"])
    yield from _texts("tool", step.get("args", {}))
    for task in step["tool"]:
        inputs = {k: v for k, v in task["inputs"].items() if k not in ("code", "code_b64")}
        yield from _texts("tool", [inputs, task.get("args", {})])
        for rule in task.get("rules") or ():
            yield from _guard("policy", rule)
            yield from _texts("policy", [rule.get(k) for k in ("delay", "set_ctx", "set_iter")])
    yield from _texts("set_ctx", step.get("set_ctx", {}))
    for arc in step.get("next", {}).get("arcs", ()):
        yield from _guard("arc", arc)
        yield from _texts("arc", arc.get("args", {}))


def _guard(where: str, rule: Mapping[str, Any]) -> Iterator[Place]:
    when = rule.get("when")
    if isinstance(when, str):
        # A guard is asked for its truth, and what is missing is false.
        for path, tolerated in reads(when):
            yield Place(where, path, tolerated)


def _texts(where: str, value: Any) -> Iterator[Place]:
    for path, tolerated in text_reads(value):
        yield Place(where, path, tolerated)


def text_reads(value: Any) -> Iterator[Read]:
    """What the templates inside a value read."""
    if isinstance(value, str) and has_markers(value):
        yield from reads(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from text_reads(item)
    elif isinstance(value, list):
        for item in value:
            yield from text_reads(item)


def _writes(step: Mapping[str, Any]) -> dict[str, None]:
    keys = dict.fromkeys(step.get("set_ctx", {}))
    for task in step["tool"]:
        for rule in task.get("rules") or ():
            keys.update(dict.fromkeys(rule.get("set_ctx", {})))
    return keys
