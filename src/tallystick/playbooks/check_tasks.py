"""Checks of pipelines: policies, jumps, SQL texts (P306, P311, P316)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tallystick.playbooks.check_net import constant
from tallystick.playbooks.finding import Remark
from tallystick.playbooks.graph import reached, turned
from tallystick.playbooks.plan import Plan
from tallystick.values.expr.source import has_markers

_SQL: Final = ("sql", "postgres", "duckdb")
_OUT: Final = ""  # where a pipeline ends


def remarks(plan: Plan) -> Iterator[Remark]:
    """What is odd about the tasks of steps."""
    for name, step in plan.steps.items():
        for task in step["tool"]:
            yield from _policy(name, task)
            yield from _sql(name, task)
        yield from _jumps(name, step["tool"])


def _policy(name: str, task: Mapping[str, Any]) -> Iterator[Remark]:
    """P306: a policy without `else` that an error could pass unnoticed."""
    rules = task.get("rules")
    if rules and all(constant(rule.get("when")) is not True for rule in rules):
        message = f"the policy of {task['name']} has no else: an error may pass"
        yield Remark("P306", "warning", name, message, "add else: {then: {do: ...}}")


def _sql(name: str, task: Mapping[str, Any]) -> Iterator[Remark]:
    """P311: a statement that is put together from values."""
    command = task["inputs"].get("command")
    if task["kind"] in _SQL and isinstance(command, str) and has_markers(command):
        message = f"the SQL of {task['name']} is built from values"
        yield Remark("P311", "warning", name, message, "write ? and give the values as params")


def _jumps(name: str, tasks: list[Mapping[str, Any]]) -> Iterator[Remark]:
    """P316: a task that is never come to, or from which no way leads out."""
    if not tasks:
        return
    arrows: dict[str, list[str]] = {_OUT: []}
    for i, task in enumerate(tasks):
        behind = tasks[i + 1]["name"] if i + 1 < len(tasks) else _OUT
        arrows[task["name"]] = _ways(task, behind)
    found = reached(arrows, [tasks[0]["name"]])
    leaving = reached(turned(arrows), [_OUT])
    for task in tasks:
        label = task["name"]
        if label not in found:
            message = f"no way leads to the task {label}"
            yield Remark("P316", "warning", name, message, "jump to it, or remove it")
        elif label not in leaving:
            message = f"the task {label} jumps for ever"
            yield Remark("P316", "warning", name, message, "give the jump a when and an else")


def _ways(task: Mapping[str, Any], behind: str) -> list[str]:
    """Where a pipeline may go on after a task."""
    if not task.get("rules"):
        return [behind, _OUT]
    ways: list[str] = []
    for rule in task["rules"]:
        ways.append({"continue": behind, "jump": rule.get("to", _OUT)}.get(rule["do"], _OUT))
        if constant(rule.get("when")) is True:
            return ways
    return [*ways, behind]
