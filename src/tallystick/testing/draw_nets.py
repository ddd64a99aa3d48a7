"""Random playbooks, and what people do to executions of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from random import Random
from typing import Any, Final

from tallystick.playbooks.bundle import WORKFLOW
from tallystick.testing.chances import log, spread, upkeep
from tallystick.testing.plan import Config, Decision
from tallystick.testing.reference_net import Net, Step

JOINS: Final[tuple[dict[str, Any], ...]] = (
    {"mode": "all"},
    {"mode": "any"},
    {"mode": "n_of_m", "n": 2},
    {"mode": "any", "cancel_rest": True},
)
GUARDS: Final = {"": "", "failed": "{{ event.name == 'step.failed' }}", "n": "{{ ctx.n or false }}"}
_HEAD: Final = "apiVersion: tally/v1\nkind: Playbook\nmetadata: {name: net}\n"


def random_net(chance: Random) -> Net:
    """A net without cycles: routers, guards, gates, loops and joins by chance."""
    size = chance.randint(2, 9)
    steps: dict[str, Step] = {}
    for i in range(size):
        step = Step(f"s{i}", work=chance.random() < 0.6)
        later = list(range(i + 1, size))
        if later:
            ends = chance.sample(later, chance.randint(1, min(3, len(later))))
            step.arcs = [(f"s{end}", chance.choice(["", "", "failed", "n"])) for end in ends]
            step.inclusive = chance.random() < 0.65
        if i and chance.random() < 0.4:
            step.join = chance.choice(JOINS)
        elif chance.random() < 0.2:
            step.items, step.wide = 3, 2
        if i and chance.random() < 0.15:
            step.gate = True
        steps[step.name] = step
    status = chance.choice(["fail_on_any_error", "fail_on_branch_error", "allow_partial"])
    final = f"s{size - 1}" if chance.random() < 0.3 else None
    if final is not None:
        steps[final].gate = False
    return Net(steps, status, final)


def net_of(raw: Mapping[str, Any]) -> Net:
    """A net as a plan holds it."""
    steps = {name: Step(**step) for name, step in raw["steps"].items()}
    return Net(steps, raw["status"], raw["final"])


def text_of(net: Net) -> str:
    """A net as a playbook."""
    final = "" if net.final is None else f"final_step: {net.final}, "
    spec = f"executor: {{spec: {{{final}policy: {{status: {net.status}}}}}}}\nworkflow:\n"
    return _HEAD + spec + "".join(_line(step) for step in net.steps.values())


def _line(step: Step) -> str:
    kind = "python, code: x" if step.work else "noop"
    parts = [f"step: {step.name}", f"tool: {{kind: {kind}}}"]
    if step.arcs:
        arcs = [
            f"{{step: {end}" + (f', when: "{GUARDS[guard]}"' if guard else "") + "}"
            for end, guard in step.arcs
        ]
        mode = "inclusive" if step.inclusive else "exclusive"
        parts.append(f"next: {{spec: {{mode: {mode}}}, arcs: [{', '.join(arcs)}]}}")
    if step.join is not None:
        rules = ", ".join(f"{k}: {str(v).lower()}" for k, v in step.join.items())
        parts.append(f"join: {{{rules}}}")
    if step.items:
        rules = f"mode: parallel, max_in_flight: {step.wide}"
        parts.append(f"loop: {{in: [1, 2, 3], iterator: x, spec: {{{rules}}}}}")
    if step.gate:
        rule = "{when: '{{ ctx.n }}', then: {allow: true}}"
        parts.append(f"spec: {{policy: {{admit: {{rules: [{rule}]}}}}}}")
    return f"  - {{{', '.join(parts)}}}\n"


# ---- operations -----------------------------------------------------------------------------


def operations(chance: Random, config: Config) -> list[Decision]:
    """What happens to the executions of one run."""
    names = [f"e{i}" for i in range(log(chance, 1, 6))]
    made: list[dict[str, Any]] = [
        {"do": "send", "play": name, "net": asdict(random_net(chance))} for name in names
    ]
    made += [_operation(chance, names, made) for _ in range(log(chance, 2, 20))]
    return [*spread(chance, config.span_ns, made)]


def _operation(chance: Random, names: list[str], played: list[dict[str, Any]]) -> dict[str, Any]:
    roll = chance.random()
    if roll < 0.35:
        return {"do": "send", "patch": chance.choice(names)}
    if roll < 0.45:
        return dict(chance.choice(played[: len(names)]))  # the same request once more
    if roll < 0.65:
        verb = chance.choice(("suspend", "resume", "resume"))
        target = {"workflow": WORKFLOW, "key": chance.choice(names)}
        return {"do": "operate", "verb": verb, **target, "force": False}
    return upkeep(chance)
