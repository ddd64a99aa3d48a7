"""The lane of built-in modules: their faults are those of a tick, what a disk lost is not."""

from __future__ import annotations

import pytest

from tallystick.errors import BlobLost
from tallystick.model.abi import Halted
from tallystick.model.records import WorkflowFaulted
from tallystick.modules.builtin import ENGINE, Builtin
from tallystick.modules.runners import Library, Runners
from tallystick.values import canon
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import done
from tests.rig import WORLD, check

ONE = HEAD + "workflow:\n  - {step: a, tool: {kind: python, code: y}}\n"

GUARDED = (
    HEAD
    + """workflow:
  - step: a
    tool: {kind: python, code: y}
    next: {arcs: [{step: b, when: "{{ (workload.words | length) > 9 }}"}]}
  - {step: b, tool: {kind: noop}}
"""
)


def test_what_cannot_be_played_is_a_fault_of_its_tick() -> None:
    """D14: a document that is none ends its own execution, and the next one is played."""
    rig = PlayRig()
    value = {"execution": "bad", "document": b"no document", "workload": {}, "grants": {}}
    rig.system("sys/PlayRequested@1", {**value, "principal": "ana", "parent": None})
    (fault,) = rig.records(WorkflowFaulted)
    assert (fault.code, fault.engine, canon.decode(fault.key)) == ("exception", ENGINE, "bad")
    rig.request(ONE)
    rig.settle(rig.jobs.all[0], done())
    assert rig.net()["status"] == "success"
    check(rig)


def test_what_a_disk_lost_of_an_execution_stops_its_world() -> None:
    """03 section 5: what is lost says nothing about the tick: no fault, and it goes on with it."""
    rig = PlayRig()
    rig.request(GUARDED, workload={"words": "x" * 5000})
    (job,) = rig.jobs.all
    rig.runner = Runners(None, library=Library(), lanes={"builtin": Builtin()})  # type: ignore[arg-type]
    other = rig.reopened()
    workload = canon.raw_of(rig.net()["workload"]["h"])
    held = rig.journal._books[WORLD].blobs
    kept = held.pop(workload)
    with pytest.raises(BlobLost):
        other.settle(job, done())
    assert other.records(WorkflowFaulted) == []
    held[workload] = kept
    again = other.reopened()
    again.run()
    assert again.records(WorkflowFaulted) == []
    assert again.cell("sys/playbook@1", "e1").status == "completed"
    check(again)


def test_built_in_modules_have_no_pure_functions() -> None:
    """K-02: a guard or a key that names one of ours faults, and runs nothing."""
    catalogue = PlayRig().world.active.catalogue
    answer = Builtin().pure(catalogue, "sys/playbooks@1", "interpret", b"", None)
    assert isinstance(answer, Halted)
    assert (answer.code, answer.engine) == ("exception", ENGINE)
