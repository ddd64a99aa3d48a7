"""Executions as readers see them: what waits, what was made, and every event of the net."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import UnknownName
from tallystick.kernel.inputs import Operate, Submit
from tallystick.model.records import IntentOpened, ProgressNoted, Stamp, Ticked
from tallystick.playbooks.document import load
from tallystick.values import canon
from tallystick.views import executions, played
from tests.playbooks.kernel import PlayRig
from tests.playbooks.stage import done
from tests.playbooks.test_net import NOOP, WORK, book
from tests.reactions.scenario import planted
from tests.rig import WORLD

BOTH = "next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: c}]}"


def rig_of(*steps: str) -> PlayRig:
    rig = PlayRig()
    rig.request(book(*steps))
    return rig


def shown(rig: PlayRig) -> dict[str, Any]:
    return executions.execution_show(rig.world, "e1")


def test_a_gate_says_what_it_waits_for() -> None:
    """PB-08: every name that its rules read, with what stands there now."""
    when = "{{ ctx.flag.deep and ctx.none and a.n and a.n.more and nobody and ctx }}"
    gate = f"spec: {{policy: {{admit: {{rules: [{{when: '{when}', then: {{allow: true}}}}]}}}}}}"
    rig = rig_of(f"step: a, {WORK}, next: {{arcs: [{{step: g}}]}}", f"step: g, {gate}, {NOOP}")
    told = {"set": {"flag": {"deep": False}}, "unset": [], "reason": "r", "principal": "ana"}
    rig.system("sys/PlayCtxPatch@1", {"execution": "e1", **told})
    rig.settle(rig.jobs.all[0], done({"n": 0}))
    (waits,) = shown(rig)["pending"]
    assert waits["step"] == "g"
    assert waits["waits"]["ctx.flag.deep"] is False
    assert waits["waits"]["a.n"] == 0
    assert waits["waits"]["a.n.more"] is None
    assert waits["waits"]["nobody"] is None
    assert waits["waits"]["ctx.none"] is None
    assert "ctx.flag.deep" in waits["why"]


def test_a_join_says_who_is_here() -> None:
    """PB-11: a token that waits for others is listed; a join that has fired is not."""
    meet = [f"step: {s}, {WORK}, next: {{arcs: [{{step: j}}]}}" for s in "bc"]
    rig = rig_of(f"step: a, {NOOP}, {BOTH}", *meet, f"step: j, join: all, {NOOP}")
    rig.settle(rig.jobs.all[0], done())
    (row,) = shown(rig)["waiting"]
    assert (row["for"], row["step"], len(row["tokens"])) == ("join", "j", 1)
    assert row["why"].startswith("1 of 2 ")
    first = rig_of(f"step: a, {NOOP}, {BOTH}", *meet, f"step: j, join: any, {NOOP}")
    first.settle(first.jobs.all[0], done())
    assert shown(first)["waiting"] == []
    assert shown(first)["status"] == "running"


def test_a_wait_says_for_what() -> None:
    """PB-17: a run that is put down names the signal; one at work is not listed."""
    rig = rig_of(
        f"step: a, {NOOP}, {BOTH}", "step: b, tool: {kind: wait, signal: go}", f"step: c, {WORK}"
    )
    (row,) = shown(rig)["waiting"]
    assert (row["step"], row["for"], row["name"]) == ("b", "signal", "go")


def test_large_values_are_shown_by_reference() -> None:
    """PB-21: small ones inline, larger ones read from the store, the largest by name alone."""
    rig = rig_of(f"step: a, {WORK}, set_ctx: {{mid: '{{{{ a.mid }}}}', big: '{{{{ a.big }}}}'}}")
    mid, big = "m" * 20_000, "b" * 100_000
    rig.settle(rig.jobs.all[0], done({"mid": mid, "big": big}))
    found = shown(rig)
    assert found["ctx"]["mid"] == mid
    assert found["ctx"]["big"]["_ref"]["bytes"] > 100_000
    other = rig_of(f"step: a, {WORK}")
    value = canon.encode({"rows": ["x" * 100_000]})
    other.driver.blobs.put(canon.digest_of(value), value)
    shell = {"rows": "…"}
    told = done(shell, ref=canon.hash_of(value), size=len(value))
    other.settle(other.jobs.all[0], told)
    assert shown(other)["results"]["a"] == shell


def test_what_is_not_there_is_refused_by_its_code() -> None:
    """PB-27: an execution and a playbook that nobody has are unknown, each by its own word."""
    rig = PlayRig()
    for act, code in (
        (lambda: executions.execution_show(rig.world, "e9"), "execution.unknown"),
        (lambda: executions.born_seq(rig.world, "e9"), "execution.unknown"),
        (lambda: executions.published_document(rig.world, "lib/x"), "playbook.unknown"),
    ):
        with pytest.raises(UnknownName) as raised:
            act()
        assert raised.value.code == code
    assert executions.execution_list(rig.world) == executions.catalog_list(rig.world) == []


def test_published_playbooks_and_lists_are_bounded() -> None:
    """PB-27: the newest version of a path; lists in their order, up to their bound."""
    rig = PlayRig()
    made = load(book(f"step: a, {NOOP}"))
    rig.driver.blobs.put(canon.raw_of(made.hash), made.bytes)
    for path in ("lib/b", "lib/a"):
        value = {"path": path, "hash": made.hash, "principal": "ana"}
        rig.system("sys/PlayPublished@1", {**value, "document": made.bytes})
    assert executions.published_document(rig.world, "lib/a") == made.bytes
    assert [row["path"] for row in executions.catalog_list(rig.world)] == ["lib/a", "lib/b"]
    for name in ("e2", "e1"):
        rig.request(book(f"step: a, {NOOP}"), name)
    late: dict[str, Any] = {"execution": "e3", "document": made.bytes, "workload": {}, "grants": {}}
    late |= {"principal": "ana", "parent": None}
    sample = rig.clock.sample()
    rig.do(Submit(sample, "sys/PlayRequested@1", late, lens="native", origin="system"))
    # One that has not ticked yet has nothing to show.
    names = [row["execution"] for row in executions.execution_list(rig.world)]
    assert names == ["e1", "e2"]
    assert executions.born_seq(rig.world, "e1") > executions.born_seq(rig.world, "e2")
    with planted(executions, "ROWS_MAX", 1):
        assert len(executions.execution_list(rig.world)) == 1
        assert len(executions.catalog_list(rig.world)) == 1
    text = executions.execution_graph(rig.world, "e1", "mermaid")["text"]
    assert text.startswith("flowchart TD")


# ---- events -----------------------------------------------------------------------------------


def events(rig: PlayRig, **more: Any) -> dict[str, Any]:
    return played.execution_events(rig.journal.read(WORLD), "e1", **more)


def test_every_event_of_an_execution_in_its_order() -> None:
    """PB-25: claims, takeovers, attempts, tasks and routing, each with its step and iteration."""
    rig = PlayRig()
    rig.request(book(f"step: a, {WORK}"))
    rig.request(book(f"step: z, {WORK}"), "other")
    job = rig.jobs.all[0]
    rig.do(Operate(rig.clock.sample(), "attempt", "node", "restart", intent=job.intent))
    tasks = [
        {"name": "one", "attempts": 1, "status": "ok"},
        {"name": "two", "attempts": 1, "status": "error"},
    ]
    rig.settle(job._replace(attempt=2), done({"n": 1}, tasks=tasks))
    found = events(rig)["items"]
    words = [row["event_type"] for row in found]
    own = ["token.claimed", "step.taken_over", "step.started", "task.done", "task.failed"]
    assert [word for word in words if word in own] == own
    assert {row["step"] for row in found if row["event_type"] in own} == {"a"}
    seqs = [row["seq"] for row in found]
    assert seqs == sorted(seqs)
    page = events(rig, limit=2)
    assert len(page["items"]) >= 2
    rest = events(rig, after=int(page["next"]))
    assert page["items"] + rest["items"] == found
    assert rest["next"] is None


def test_events_of_large_and_bare_records() -> None:
    """PB-25: what stands by digest, or says nothing of its own, is told without its words."""
    rig = PlayRig()
    rig.request(book(f"step: a, {WORK}"))
    (opened,) = rig.records(IntentOpened)
    told = played._Told(canon.encode("e1"))
    (claimed,) = told.rows(opened._replace(params=None, params_hash=bytes(32)))
    assert (claimed["run"], claimed["iteration"]) == ("", None)
    ticked = rig.records(Ticked)[0]
    assert list(told.rows(ticked._replace(ann=None))) == []
    assert [row["event_type"] for row in told.rows(ticked)]
    assert list(told.rows(ticked._replace(key=canon.encode("other")))) == []


def test_what_workers_report_is_an_event() -> None:
    """PB-25: an attempt of a task by how it ended, anything else by its own word."""
    rig = PlayRig()
    rig.request(book(f"step: a, {WORK}"))
    (opened,) = rig.records(IntentOpened)
    told = played._Told(canon.encode("e1"))
    list(told.rows(opened))
    rows = [
        row["event_type"]
        for n, (kind, payload) in enumerate(
            [
                ("task.attempt", {"status": "ok"}),
                ("task.attempt", {"status": "error"}),
                ("note", "half"),
            ],
            1,
        )
        for row in told.rows(
            ProgressNoted(opened.intent, 1, n, kind, canon.encode(payload), Stamp(1, n, b""))
        )
    ]
    assert rows == ["task.attempt.done", "task.attempt.failed", "note"]
