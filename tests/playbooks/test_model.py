"""Random nets against the model: the same tokens, in the same order, to the same end."""

from __future__ import annotations

import os
import random

import pytest

from tallystick.testing.draw_nets import random_net, text_of
from tests.playbooks.model import Model
from tests.playbooks.stage import Stage, broken, done

SEEDS = int(os.environ.get("TALLY_PLAYBOOK_SEEDS", "120"))
TOLD = ("enqueued", "consumed", "absorbed", "discarded")


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
