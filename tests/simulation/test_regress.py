"""Every failing run that was ever shrunk is run again, for good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallystick.testing.plan import Plan
from tallystick.testing.simulate import Simulation

FILES = sorted((Path(__file__).parent / "regress").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_run_that_failed_once_holds_now(path: Path) -> None:
    """RL-15: a shrunk failure of the past finds nothing any more."""
    plan = Plan.of_json(json.loads(path.read_text())["plan"])
    found = Simulation(plan).run()
    assert found.invariant is None, f"{found.invariant}: {found.message}"


def test_there_is_something_to_run_again() -> None:
    """RL-15: the folder of regressions is found, so that an empty glob cannot pass."""
    assert FILES
