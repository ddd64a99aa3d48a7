"""What an execution is shown as while it is not over."""

from __future__ import annotations

import pytest

from tallystick.views.executions import execution_list, execution_show
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import broken, done

TEXT = HEAD + (
    "executor: {spec: {final_step: report}}\nworkflow:\n"
    "  - {step: a, tool: {kind: python, code: x}}\n"
    "  - {step: report, tool: {kind: python, code: x}}\n"
)


def shown(rig: PlayRig) -> list[str]:
    return [execution_show(rig.world, "e1")["status"], execution_list(rig.world)[0]["status"]]


@pytest.mark.parametrize(("answer", "end"), [(done(), "success"), (broken(), "failed")])
def test_no_end_is_told_before_the_final_step_has_ended(answer: object, end: str) -> None:
    """PB-13: until then it is in its final phase, because that step decides about the end too."""
    rig = PlayRig()
    rig.request(TEXT)
    assert shown(rig) == ["running", "running"]
    rig.settle(rig.jobs.all[0], done())
    assert len(rig.jobs.all) == 2
    assert shown(rig) == ["final", "final"]
    rig.settle(rig.jobs.all[1], answer)
    assert shown(rig) == [end, end]
