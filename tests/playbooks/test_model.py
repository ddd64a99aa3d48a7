"""Random nets against the model: the same tokens, in the same order, to the same end."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tests.playbooks.model import Model, Net, Step
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import Stage, broken, done

SEEDS = int(os.environ.get("TALLY_PLAYBOOK_SEEDS", "120"))
JOINS: list[dict[str, Any]] = [
    {"mode": "all"},
    {"mode": "any"},
    {"mode": "n_of_m", "n": 2},
    {"mode": "any", "cancel_rest": True},
]
GUARDS = {"": "", "failed": "{{ event.name == 'step.failed' }}", "n": "{{ ctx.n or false }}"}
TOLD = ("enqueued", "consumed", "absorbed", "discarded")


def random_net(chance: random.Random) -> Net:
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


def text_of(net: Net) -> str:
    """A net as a playbook."""
    final = "" if net.final is None else f"final_step: {net.final}, "
    lines = [HEAD, f"executor: {{spec: {{{final}policy: {{status: {net.status}}}}}}}\nworkflow:\n"]
    for step in net.steps.values():
        parts = [
            f"step: {step.name}",
            "tool: {kind: %s}" % ("python, code: x" if step.work else "noop"),
        ]
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
        lines.append(f"  - {{{', '.join(parts)}}}\n")
    return "".join(lines)


def history(stage: Stage) -> list[tuple[str, ...]]:
    """What the runtime tells of its tokens."""
    return [
        (word, each["token"], each["step"])
        for each in stage.trace
        if (word := each["event"].removeprefix("token.")) in TOLD
    ]


def play(seed: int) -> tuple[Stage, Model]:
    """The same net and the same outcomes, in the runtime and in the model."""
    chance = random.Random(seed)
    net = random_net(chance)
    stage, model = Stage(text_of(net)), Model(net)
    for _ in range(2_000):
        assert history(stage) == model.history
        if not stage.open:
            if stage.net["phase"] != "waiting":
                break
            stage.patch(n=1)
            model.patch()
            continue
        ref = chance.choice(sorted(stage.open))
        run, _, index = ref.partition("#")[0].partition("/")
        ok, patch = chance.random() < 0.8, chance.random() < 0.3
        receipt = done(1) if ok else broken()
        stage.settle(ref, {**receipt, "patches": {"n": 1} if patch else {}})
        model.settle(int(run[1:]), int(index) if index else None, ok=ok, patch=patch)
    return stage, model


@pytest.mark.clause("N-02", "N-11", "N-15")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_runtime_does_what_the_model_says(seed: int) -> None:
    """PB-07: token histories are equal after every tick, and so is the status.

    500 nets: TALLY_PLAYBOOK_SEEDS=500.
    """
    stage, model = play(seed)
    assert model.result == stage.net["status"]
    assert history(stage) == model.history
    assert len(model.history) >= 2


def test_the_model_would_notice() -> None:
    """PB-07, control: a model that loses the order of arcs disagrees on some net."""
    differs = 0
    for seed in range(40):
        chance = random.Random(seed)
        net = random_net(chance)
        stage = Stage(text_of(net))
        for step in net.steps.values():
            step.arcs.reverse()
        differs += history(stage) != Model(net).history
    assert differs > 0
