"""P330: planted faults are found, the runtime does what the counter-example says, and no noise."""

from __future__ import annotations

import pytest

from tallystick.playbooks.check_joins import Found, unsound
from tallystick.playbooks.document import judge
from tallystick.playbooks.plan import Plan
from tests.playbooks import nets
from tests.playbooks.stage import Stage


def found_in(text: str) -> tuple[list[Found], bool]:
    """The counter-examples of a net."""
    document, _ = judge(text)
    assert document is not None
    return unsound(Plan(document))


def workload_of(text: str, found: Found) -> dict[str, bool]:
    """The values that make every guard choose as the counter-example did."""
    document, _ = judge(text)
    assert document is not None
    plan = Plan(document)
    made = {f"{name}_{i}": False for name in plan.steps for i in range(len(plan.arcs(name)))}
    for step, arcs in found.firings:
        made |= {f"{step}_{i}": True for i in arcs}
    return made


@pytest.mark.clause("N-22", "N-01")
@pytest.mark.parametrize("seed", range(50))
def test_a_planted_fault_is_found_and_happens(seed: int) -> None:
    """PB-17: each of 50 unsound nets is told of with a firing sequence that the runtime repeats."""
    text = nets.unsound(seed)
    found, whole = found_in(text)
    assert whole
    assert found
    assert "P330" in [f.code for f in judge(text)[1] if f.severity == "error"]
    for one in found:
        stage = Stage(text, workload=workload_of(text, one)).play()
        assert (one.join, one.code) in [(row["step"], row["code"]) for row in stage.net["failures"]]


@pytest.mark.clause("N-22", "N-01")
@pytest.mark.parametrize("seed", range(50))
def test_a_sound_net_is_silent(seed: int) -> None:
    """PB-17: nothing is told of 50 nets whose joins always get what they wait for, and they run."""
    text = nets.sound(seed)
    assert found_in(text) == ([], True)
    assert "P330" not in [f.code for f in judge(text)[1]]
    assert Stage(text).play().net["status"] == "success"
