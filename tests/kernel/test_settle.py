"""Settlement: a receipt reaches the cell that asked, or leaves evidence and nothing else."""

# tidy: the questions a receipt is asked stand in their order.
from __future__ import annotations

import random
from typing import Any

import pytest

from tallystick.kernel.inputs import Activate, Planned, Progress, Settle
from tallystick.model.cells import FAILED, RUNNING
from tallystick.model.records import Dropped, ProgressNoted, ReceiptSettled, WorkflowFaulted
from tallystick.modules.python import Outcome
from tallystick.node.jobs import job_of
from tallystick.values import canon
from tallystick.values.seal import progress_statement
from tests.rig import NODE, OUTSIDER, Rig, bundle_of, check
from tests.worlds import (
    ASK,
    GO,
    LAB,
    LAB_ARMS,
    PROGRESS,
    RECEIPT,
    TIMER,
    ask,
    go,
    lab_documents,
    lab_function,
)

CODE = ("t/code@1", "lab")


def asking(following: Any, value: Any, _ctx: Any) -> Outcome:
    return Outcome(following, effects=[ask("same", issuer_ref="r" + str(value["n"]))])


def answered(following: Any, value: Any, _ctx: Any) -> Outcome:
    """Keep the content of the receipt, so that a stray one would show."""
    if value["status"]["$tag"] == "ok":
        following["log"].append(canon.decode(value["receipt_payload"])["a"])
    return Outcome(following)


def lab(**given: Any) -> Rig:
    return Rig(lab_documents(**given), {CODE: lab_function(ask=asking, Receipt=answered)})


def asked(rig: Rig, ident: str = "a") -> Any:
    rig.send(GO, go(ident, "ask"))
    return rig.jobs.of(ASK)[-1]


# ---- KN-05, KN-06 ---------------------------------------------------------------------------


@pytest.mark.clause("K-13", "K-14", "K-37")
@pytest.mark.invariant("I3", "I4")
# tidy: one scene, told from begin to end.
def test_receipts_reach_their_own_cell() -> None:
    """KN-05: 5,000 cells with equal params; receipts shuffled, doubled, late, with foreign words.

    Every receipt reaches the cell that asked, whatever its content says.
    """
    rig = lab()
    names = [f"c{i}" for i in range(5000)]
    for name in names:
        rig.send(GO, go(name, "ask"), run=False)
    rig.run()
    jobs = dict(zip(names, rig.jobs.of(ASK), strict=True))
    assert len({job.intent for job in jobs.values()}) == 5000
    chance = random.Random(5)  # a fixed order that looks like none
    order = names + chance.sample(names, 500)
    chance.shuffle(order)
    seen: set[str] = set()
    for name in order:
        # The content names another cell: it must not choose where the receipt goes.
        receipt = rig.receipt(jobs[name], {"a": f"from {name} to c{chance.randrange(5000)}"})
        ticket = rig.offer(Settle(rig.clock.sample(), receipt, seal_ok=True))
        rig.driver.flush()
        assert ticket.answer.kind == ("dropped" if name in seen else "settled")
        seen.add(name)
    rig.run()
    for name in names:
        log = rig.state(LAB, name)["log"]
        assert log[:2] == ["ask", "ok:r0"]
        assert log[2].startswith(f"from {name} to ")
        assert len(log) == 3
    assert [d.reason for d in rig.records(Dropped)] == ["duplicate"] * 500
    assert rig.root() == rig.reopened().root()


@pytest.mark.clause("K-13")
def test_receipt_without_subscription() -> None:
    """KN-06: a receipt arrives although the subscription that began it is gone."""
    functions = {CODE: lab_function(ask=asking, Receipt=answered)}
    rig = Rig(lab_documents(), functions)
    job = asked(rig)
    manifest, blobs = bundle_of(lab_documents(subscriptions=[]))
    key = canon.encode("a")
    plan = {(LAB, key): Planned(rig.cell(LAB, "a").last_seq)}
    change = Activate(
        rig.clock.sample(), manifest, manifest, rig.manifest, blobs, "alice", plan=plan
    )
    assert rig.do(change).kind == "activated"
    assert rig.send(GO, go("a")).kind == "unrouted"
    assert rig.settle(job, {"a": "still here"}).kind == "settled"
    assert rig.state(LAB, "a")["log"] == ["ask", "ok:r0", "still here"]
    check(rig)


# ---- KN-07 ----------------------------------------------------------------------------------


@pytest.mark.clause("K-16", "K-17", "K-18")
@pytest.mark.invariant("I23")
@pytest.mark.parametrize("with_arm", [True, False])
# tidy: one scene, told from begin to end.
def test_malformed_receipt(with_arm: bool) -> None:
    """KN-07: an unreadable receipt settles its intent and hurts its own cell at most.

    100 busy neighbours keep their states and their open intents.
    """
    arms = dict(LAB_ARMS)
    if not with_arm:
        del arms["Rejected"]
    rig = lab(lab_arms=arms)
    for i in range(100):
        asked(rig, f"n{i}")
    neighbours = {f"n{i}": rig.cell(LAB, f"n{i}").state_hash for i in range(100)}
    rig.send(GO, go("a", "ask", 1))
    bad, other = asked(rig, "a"), rig.jobs.of(ASK)[-2]
    assert rig.settle(bad, {"wrong": "shape"}).kind == "settled"
    said = [r for r in rig.records(ReceiptSettled) if r.intent == bad.intent]
    assert [r.status for r in said] == ["rejected"]
    assert said[0].error["code"] == "receipt.unreadable"
    if with_arm:
        assert said[0].outcome == "rejected_delivered"
        assert rig.state(LAB, "a")["log"][-1] == "rejected"
        assert rig.cell(LAB, "a").status == RUNNING
        assert list(rig.cell(LAB, "a").inflight) == [other.intent]
    else:
        assert said[0].outcome == "cell_failed"
        assert rig.cell(LAB, "a").status == FAILED
        mine = [r.status for r in rig.records(ReceiptSettled) if r.intent == other.intent]
        assert mine == ["cancelled"]
    for name, state_hash in neighbours.items():
        cell = rig.cell(LAB, name)
        assert cell.state_hash == state_hash
        assert cell.status == RUNNING
        assert len(cell.inflight) == 1
    assert not rig.records(WorkflowFaulted)
    check(rig)


@pytest.mark.clause("K-16")
@pytest.mark.parametrize(
    ("payload", "status", "limits", "code"),
    [
        (b"not canonical", "ok", {}, "receipt.unreadable"),
        ({"a": 7}, "ok", {}, "receipt.unreadable"),
        ({"a": "fine"}, "error", {}, "receipt.unreadable"),
        ({"a": "fine"}, "timeout", {}, "receipt.bad_status"),
        ({"a": "fine"}, "nonsense", {}, "receipt.bad_status"),
        ({"a": "x" * 100}, "ok", {"receipt_bytes_max": 64}, "receipt_bytes_max"),
    ],
)
def test_unreadable(payload: Any, status: str, limits: dict[str, int], code: str) -> None:
    """KN-07: every way of being unreadable settles as rejected with its own code."""
    rig = lab(limits=limits)
    job = asked(rig)
    assert rig.settle(job, payload, status).kind == "settled"
    settled = rig.records(ReceiptSettled)
    assert [r.status for r in settled] == ["rejected"]
    assert settled[0].error["code"] == code
    assert rig.state(LAB, "a")["log"] == ["ask", "rejected"]
    check(rig)


@pytest.mark.clause("K-16", "X-03")
@pytest.mark.parametrize(("most", "said"), [(103, "ok:r0"), (102, "rejected")])
def test_a_workflow_narrows_the_size_of_its_receipts(most: int, said: str) -> None:
    """02 section 2: a limit that a workflow overrides holds for its own receipts."""
    rig = lab(flow={"limits": {"receipt_bytes_max": most}})
    payload = canon.encode({"a": "x" * 95})
    assert len(payload) == 103
    rig.settle(asked(rig), payload)
    assert rig.state(LAB, "a")["log"][1] == said
    check(rig)


@pytest.mark.clause("K-15")
def test_error_receipt() -> None:
    """An `error` receipt is read under the effect's error schema and delivered."""
    rig = lab()
    payload = {
        "kind": "outside",
        "code": "card.declined",
        "message": "no",
        "retryable": False,
        "retry_after_ns": None,
        "details_ref": None,
    }
    rig.settle(asked(rig), payload, "error")
    assert rig.state(LAB, "a")["log"] == ["ask", "error:r0"]
    check(rig)


@pytest.mark.clause("K-15")
def test_no_arm() -> None:
    """Without a receipt arm the intent settles with outcome `no_arm` and the cell sleeps on."""
    rig = lab(lab_arms={"Go": GO, "Cancel": "sys/CancelRequested@1"})
    rig.settle(asked(rig), {"a": "x"})
    assert [r.outcome for r in rig.records(ReceiptSettled)] == ["no_arm"]
    assert rig.state(LAB, "a")["log"] == ["ask"]
    assert not rig.cell(LAB, "a").inflight
    check(rig)


# ---- what settles nothing -------------------------------------------------------------------


@pytest.mark.clause("K-11")
@pytest.mark.invariant("I22")
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"world": "00000000-0000-4000-8000-000000000000"}, "foreign_world"),
        ({"intent": bytes(32)}, "unknown"),
        ({"attempt": 2}, "stale_attempt"),
        ({"pair": OUTSIDER}, "untrusted_key"),
        ({"executor": "kernel"}, "untrusted_key"),
        ({"executor": "someone"}, "bad_seal"),
        ({"effect": TIMER}, "bad_seal"),
    ],
)
def test_dropped(changed: dict[str, Any], reason: str) -> None:
    """A receipt that is not of this intent, or not by a trusted key, is evidence only.

    It moves the root and leaves the state root, and the intent stays open.
    """
    rig = lab()
    job = asked(rig)
    before, state = rig.root(), rig.state_root()
    assert rig.settle(job, {"a": "x"}, **changed).detail == reason
    assert rig.root() != before
    assert rig.state_root() == state
    assert [d.reason for d in rig.records(Dropped)] == [reason]
    assert rig.settle(job, {"a": "true"}).kind == "settled"
    check(rig)


@pytest.mark.clause("K-11")
def test_bad_seal() -> None:
    """A seal over other bytes settles nothing, and a forged one needs no right shape."""
    rig = lab()
    job = asked(rig)
    state = rig.state_root()
    good = rig.receipt(job, {"a": "x"})
    forged = good._replace(payload=canon.encode({"a": "y"}))
    for receipt in (forged, good._replace(seal={}), good._replace(seal={"key": NODE.key_id})):
        rig.do(Settle(rig.clock.sample(), receipt))
    assert [d.reason for d in rig.records(Dropped)] == ["bad_seal", "untrusted_key", "bad_seal"]
    assert rig.state_root() == state
    check(rig)


@pytest.mark.clause("X-14")
@pytest.mark.invariant("I25")
def test_timer_takes_no_receipt() -> None:
    """The kernel alone settles a timer: a sealed receipt cannot fire it early."""

    def wait(following: Any, _value: Any, ctx: Any) -> Outcome:
        due = {"deliver_at_ns": 1_800_000_000_000_000_000, "key": None}
        return Outcome(following, effects=[{"effect": TIMER, "params": due}])

    rig = Rig(lab_documents(), {CODE: lab_function(wait=wait)})
    rig.send(GO, go("a", "wait"))
    (intent,) = rig.cell(LAB, "a").inflight
    found = rig.world.intents.get(intent)
    assert found is not None
    job = job_of(rig.world, rig.driver.blobs, intent, found)
    payload = {"delivered_at_ns": 1, "key": None}
    assert rig.settle(job, payload).kind == "dropped"
    assert rig.state(LAB, "a")["log"] == ["wait"]
    check(rig)


# ---- K-27: progress -------------------------------------------------------------------------


def frame(rig: Rig, job: Any, seq: int, *, sealed: bool = True, **changed: Any) -> Any:
    payload = b"part"
    statement = progress_statement(
        world=job.world,
        intent=canon.text_of(job.intent),
        attempt=job.attempt,
        seq=seq,
        kind="text",
        payload_hash=canon.hash_of(payload),
    )
    seal = NODE.sign(statement) if sealed else None
    given = Progress(
        rig.clock.sample(), job.world, job.intent, job.attempt, seq, "text", payload, seal
    )
    answer = rig.do(given._replace(**changed))
    rig.run()
    return answer


@pytest.mark.clause("K-27")
@pytest.mark.invariant("I24")
def test_progress() -> None:
    """Progress grows, notes gaps, settles nothing, and none follows the terminal receipt."""
    rig = lab(lab_arms={**LAB_ARMS, "Progress": PROGRESS})
    job = asked(rig)
    assert frame(rig, job, 1).kind == "noted"
    assert frame(rig, job, 4).kind == "noted"
    assert frame(rig, job, 4).detail == "non_monotonic"
    assert frame(rig, job, 2).detail == "non_monotonic"
    assert frame(rig, job, 9, attempt=2).detail == "stale_attempt"
    assert frame(rig, job, 9, payload=b"other").detail == "bad_seal"
    assert [p.gap for p in rig.records(ProgressNoted)] == [None, 2]
    assert rig.world.intents.get(job.intent) is not None
    assert not rig.records(ReceiptSettled)
    rig.settle(job, {"a": "end"})
    assert frame(rig, job, 10).detail == "after_terminal"
    assert rig.state(LAB, "a")["log"] == ["ask", "progress:1", "progress:4", "ok:r0", "end"]
    check(rig)


@pytest.mark.clause("K-27")
def test_progress_without_arm() -> None:
    """Without an arm progress is for live views only: no record, no mail, the same root."""
    rig = lab()
    job = asked(rig)
    before = rig.root()
    assert frame(rig, job, 1).kind == "live"
    assert rig.root() == before
    assert not rig.records(ProgressNoted)
    check(rig)


# ---- correlation ----------------------------------------------------------------------


@pytest.mark.clause("X-05", "K-15")
def test_issuer_ref() -> None:
    """X-05: the receipt brings the asker's own reference back, and tells who asked for what."""
    seen: list[Any] = []

    def keep(following: Any, value: Any, _ctx: Any) -> Outcome:
        seen.append(value)
        return Outcome(following)

    rig = Rig(lab_documents(), {CODE: lab_function(ask=asking, Receipt=keep)})
    rig.send(GO, go("a", "ask", 3))
    rig.send(GO, go("a", "ask", 4))
    first, second = rig.jobs.of(ASK)
    rig.settle(second, {"a": "2"})
    rig.settle(first, {"a": "1"})
    assert rig.state(LAB, "a")["log"] == ["ask", "ask", "ok:r4", "ok:r3"]
    envelope = seen[0]
    assert envelope["intent_hash"] == canon.text_of(second.intent)
    assert envelope["origin_workflow"] == LAB
    assert envelope["origin_instance_key"] == canon.encode("a")
    assert envelope["effect"] == ASK
    assert envelope["params_hash"] == canon.hash_of(second.params)
    assert rig.world.active.catalogue.schemas[RECEIPT].admit(envelope).value == envelope
    check(rig)
