"""Sub-playbooks on a real kernel: results, failures, depth, loops, cancelling."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.playbooks.bundle import WORKFLOW
from tallystick.playbooks.document import load
from tallystick.values import canon
from tests.playbooks.kernel import PlayRig
from tests.playbooks.stage import broken, done
from tests.rig import check

CHILD = """apiVersion: tally/v1
kind: Playbook
metadata: {name: child, path: lib/child}
workload: {n: 1}
workflow:
  - step: first
    tool: {kind: python, code: x, args: {n: "{{ workload.n }}"}}
    next: {arcs: [{step: second}]}
  - {step: second, tool: {kind: noop}}
"""
PARENT = """apiVersion: tally/v1
kind: Playbook
metadata: {name: parent}
workflow:
  - step: call
    %s
    tool: {kind: playbook, path: lib/child, return_step: first, args: {n: %s}}
    next: {arcs: [{step: bad, when: "{{ event.name == 'step.failed' }}"}, {step: good}]}
  - {step: good, set_ctx: {got: "{{ call }}"}, tool: {kind: noop}}
  - {step: bad, tool: {kind: noop}}
"""


def rig_with(*texts: str) -> PlayRig:
    """A world with published playbooks."""
    rig = PlayRig()
    for text in texts:
        made = load(text)
        value = {"path": made.document["metadata"]["path"], "hash": made.hash}
        rig.system("sys/PlayPublished@1", {**value, "document": made.bytes, "principal": "ana"})
    return rig


def play(rig: PlayRig, answer: Any) -> None:
    while (job := rig.next_job()) is not None:
        rig.settle(job, answer(canon.decode(job.params)))


@pytest.mark.clause("N-03", "X-17", "X-18")
def test_a_child_gives_its_result() -> None:
    """PB-24: the parent gets the result of the step it names; everything replays."""
    rig = rig_with(CHILD)
    rig.request(PARENT % ("", "7"))
    play(rig, lambda params: done({"twice": 14, "step": params["step"]}))
    net = rig.net()
    assert (net["status"], net["counts"]["step_runs"]) == ("success", {"call": 1, "good": 1})
    assert net["ctx"]["got"]["v"] == {"v": {"twice": 14, "step": "first"}}
    child = rig.net("e1.r1.2")
    assert (child["status"], child["parent"]["depth"]) == ("success", 1)
    assert rig.verify().first is None
    check(rig)


@pytest.mark.clause("N-16", "X-17")
def test_a_failed_child_is_an_error() -> None:
    """PB-24: the parent's task fails with the child's reason, and may be handled."""
    rig = rig_with(CHILD)
    rig.request(PARENT % ("", "7"))
    play(rig, lambda _: broken("boom"))
    net = rig.net()
    assert (net["status"], net["counts"]["step_runs"]) == ("success", {"call": 1, "bad": 1})
    assert "boom" in net["failures"][0]["message"]


def test_a_child_that_nobody_published() -> None:
    """PB-24: an unknown path is an error of the task, never a hang."""
    rig = rig_with()
    rig.request(PARENT % ("", "7"))
    assert rig.net()["failures"][0]["code"] == "playbook.unknown"


@pytest.mark.clause("X-17")
def test_children_do_not_nest_for_ever() -> None:
    """PB-24: max_depth ends a playbook that calls itself."""
    text = CHILD.replace(
        'python, code: x, args: {n: "{{ workload.n }}"}', "playbook, path: lib/child"
    )
    rig = rig_with(text)
    rig.request(text)
    net = rig.net()
    assert net["status"] == "failed"
    depths = [rig.net(name)["parent"] for name in cells(rig) if name != "e1"]
    assert max(parent["depth"] for parent in depths) == 8


def cells(rig: PlayRig) -> list[str]:
    return [canon.decode(cell.id.key) for _, cell in rig.world.cells[WORKFLOW].entries(b"")]


@pytest.mark.clause("N-22", "X-17")
def test_a_loop_of_children() -> None:
    """PB-24, PB-15: each iteration has a child of its own, in parallel, results in order."""
    rig = rig_with(CHILD)
    loop = "loop: {in: [1, 2, 3], iterator: i, spec: {mode: parallel}}"
    rig.request(PARENT % (loop, '"{{ iter.i }}"'))
    assert len(cells(rig)) == 4
    play(rig, lambda params: done(params["data"]["workload"]["v"]["n"] * 2))
    got = rig.net()["ctx"]["got"]["v"]["v"]
    assert got["results"] == [2, 4, 6]
    assert rig.verify().first is None


@pytest.mark.clause("N-15", "X-17")
def test_cancelling_a_parent_cancels_its_child() -> None:
    """PB-24: one tick ends the parent, discards its tokens and tells the child; no final step."""
    rig = rig_with(CHILD)
    rig.request(PARENT % ("", "7"))
    rig.operate("cancel", WORKFLOW, "e1")
    assert rig.net()["status"] == "cancelled"
    assert rig.net("e1.r1.2")["status"] == "cancelled"
    assert not list(rig.world.intents.entries())
