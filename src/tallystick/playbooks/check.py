"""Static checks of a net: what a playbook probably does not mean (07 section 11).

All are linear in the net; they look at the normal form and evaluate nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tallystick.playbooks.plan import Plan


class Remark(NamedTuple):
    """A finding of the net: a code, its severity, the step it is about, and words."""

    code: str
    severity: str
    step: str
    message: str
    hint: str


def remarks(document: Mapping[str, Any]) -> list[Remark]:
    """Every remark about a net, in the order of its steps."""
    plan = Plan(document)
    found = [*_reached(plan), *_final(plan), *_shadowed(plan), *_cycles(plan), *_policies(plan)]
    return sorted(found, key=lambda row: (plan.order[row.step], row.code))


def _reached(plan: Plan) -> Iterator[Remark]:
    """P303: no token ever comes there. P319: from there no end is ever reached."""
    reached = plan.reach(plan.spec["entry_step"])
    final = plan.spec["final_step"]
    if final is not None:
        reached |= plan.reach(final)
    leaves = [name for name in plan.steps if _may_end(plan, name)]
    for name in plan.steps:
        if name not in reached:
            hint = "lead an arc to it, or remove it"
            yield Remark("P303", "warning", name, f"{name} is never reached", hint)
        if not any(leaf in plan.reach(name) for leaf in leaves):
            hint = "give one arc of the cycle a guard, or a way out"
            yield Remark("P319", "error", name, f"from {name} no end is reached", hint)


def _may_end(plan: Plan, name: str) -> bool:
    """True when a branch can end after a step: no arcs, or none that always matches."""
    return all("when" in arc and arc["when"] is not True for arc in plan.arcs(name))


def _final(plan: Plan) -> Iterator[Remark]:
    """P304: the final step is an arc's target. P305: it has arcs, which are ignored."""
    final = plan.spec["final_step"]
    if final is None:
        return
    for name in plan.steps:
        if any(arc["step"] == final for arc in plan.arcs(name)):
            hint = "the final step runs by itself, after everything else"
            yield Remark("P304", "warning", name, f"an arc leads to the final step {final}", hint)
    if plan.arcs(final):
        yield Remark("P305", "warning", final, "the final step has arcs", "they are ignored")


def _shadowed(plan: Plan) -> Iterator[Remark]:
    """P307: an arc behind one that always matches."""
    for name, step in plan.steps.items():
        if step.get("next", {}).get("mode") != "exclusive":
            continue
        open_at = [i for i, arc in enumerate(plan.arcs(name)) if arc.get("when", True) is True]
        if open_at and open_at[0] < len(plan.arcs(name)) - 1:
            message = f"arc {open_at[0]} of {name} always matches, so those behind it never do"
            yield Remark("P307", "warning", name, message, "put the arc without when last")


def _cycles(plan: Plan) -> Iterator[Remark]:
    """P312: a cycle all of whose arcs always match."""
    for name in plan.steps:
        at, seen = name, {name: None}
        while True:
            arcs = plan.arcs(at)
            if not arcs or arcs[0].get("when", True) is not True:
                break
            at = arcs[0]["step"]
            if at == name:
                hint = "give one arc of the cycle a guard"
                yield Remark("P312", "error", name, f"{name} comes back to itself for ever", hint)
                break
            if at in seen:
                break
            seen[at] = None


def _policies(plan: Plan) -> Iterator[Remark]:
    """P306: a policy without `else` that an error could pass unnoticed."""
    for name, step in plan.steps.items():
        for task in step["tool"]:
            rules = task.get("rules")
            if rules and all("when" in rule and rule["when"] is not True for rule in rules):
                message = f"the policy of {task['name']} has no else: an error may pass"
                yield Remark("P306", "warning", name, message, "add else: {then: {do: ...}}")
