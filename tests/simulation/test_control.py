"""The control in small: planted defects are found, shrunk, and gone afterwards."""

from __future__ import annotations

import pytest

from tallystick.authority.policy import PolicyVerdict
from tallystick.kernel import admit
from tallystick.model import hot
from tallystick.model.records import EventAdmitted, JudgedRule, put_record
from tallystick.node.driver import Driver
from tallystick.testing.campaign import catch, shrunk
from tallystick.testing.draw import draw
from tallystick.testing.simulate import simulate
from tests.simulation.planted import DEFECTS
from tests.simulation.planted.swap import swapped

pytestmark = pytest.mark.pure_only
LISTED = (
    """
ack before flush; dispatch before flush; flush retried after EIO; duplicate receipt settles twice;
receipt routed by table; intent id without key; tail check off;
delta cleared before snapshot durable; eviction drops a dirty cell; child time sampled at replay;
fold over a set; timer re-armed twice; late receipt after cancel settles;
duplicate fence in memory only; epoch not checked; GC forgets open intents;
apply ignores open intents; fork re-dispatches; exclusive fires all; final_step twice;
self-event judged by path; mailbox last-in first-out
""".replace("\n", " ")
    .strip()
    .split("; ")
)
# Beside those of the design: one for each kind of rule.
RULES = [
    "a full flow lets out",
    "a refund is forgotten",
    "a shadow keeps old votes",
    "anybody approves",
    "apply without a yes",
    "approvals never expire",
    "leases forgotten at restart",
]
QUICK = [
    "a refund is forgotten",
    "ack before flush",
    "dispatch before flush",
    "epoch not checked",
    "exclusive fires all",
    "final_step twice",
    "intent id without key",
    "mailbox last-in first-out",
    "self-event judged by path",
    "timer re-armed twice",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_defect_is_caught(name: str) -> None:
    """RL-16, in small: the defect is caught within 500 seeds and shrunk to a few decisions."""
    row = catch(name, DEFECTS[name], "control")
    assert row["caught"], row
    assert row["decisions"] <= 15


def found() -> str | None:
    """The first invariant that a few seeds find broken."""
    for index in range(12):
        out = simulate(f"found-{index}")
        if out.invariant is not None:
            return out.invariant
    return None


@pytest.mark.invariant("I13")
def test_a_second_spelling_of_a_number_is_found() -> None:
    """I13: control: an encoder that writes a head longer than needed is found at its first frame.

    The frame still chains and still folds, so nothing else would find it.
    """

    def longer(record: EventAdmitted) -> bytes:
        return put_record(record).replace(b"\x64hops\x00", b"\x64hops\x18\x00")

    good = hot.PUT[EventAdmitted]
    hot.PUT[EventAdmitted] = longer
    try:
        assert found() == "I13"
    finally:
        hot.PUT[EventAdmitted] = good


@pytest.mark.invariant("I26")
def test_a_judgement_that_leaves_a_fact_out_is_found() -> None:
    """I26: control: facts without their time replay to equal bytes, and are found all the same."""
    good = admit._facts_digest

    def timeless(_logical_ns: int, intent: bytes, grant_hash: bytes) -> bytes:
        return good(0, intent, grant_hash)

    with swapped((admit, "_facts_digest", timeless)):
        assert found() == "I26"


@pytest.mark.invariant("I26")
def test_another_rule_for_the_same_question_is_found() -> None:
    """I26: control: a verdict that changes without a change of manifest is found."""
    count = iter(range(10**9))
    good = admit._judged_rule

    def moody(verdict: PolicyVerdict) -> JudgedRule:
        said = good(verdict)
        return said._replace(rule=said.rule + next(count) % 2)

    with swapped((admit, "_judged_rule", moody), (admit, "_stands", lambda *_: False)):
        assert found() == "I26"


def test_all_defects_of_these_layers_are_planted() -> None:
    """RL-16: the twenty-two of the design are planted, each by its name, and those of rules."""
    assert sorted(DEFECTS) == sorted([*LISTED, *RULES])


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


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_planted_defect_fits_the_product(name: str) -> None:
    """RL-16: what it replaces is there and is called alike; else a control would show nothing."""
    with DEFECTS[name]():
        found = simulate("fits-1")
    assert "TypeError" not in found.message
    assert "AttributeError" not in found.message
