"""Revoking the grant of a tool reaches the steps that use it, however large their params are."""

from __future__ import annotations

import pytest

from tallystick.kernel.inputs import RevokeGrant
from tallystick.kernel.parts import INLINE_VALUE_MAX
from tallystick.model.records import IntentDenied, IntentOpened, ReceiptSettled
from tallystick.playbooks.bundle import WORKFLOW, play_documents
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import done
from tests.playbooks.test_children import CHILD, PARENT, rig_with
from tests.rig import START_NS, check

SECOND = 1_000_000_000

STEP = (
    HEAD
    + """workflow:
  - step: a
    loop: {in: ["%s"], iterator: word}
    tool: {kind: python, args: {word: "{{ iter.word }}"}, code: y}
"""
)


@pytest.mark.clause("X-24", "K-29")
@pytest.mark.parametrize("size", [1, INLINE_VALUE_MAX + 1], ids=["inline", "by digest"])
@pytest.mark.parametrize("kind", ["python", "http"])
def test_a_revoked_tool_ends_the_step_that_uses_it(size: int, kind: str) -> None:
    """PB-22: the tools of a step are read from its params, also where those stand by digest.

    The control is the grant of a tool that the step does not use.
    """
    rig = PlayRig()
    rig.request(STEP % ("x" * size), grants={"python": {}, "http": {}})
    (opened,) = rig.records(IntentOpened)
    assert (opened.params is None) == (size > INLINE_VALUE_MAX)
    rig.do(RevokeGrant(rig.clock.sample(), f"tool.{kind}@e1", "bob", "misused", True))
    rig.run()
    ended = [each.status for each in rig.records(ReceiptSettled) if each.intent == opened.intent]
    assert ended == (["cancelled"] if kind == "python" else [])
    assert rig.net()["status"] == ("failed" if kind == "python" else None)
    check(rig)


@pytest.mark.clause("X-17", "X-24")
def test_a_minted_grant_is_passed_on() -> None:
    """PB-22, PB-24: a child's tools descend from what was minted for its parent, by name."""
    rig = rig_with(CHILD.replace("{kind: noop}", "{kind: python, code: y}"))
    rig.request(PARENT % ("", "7"))
    grants = rig.cell(WORKFLOW, "e1.r1.2").caps["grants"]
    tools = {name: grant["parent"] for name, grant in grants.items() if name.startswith("tool.")}
    assert sorted(map(str, tools.values())) == ["None", "tool.python@e1"]
    assert tools["tool.python@e1"] is None
    (job,) = rig.jobs.all
    assert job.granted == {"python": {}}
    check(rig)


@pytest.mark.parametrize("size", [1, INLINE_VALUE_MAX + 1], ids=["inline", "by digest"])
def test_a_large_answer_moves_a_loop_on(size: int) -> None:
    """PB-21: what a step answered is read wherever it stands, and the next item is asked for."""
    rig = PlayRig()
    rig.request(STEP.replace('"%s"', "1, 2"))
    (first,) = rig.jobs.all
    rig.settle(first, done("x" * size))
    (settled,) = rig.records(ReceiptSettled)
    assert (settled.payload is None) == (size > INLINE_VALUE_MAX)
    assert len(rig.jobs.all) == 2
    check(rig)


class TimedRig(PlayRig):
    """A world whose playbooks may run Python, by the manifest, for a second."""

    def __init__(self) -> None:
        policy, wiring = play_documents()
        until = {"name": "py", "cap": "sys/python@1", "expires_ns": START_NS + SECOND}
        wiring["authority"]["grants"].append(until)
        wiring["module_bindings"][WORKFLOW]["slots"]["tool.python"] = "py"
        super().__init__(documents=[policy, wiring])


@pytest.mark.clause("K-29", "X-24")
@pytest.mark.invariant("I26")
@pytest.mark.parametrize("restarts", [False, True], ids=["runs on", "starts again"])
def test_a_tool_whose_grant_expired_is_denied(restarts: bool) -> None:
    """06 section 2: all tools of a step must say yes, whatever was agreed to before."""
    rig = TimedRig()
    rig.request(STEP % "x", grants={})
    if restarts:
        rig.driver = rig.reopened().driver
    rig.clock.now_ns += 2 * SECOND
    rig.request(STEP % "x", "e2", grants={})
    assert len(rig.records(IntentOpened)) == 1
    assert [each.code for each in rig.records(IntentDenied)] == ["cap.expired"]
    check(rig)
