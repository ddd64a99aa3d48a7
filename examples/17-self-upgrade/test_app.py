"""Every step asks for the next one; a refusal ends it with its code."""

import app as example
from tallystick.testing import TestWorld, error, ok
from tallystick.workflow.governance import (
    Applied,
    Apply,
    Approve,
    Approved,
    Propose,
    Proposed,
    Shadow,
    Shadowed,
)

BUNDLE = "sha256:" + "0" * 64


def told():
    world = TestWorld(example.app)
    world.send(example.Change(name="a", bundle=BUNDLE))
    world.settle(Propose, ok(Proposed(proposal="p-7", bundle=BUNDLE)))
    world.settle(Shadow, ok(Shadowed(report_hash=BUNDLE, complete=True)))
    return world


def test_one_step_asks_for_the_next():
    world = told()
    world.settle(Approve, ok(Approved(decision="approve", approvals=1, needed=1)))
    world.settle(Apply, ok(Applied(status="applied", manifest_hash=BUNDLE, blockers=[], code=None)))
    state = world.cell(example.deploy, "a").state
    assert (state.proposal, state.log) == ("p-7", ["1", "1", "1", "1", "1 applied 0"])
    world.assert_replays()


def test_a_refusal_ends_it():
    world = told()
    world.settle(Approve, error("auth.missing_scope"))
    assert world.cell(example.deploy, "a").state.log[-1] == "auth.missing_scope"
    world.assert_replays()
