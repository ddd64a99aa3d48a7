"""Waits between attempts: integers, bounded, and the same everywhere (AU-05).

Other interpreters are looked for on the path; `TALLY_PYTHONS` names more, separated by colons.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from tallystick.testing.answers import timeout
from tests.modules.test_fuel import others, printed_by
from tests.workflow.apps import ORDER
from tests.workflow.names import loaded
from tests.workflow.print_waits import schedule, waits

PROGRAM = Path(__file__).parent / "print_waits.py"
# Of 200 schedules, as CPython 3.11.7, 3.12.1 and 3.13.0 print it.
GOLDEN = "2004a837dc0cd136c32d4cd7639098586d8b85082c82b966856aa9ee7d158e87"


@pytest.mark.clause("X-15")
def test_waits_of_200_schedules_are_golden() -> None:
    """AU-05: first, factor, ceiling, attempts and jitter of 200 random schedules."""
    printed = json.dumps([waits(seed) for seed in range(200)]) + "\n"
    assert sha256(printed.encode()).hexdigest() == GOLDEN


@pytest.mark.parametrize("python", others() or [""])
def test_other_interpreters_wait_alike(python: str) -> None:
    """AU-05: an interpreter of another version prints the same bytes."""
    assert sha256(printed_by(python, PROGRAM)).hexdigest() == GOLDEN


@pytest.mark.clause("X-15")
def test_waits_keep_within_their_schedule() -> None:
    """AU-05: each wait is the plain one and at most its jitter more; exhaustion gives None."""
    for seed in range(200):
        policy, made = schedule(seed), waits(seed)
        assert len(made) == policy.attempts
        assert made[-1] is None
        for n, wait in enumerate(made[:-1]):
            plain = min(int(policy.ceiling), int(policy.first) * policy.factor**n)
            assert wait is not None
            assert plain <= wait <= plain + plain * policy.jitter // 100


@pytest.mark.clause("X-15")
@pytest.mark.parametrize("seed", range(4))
def test_waits_are_the_same_at_replay(seed: int) -> None:
    """AU-05: thrown away between all attempts or not, the same waits stand in the state."""
    waited = []
    for crashes in (False, True):
        world, app = loaded(ORDER, seed=seed)
        world.send(app.Placed(order_id="o1", cents=5))
        for _ in range(3):
            world.settle(app.Charge, timeout())
            if crashes:
                world.crash()
            world.advance("10s")
        world.settle(app.Charge, timeout())
        world.assert_replays()
        waited.append(world.cell(app.orders, "o1").state.retry)
        assert world.cell(app.orders, "o1").state.phase == "refused"
    assert waited[0] == waited[1]
    assert waited[0].attempt == 3
    assert waited[0].waited > 0
