"""Checks of routers and cycles: steps, arcs and their guards (P303 to P315, P319)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tallystick.playbooks.facts import Facts
from tallystick.playbooks.finding import Remark
from tallystick.playbooks.graph import Dominators, components, reached, turned, without
from tallystick.playbooks.plan import Plan
from tallystick.playbooks.render import expression
from tallystick.values.expr import ExpressionFault, truth
from tallystick.values.expr.static import compared, is_opposite, reads

END = ""  # no step is called so: where every branch ends


def remarks(facts: Facts) -> Iterator[Remark]:
    """What is odd about routers and cycles."""
    plan = facts.plan
    yield from _reached(facts)
    yield from _final(plan)
    for name in plan.steps:
        yield from _arcs(plan, name)
    yield from _cycles(facts)
    yield from _splits(facts)


def constant(when: Any) -> bool | None:
    """What a guard always is; None when that hangs on something."""
    if when is None or type(when) is bool:
        return when is not False
    made = expression(when)
    if made.names:
        return None
    try:
        return truth(made.evaluate({}))
    except ExpressionFault:
        return None


def _reached(facts: Facts) -> Iterator[Remark]:
    """P303: no token ever comes there. P319: from there no end is ever reached."""
    plan = facts.plan
    final = plan.spec["final_step"]
    begin = [plan.spec["entry_step"], *([] if final is None else [final])]
    found = reached(facts.arrows, begin)
    leaves = [name for name in plan.steps if may_end(plan, name)]
    ending = reached(turned(facts.arrows), leaves)
    for name in plan.steps:
        if name not in found:
            hint = "lead an arc to it, or remove it"
            yield Remark("P303", "warning", name, f"{name} is never reached", hint)
        if name not in ending:
            hint = "give one arc of the cycle a guard, or a way out"
            yield Remark("P319", "error", name, f"from {name} no end is reached", hint)


def may_end(plan: Plan, name: str) -> bool:
    """True when a branch can end after a step: no arcs, or none that always matches."""
    return all(constant(arc.get("when")) is not True for arc in plan.arcs(name))


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


def _arcs(plan: Plan, name: str) -> Iterator[Remark]:
    """P307, P309, P310: the guards of one router."""
    step, arcs = plan.steps[name], plan.arcs(name)
    known = [constant(arc.get("when")) for arc in arcs]
    exclusive = step.get("next", {}).get("mode") == "exclusive"
    for i, (arc, always) in enumerate(zip(arcs, known, strict=True)):
        if exclusive and always and i < len(arcs) - 1:
            message = f"arc {i} of {name} always matches, so those behind it never do"
            yield Remark("P307", "warning", name, message, "put the arc without when last")
            break
        if isinstance(arc.get("when"), str) and always is not None:
            message = f"the guard of arc {i} of {name} is always {str(always).lower()}"
            yield Remark("P307", "warning", name, message, "a guard that reads nothing is none")
    if exclusive and arcs and True not in known and not _complete(plan, name):
        severity = "error" if plan.spec["no_next_is_error"] else "info"
        message = f"every arc of {name} has a guard, and together they may all be false"
        yield Remark("P309", severity, name, message, "add an arc without when, or the opposite")
    yield from _events(name, step, arcs)


def events_of(step: Mapping[str, Any]) -> tuple[str, str]:
    """The boundary events that a step can raise."""
    return ("loop.done" if "loop" in step else "step.done", "step.failed")


def _events(name: str, step: Mapping[str, Any], arcs: list[Mapping[str, Any]]) -> Iterator[Remark]:
    """P310: a guard waits for an event that this step never raises."""
    raised = events_of(step)
    for arc in arcs:
        when = arc.get("when")
        for path, value in compared(when) if isinstance(when, str) else ():
            if path == ("event", "name") and value not in raised:
                message = f"{name} never raises {value}: this arc is never taken"
                yield Remark("P310", "warning", name, message, f"it raises {' or '.join(raised)}")


def _complete(plan: Plan, name: str) -> bool:
    """True when the shapes of some guards say that one of them always holds."""
    guards = [arc["when"] for arc in plan.arcs(name) if isinstance(arc.get("when"), str)]
    for i, one in enumerate(guards):
        if any(is_opposite(one, other) for other in guards[i + 1 :]):
            return True
    named = {value for when in guards for value in _only_event(when)}
    return all(event in named for event in events_of(plan.steps[name]))


def _only_event(when: str) -> Iterator[str]:
    """The events for which a guard that asks for nothing else holds."""
    if all(each.path == ("event", "name") for each in reads(when)) and " and " not in when:
        yield from (str(value) for _, value in compared(when))


def _cycles(facts: Facts) -> Iterator[Remark]:
    """P312: every arc of a cycle always matches. P313: nothing in it writes what guards read."""
    plan = facts.plan
    for part in components(facts.arrows):
        inside = frozenset(part)
        guards = [
            arc["when"]
            for name in part
            for arc in plan.arcs(name)
            if arc["step"] in inside and constant(arc.get("when")) is None
        ]
        first = min(part, key=plan.order.__getitem__)
        if not guards:
            # An end beside the cycle does not help when its arcs stand in front.
            if all(_stays(plan, name, inside) for name in part):
                hint = "give one arc of the cycle a guard"
                yield Remark("P312", "error", first, f"{first} comes back to itself for ever", hint)
            continue
        paths = [each.path for when in guards for each in reads(when)]
        if paths and not any(_moves(facts, part, path) for path in paths):
            told = ", ".join(sorted({".".join(path) for path in paths}))
            message = f"the cycle of {first} hangs on {told}, which nothing in it writes"
            yield Remark("P313", "warning", first, message, "write it in the cycle, with set_ctx")


def _stays(plan: Plan, name: str, inside: frozenset[str]) -> bool:
    """True when a token of a step certainly stays in a cycle."""
    arcs = plan.arcs(name)
    sure = [arc["step"] in inside for arc in arcs if constant(arc.get("when"))]
    if plan.steps[name]["next"]["mode"] == "inclusive":
        return any(sure)
    return bool(sure) and constant(arcs[0].get("when")) is True and arcs[0]["step"] in inside


def _moves(facts: Facts, part: list[str], path: tuple[str, ...]) -> bool:
    """True when a round of a cycle may change what a path leads to."""
    head, key = path[0], path[1] if len(path) > 1 else None
    if head in ("event", "outcome", "join", "iter"):
        return True
    if head == "ctx":
        return any(facts.writes[n] if key is None else key in facts.writes[n] for n in part)
    if head == "args":
        return any(facts.given[n] if key is None else key in facts.given[n] for n in part)
    return head in part or any(head in facts.writes[n] or head in facts.given[n] for n in part)


def _splits(facts: Facts) -> Iterator[Remark]:
    """P314: a split comes back to itself. P315: its branches meet where no join is."""
    plan = facts.plan
    joins = [name for name, step in plan.steps.items() if "join" in step]
    plain = without(facts.arrows, joins)
    again = {name for part in components(plain) for name in part}
    after = {
        name: [*ends, END] if may_end(plan, name) else ends for name, ends in facts.arrows.items()
    }
    back = Dominators(turned({**after, END: []}), END)
    for name, step in plan.steps.items():
        arcs = plan.arcs(name)
        if step.get("next", {}).get("mode") != "inclusive" or len(arcs) < 2:
            continue
        if name in again:
            message = f"the split {name} comes back to itself without a join: its tokens multiply"
            hint = "join its branches before the cycle closes"
            yield Remark("P314", "error", name, message, hint)
            continue
        meet = back.nearest(name)
        if meet and "join" not in plan.steps[meet] and not _joined(plain, plan, name, meet):
            message = f"the branches of {name} meet at {meet}, which runs once for each of them"
            yield Remark("P315", "info", meet, message, f"write join: all at {meet} for one run")


def _joined(plain: dict[str, list[str]], plan: Plan, name: str, meet: str) -> bool:
    """True when the branches of a split have met in a join before they come to a step."""
    ends = [arc["step"] for arc in plan.arcs(name) if arc["step"] in plain]
    return sum(meet in reached(plain, [end]) for end in ends) < 2
