"""Random nets: the token equation after every tick, one end, and the same bytes again."""

from __future__ import annotations

import os
import random

import pytest

from tests.playbooks.stage import Stage, broken, done
from tests.playbooks.test_net import NOOP, WORK, book

SEEDS = int(os.environ.get("TALLY_PLAYBOOK_SEEDS", "60"))
GUARDS = ["", ", when: \"{{ event.name == 'step.failed' }}\"", ", when: '{{ ctx.n or false }}'"]
TAILS = ["", ", join: all", ", join: any", ", join: {mode: n_of_m, n: 2}"]


def random_net(chance: random.Random) -> str:
    """A net without cycles: steps, routers, guards, gates, loops and joins by chance."""
    size = chance.randint(2, 9)
    steps: list[str] = []
    for i in range(size):
        made = f"step: s{i}, " + chance.choice([NOOP, WORK, WORK])
        later = list(range(i + 1, size))
        if later:
            ends = chance.sample(later, chance.randint(1, min(3, len(later))))
            arcs = ", ".join(f"{{step: s{end}{chance.choice(GUARDS)}}}" for end in ends)
            mode = chance.choice(["exclusive", "inclusive", "inclusive"])
            made += f", next: {{spec: {{mode: {mode}}}, arcs: [{arcs}]}}"
        if i and chance.random() < 0.4:
            made += chance.choice(TAILS)
        elif chance.random() < 0.2:
            made += ", loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 2}}"
        steps.append(made)
    last = f"final_step: s{size - 1}" if chance.random() < 0.3 else "no_next_is_error: false"
    status = chance.choice(["fail_on_any_error", "fail_on_branch_error", "allow_partial"])
    return book(*steps, spec=f"{last}, policy: {{status: {status}}}")


@pytest.mark.clause("N-02", "N-11", "N-15")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_nets(seed: int) -> None:
    """PB-06: tokens are accounted for after every tick (`Stage.check`), whatever is settled first.

    PB-11: it finishes once and last; PB-23: every tick again gives the same bytes.
    More seeds: TALLY_PLAYBOOK_SEEDS.
    """
    chance = random.Random(seed)
    stage = Stage(random_net(chance))
    for _ in range(2_000):
        if not stage.open:
            break
        ref = chance.choice(sorted(stage.open))
        if stage.open[ref].effect != "sys/playbook.step@1":
            stage.settle(ref, {"delivered_at_ns": 1, "key": None})
        elif chance.random() < 0.2:
            stage.settle(ref, broken())
        else:
            stage.settle(ref, done(1, patches={"n": 1} if chance.random() < 0.3 else {}))
    assert stage.net["status"] in ("success", "failed", "partial")
    assert len(stage.told("playbook.finished")) == 1
    assert stage.trace[-1]["event"] in ("playbook.finished", "group.closed")
    assert stage.net["tokens"] == stage.net["runs"] == {}
    assert stage.replays()


def test_the_checker_sees_a_lost_token() -> None:
    """PB-06, control: a token that vanishes without being counted breaks the equation."""
    stage = Stage(book(f"step: a, {WORK}, next: {{arcs: [{{step: b}}]}}", f"step: b, {NOOP}"))
    stage.net["counts"]["consumed"] -= 1
    with pytest.raises(AssertionError):
        stage.check()
