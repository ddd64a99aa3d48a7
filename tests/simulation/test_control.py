"""The control in small: planted defects are found, shrunk, and gone afterwards."""

from __future__ import annotations

import pytest

from tallystick.node.driver import Driver
from tallystick.testing.campaign import catch, shrunk
from tallystick.testing.plan import draw
from tallystick.testing.simulate import simulate
from tests.simulation.planted import DEFECTS

QUICK = [
    "ack before flush",
    "dispatch before flush",
    "epoch not checked",
    "intent id without key",
    "mailbox last-in first-out",
    "timer re-armed twice",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_defect_is_caught(name: str) -> None:
    """RL-16, in small: the defect is caught within 500 seeds and shrunk to a few decisions."""
    row = catch(name, DEFECTS[name], "control")
    assert row["caught"], row
    assert row["decisions"] <= 15


def test_all_defects_of_these_layers_are_planted() -> None:
    """RL-16: nineteen of the twenty-two concern what is there now."""
    assert len(DEFECTS) == 19


def test_a_planted_defect_is_taken_out_again() -> None:
    """RL-16: what is planted does not outlive its block."""
    good = Driver.stage
    with DEFECTS["ack before flush"]():
        assert Driver.stage is not good
    assert Driver.stage is good


def test_shrinking_keeps_the_failure() -> None:
    """RL-16: the smallest plan breaks the same invariant, with fewer decisions."""
    with DEFECTS["dispatch before flush"]():
        out = next(o for o in map(simulate, (f"shrink-{i}" for i in range(50))) if o.invariant)
        assert out.invariant is not None
        plan = draw(out.seed)
        small = shrunk(plan, out.invariant)
    assert len(small.decisions) < len(plan.decisions)
    assert len(small.decisions) <= 15
