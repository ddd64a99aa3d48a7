"""Garbage collection in the simulation: nothing that is needed goes, and who forgets is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallystick.testing.plan import Plan
from tallystick.testing.simulate import Simulation
from tests.simulation.planted import DEFECTS

pytestmark = pytest.mark.pure_only
FILE = Path(__file__).parent / "regress" / "gc.json"


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_a_collection_that_forgets_open_intents_is_found() -> None:
    """RL-13: a collection while an intent is open, a crash, an attempt anew: all it needs is there.

    Control: the same run breaks when the collection forgets open intents.
    That any seed finds it within 500 is the business of `make sim-control`.
    """
    plan = Plan.of_json(json.loads(FILE.read_text("utf-8"))["plan"])
    assert Simulation(plan).run().invariant is None
    with DEFECTS["GC forgets open intents"]():
        assert Simulation(plan).run().invariant is not None
