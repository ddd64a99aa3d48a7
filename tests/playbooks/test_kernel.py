"""Executions on a real kernel: denials, waits, cancelling, and being opened anew at any moment."""

from __future__ import annotations

import pytest

from tallystick.model.records import IntentDenied, Ticked
from tallystick.playbooks.bundle import WORKFLOW
from tallystick.playbooks.kinds import NEEDS_GRANT
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import done

INPUTS = {
    "python": "code: x",
    "http": "url: 'http://127.0.0.1:1/'",
    "shell": "cmd: [true]",
    "sql": "database: d, command: select 1",
    "file": "action: read, path: a",
    "llm": "model: m, prompt: p",
}


@pytest.mark.clause("N-03", "X-24")
@pytest.mark.parametrize("kind", sorted(NEEDS_GRANT))
def test_each_kind_needs_its_grant(kind: str) -> None:
    """PB-22: without a grant of its kind a step is denied with the slot, fails, and nobody acts."""
    rig = PlayRig()
    text = HEAD + f"workflow:\n  - {{step: a, tool: {{kind: {kind}, {INPUTS[kind]}}}}}\n"
    others = {name: {} for name in NEEDS_GRANT if name != kind}
    rig.request(text, grants=others)
    (row,) = rig.net()["failures"]
    assert (row["kind"], row["code"], rig.net()["status"]) == ("denied", "cap.unbound", "failed")
    assert rig.jobs.all == []
    (denied,) = rig.records(IntentDenied)
    assert f"tool.{kind}" in str(denied)
    rig.request(text, name="granted", grants={kind: {}})
    assert len(rig.jobs.all) == 1


@pytest.mark.clause("N-15", "N-16", "X-17")
def test_cancelling_a_large_loop_is_one_tick() -> None:
    """PB-24: every open iteration of a loop of 1,000 is cancelled with its execution, at once."""
    rig = PlayRig()
    loop = (
        "loop: {in: '{{ range(1000) }}', iterator: i, spec: {mode: parallel, max_in_flight: 200}}"
    )
    rig.request(HEAD + f"workflow:\n  - {{step: a, {loop}, tool: {{kind: python, code: x}}}}\n")
    for _ in range(3):
        job = rig.next_job()
        assert job is not None
        rig.settle(job, done())
    assert len(list(rig.world.intents.entries())) == 200
    before = len(rig.records(Ticked))
    rig.operate("cancel", WORKFLOW, "e1")
    assert len(rig.records(Ticked)) == before + 1
    assert list(rig.world.intents.entries()) == []
    net = rig.net()
    assert (net["status"], net["tokens"], net["runs"]) == ("cancelled", {}, {})
    assert rig.verify().first is None
