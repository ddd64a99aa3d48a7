"""Every corner of playing a net: limits, patches, late and broken answers (PB-10 to PB-20)."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.playbooks.interpret import SIGNALS_MAX
from tallystick.playbooks.play import STEP
from tallystick.playbooks.tasks import Broken, failure
from tests.playbooks.stage import Stage, broken
from tests.playbooks.test_net import NOOP, WORK, book
from tests.playbooks.test_pipeline import DOWN, FINE, ran, retry, task

JUMP = "{name: x, kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: x}}}]}}}"
BAD = '"{{ 1 // 0 }}"'
GUARD = "{when: " + BAD + ", then: {do: break}}"
LATER = retry(delay="\"{{ 'soon' }}\"")
# a pipeline, what its tasks answer
BROKEN: list[tuple[str, dict[str, Any]]] = [
    (f"[{task('t', args='{n: ' + BAD + '}')}]", FINE),
    (f"[{task('t', GUARD)}]", FINE),
    (f"[{task('t', LATER)}]", DOWN),
]


@pytest.mark.clause("N-20")
@pytest.mark.parametrize(("tool", "answer"), BROKEN)
def test_an_expression_that_fails_ends_the_pipeline(tool: str, answer: dict[str, Any]) -> None:
    """PB-14: in an input, a guard or a delay it is an error with its code, never `false`."""
    _, _, end, _ = ran(tool, lambda _: answer)
    assert isinstance(end, Broken)
    assert end.error["kind"] == "expression"
    assert end.error["code"].startswith("P2")


def test_a_task_without_its_argument_is_not_performed() -> None:
    """PB-14: an argument that a workbook asks for and nobody gives is P111."""
    text = (
        "apiVersion: tally/v1\nkind: Playbook\nmetadata: {name: demo}\n"
        "workbook: {tasks: {greet: {kind: noop, args: {who: null}}}}\n"
        "workflow:\n  - step: a\n    tool: {kind: workbook, task: greet}\n"
    )
    stage = Stage(text).play()
    assert stage.net["status"] == "failed"
    assert stage.net["failures"][0]["code"] == "P111"


@pytest.mark.clause("N-14")
@pytest.mark.parametrize(
    ("steps", "spec", "code"),
    [
        (["step: a, next: {arcs: [{step: a}]}, tool: {kind: noop}"], "max_tokens: 5", "P403"),
        (
            ["step: a, loop: {in: [1, 2, 3], iterator: n}, tool: {kind: noop}"],
            "max_loop_items: 2",
            "P403",
        ),
        (
            [f"step: a, tool: [{JUMP}]"],
            "max_task_runs: 3",
            "P403",
        ),
    ],
)
def test_limits_end_an_execution(steps: list[str], spec: str, code: str) -> None:
    """PB-12: tokens, items of a loop, runs of tasks: over the limit it fails with P403."""
    stage = Stage(book(*steps, spec=f"limits: {{{spec}}}")).play()
    told = str([stage.net["doom"], stage.net["failures"]])
    assert stage.net["status"] == "failed"
    assert code in told
    assert stage.replays()


def test_an_absent_list_is_an_empty_loop() -> None:
    """PB-16: a loop over nothing is done at once."""
    stage = Stage(book("step: a, loop: {in: '{{ workload.none }}', iterator: n}, " + NOOP)).play()
    assert stage.net["status"] == "success"


def test_the_first_failure_stops_all_where_that_is_asked_for() -> None:
    """PB-19: `fail_fast` discards the tokens and cancels the runs that are left."""
    both = "step: a, next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: c}]}, " + NOOP
    net = book(both, f"step: b, {WORK}", f"step: c, {WORK}", spec="policy: {fail_fast: true}")
    stage = Stage(net)
    first = next(ref for ref, asked in stage.open.items() if asked.effect == STEP)
    stage.settle(first, broken())
    stage.play()
    assert stage.net["status"] == "failed"
    assert not stage.net["runs"]
    assert stage.replays()


def test_what_comes_late_or_twice_is_noted() -> None:
    """PB-20: a request again, a key taken out of ctx, signals over their bound, a lost worker."""
    stage = Stage(book(f"step: a, {WORK}"))
    stage.take("Requested", {"execution": "e1", "document": b"", "workload": {}})
    stage.patch(one=1, two=2)
    told = {"set": {}, "unset": ["one", "none"], "reason": "r", "principal": "ana"}
    stage.take("Patched", {"execution": "e1", **told})
    assert list(stage.net["ctx"]) == ["two"]
    for n in range(SIGNALS_MAX + 1):
        stage.take("Signalled", {"execution": "e1", "name": "s", "value": n, "principal": "ana"})
    assert len(stage.told("signal.dropped")) == 1
    (ref,) = [ref for ref, asked in stage.open.items() if asked.effect == STEP]
    lost = failure("crash", "effect.crash", "it is gone")
    stage.settle(ref, {**lost, "retryable": False}, "error")
    assert stage.net["failures"][0]["kind"] == "worker_lost"
    assert stage.replays()


def test_an_unreadable_answer_is_a_failure_of_its_step() -> None:
    """K-17: what the kernel rejected comes as an error of kind schema."""
    stage = Stage(book(f"step: a, {WORK}"))
    (ref,) = [ref for ref, asked in stage.open.items() if asked.effect == STEP]
    stage.open.pop(ref)
    told = {"issuer_ref": ref, "error_code": "receipt.unreadable", "error_message": "no"}
    stage.take("Rejected", told)
    assert stage.net["failures"][0]["code"] == "receipt.unreadable"
