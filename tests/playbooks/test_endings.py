"""Final steps, loops at their full size, forks in the middle: what the tables leave out."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tallystick.playbooks.bundle import WORKFLOW
from tallystick.playbooks.values import Values
from tallystick.values import canon
from tests.kernel.test_fork import child_rig
from tests.playbooks.kernel import PlayRig, net_in
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import Stage, broken, done
from tests.playbooks.test_net import FAILED, NOOP, WORK, book, runs
from tests.playbooks.test_worked import GRANTS, TEXT, system
from tests.rig import Rig

WAITS = int(os.environ.get("TALLY_PLAYBOOK_WAITS", "150"))


# tidy: one summary, all of its fields.
@pytest.mark.clause("N-17", "N-19")
def test_the_final_step_is_told_everything() -> None:
    """PB-13: id, status, counts, branches, results by reference and failures are in its args."""
    loop = "loop: {in: [1, 2, 3], iterator: n}, spec: {policy: {failure: {mode: best_effort}}}"
    text = book(
        "step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}",
        f"step: a, {WORK}, next: {{arcs: [{{step: d, when: false}}]}}",
        f"step: b, {loop}, {WORK}",
        f"step: c, {WORK}, next: {{arcs: [{{step: d, when: {FAILED}}}]}}",
        f"step: d, {NOOP}",
        f"step: end, {WORK}",
        spec="final_step: end, policy: {status: allow_partial}",
    )
    seen: list[dict[str, Any]] = []

    def worker(params: dict[str, Any]) -> Any:
        if params["step"] == "end":
            seen.append(params["data"]["args"]["v"])
        bad = params["step"] == "c" or params["iteration"] == 1
        return broken() if bad else done("x" * 3000)

    stage = Stage(text).play(worker)
    (told,) = seen
    assert (told["execution_id"], told["status"]) == ("e1", "partial")
    assert told["counts"] == {
        "step_runs": 5,
        "failed": 1,
        "handled": 1,
        "iterations": 3,
        "branches": {"ended": 2, "no_match": 1, "failed": 0, "discarded": 0},
    }
    assert set(told["results"]) == {"s", "a", "b", "d"}
    assert told["results"]["a"].startswith("sha256:"), "a large result is named, not passed on"
    (row,) = told["failures"]
    assert (row["step"], row["run"], row["kind"], row["handled"]) == ("c", "r4", "unknown", True)
    assert {"code", "message"} <= set(row)
    assert stage.net["status"] == "partial"


@pytest.mark.clause("N-17", "N-18")
def test_a_final_step_that_an_arc_has_reached() -> None:
    """PB-13: it ran as an ordinary step already, so it does not run again."""
    text = book(
        f"step: a, {NOOP}, next: {{arcs: [{{step: end}}]}}", f"step: end, {NOOP}",
        spec="final_step: end",
    )  # fmt: skip
    stage = Stage(text)
    assert (runs(stage), stage.net["status"]) == ({"a": 1, "end": 1}, "success")


@pytest.mark.clause("N-19")
@pytest.mark.parametrize(
    ("policy", "before", "wanted"),
    [
        ("", done(), "failed"),
        ("policy: {on_final_failure: partial}, ", done(), "partial"),
        ("policy: {on_final_failure: partial}, ", broken(), "failed"),
    ],
)
def test_a_final_step_that_fails(policy: str, before: Any, wanted: str) -> None:
    """PB-13: its failure fails the execution, or leaves it partial where that is the policy."""
    text = book(f"step: a, {WORK}", f"step: end, {WORK}", spec=f"{policy}final_step: end")
    stage = Stage(text).play(lambda p: broken() if p["step"] == "end" else before)
    assert (stage.net["status"], runs(stage)["end"]) == (wanted, 1)


@pytest.mark.clause("N-22")
def test_a_loop_of_a_thousand() -> None:
    """PB-15: at most 7 open, each item once, loop.done once, results in order, whoever is first."""
    rules = "iterator: n, spec: {mode: parallel, max_in_flight: 7}"
    text = book(f"step: a, loop: {{in: '{{{{ range(1000) }}}}', {rules}}}, {WORK}")
    rig = PlayRig()
    rig.request(text)
    seen: list[int] = []
    at = 0
    while True:
        there = [job for job in rig.jobs.all[at:] if rig.world.intents.get(job.intent) is not None]
        if not there:
            break
        assert len(there) <= 7
        job = there[-1] if len(seen) % 3 else there[0]
        value = canon.decode(job.params)["iter"]["n"]
        seen.append(value)
        rig.settle(job, done(value * 2))
        at = max(0, len(rig.jobs.all) - 2000)
    assert sorted(seen) == list(range(1000))
    net = rig.net()
    kept = net["results"]["a"]["v"]
    found = Values(lambda name: _blob(rig, name)).read(kept)
    assert found["results"] == [2 * n for n in range(1000)]
    assert found["stats"] == {"total": 1000, "success": 1000, "failed": 0}
    assert (net["status"], net["counts"]["iterations"]) == ("success", {"a": 1000})


def _blob(rig: Rig, name: str) -> bytes:
    data = rig.driver.blobs.get(canon.raw_of(name))
    assert data is not None
    return data


@pytest.mark.clause("N-22")
def test_best_effort_keeps_every_result() -> None:
    """PB-15: a failed iteration is an entry with its error, at its place; the loop is done."""
    loop = "loop: {in: [5, 6, 7], iterator: n}, spec: {policy: {failure: {mode: best_effort}}}"
    arcs = "next: {arcs: [{step: b, when: \"{{ event.name == 'loop.done' }}\"}]}"
    text = book(f"step: a, {loop}, {WORK}, {arcs}", f"step: b, {NOOP}")
    stage = Stage(text).play(lambda p: broken() if p["iteration"] == 1 else done(p["iter"]["n"]))
    value = Values(stage.blobs.__getitem__).read(stage.net["results"]["a"]["v"])
    assert [value["results"][0], value["results"][2]] == [5, 7]
    assert value["results"][1]["error"]["code"] == "boom"
    assert value["stats"] == {"total": 3, "success": 2, "failed": 1}
    assert runs(stage) == {"a": 1, "b": 1}


@pytest.mark.clause("N-22")
def test_a_loop_that_a_cycle_enters_again() -> None:
    """PB-15: the second time it begins clean: its own iterations, results and writes."""
    loop = "loop: {in: '{{ ctx.items or [1, 2] }}', iterator: n, spec: {mode: parallel}}"
    text = book(
        f"step: s, {NOOP}, next: {{arcs: [{{step: a}}]}}",
        f"step: a, {loop}, {WORK}, set_ctx: {{items: '{{{{ [3, 4, 5] }}}}'}}, "
        "next: {arcs: [{step: b, when: '{{ ctx.twice }}'}, {step: c}]}",
        f"step: b, {NOOP}",
        f"step: c, {NOOP}, set_ctx: {{twice: true}}, next: {{arcs: [{{step: a}}]}}",
    )
    first: list[int] = []

    def worker(params: dict[str, Any]) -> Any:
        first.append(params["iter"]["n"])
        return done(params["iter"]["n"], patches={"last": len(first) > 2})

    stage = Stage(text).play(worker)
    assert first == [1, 2, 3, 4, 5]
    value = Values(stage.blobs.__getitem__).read(stage.net["results"]["a"]["v"])
    assert (value["results"], value["stats"]["total"]) == ([3, 4, 5], 3)
    assert (runs(stage), stage.net["status"]) == ({"s": 1, "a": 2, "c": 1, "b": 1}, "success")
    assert len(stage.told("loop.done")) == 2
    assert stage.net["counts"]["iterations"] == {"a": 5}


@pytest.mark.clause("X-14", "N-15")
def test_many_waits_occupy_nobody() -> None:
    """PB-20: executions that wait hold no job; when their time has come each goes on, once.

    1,000 of them: TALLY_PLAYBOOK_WAITS=1000.
    """
    rig = PlayRig()
    text = HEAD + "workflow:\n  - {step: a, tool: {kind: wait, for: 2h}}\n"
    for number in range(WAITS):
        rig.request(text, name=f"w{number}")
    assert rig.jobs.of("sys/playbook.step@1") == []
    again: Rig = rig.reopened()
    again.pass_time(7_201 * 10**9)
    while again.driver.settle_due():  # as a node does: one input settles some of them
        again.run()
    nets = [net_in(again, f"w{number}") for number in range(WAITS)]
    assert {net["status"] for net in nets} == {"success"}
    assert {net["counts"]["step_runs"]["a"] for net in nets} == {1}
    assert {net["results"]["a"]["v"]["v"]["waited_s"] >= 7200 for net in nets} == {True}


def finished(rig: Rig) -> dict[str, Any]:
    """Play what is left of the worked playbook, in whichever world."""
    for _ in range(20):
        net = net_in(rig)
        if net["status"] is not None and net["phase"] == "done":
            return net
        jobs = [job for job in rig.jobs.all if rig.world.intents.get(job.intent) is not None]
        if jobs:
            rig.settle(jobs[0], done({"log": []}))
        else:
            system(rig, "sys/PlayCtxPatch@1", {"approved": True})
    raise AssertionError("it never ends")


@pytest.mark.clause("X-08", "K-19")
def test_a_fork_at_every_tick_ends_alike() -> None:
    """PB-23: forked after each tick of the worked playbook, every child ends as its parent does,
    with its own receipts; both replay, and the parent is not touched.
    """
    rig = PlayRig()
    rig.request(TEXT, grants=GRANTS)
    jobs = {canon.decode(job.params)["iteration"]: job for job in rig.jobs.all}
    moves = [
        lambda: rig.settle(jobs[1], done({"log": []})),
        lambda: rig.settle(jobs[0], done({"log": []})),
        lambda: system(rig, "sys/PlayCtxPatch@1", {"approved": True}),
        lambda: rig.settle(rig.jobs.all[-1], done()),
    ]
    places = [rig.world.seq]
    for move in moves:
        move()
        places.append(rig.world.seq)
    wanted = net_in(rig)
    assert wanted["status"] == "success"
    before = rig.root()
    for n, seq in enumerate(places):
        child = child_rig(rig, n, seq, pending="reissue")
        child.run()
        net = finished(child)
        told = (net["status"], net["counts"]["created"], net["counts"]["step_runs"])
        assert told == ("success", 6, wanted["counts"]["step_runs"])
        assert child.verify().first is None
        assert child.cell(WORKFLOW, "e1") is not None
    assert rig.root() == before
    assert rig.verify().first is None
