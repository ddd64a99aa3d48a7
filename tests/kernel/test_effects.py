"""Intents: identity by position or by key, owner timeouts, cancellation, limits on keys."""

# tidy: an intent's identity, time and end are one story.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Operate
from tallystick.model.records import (
    Dropped,
    EffectAttempted,
    IntentAttached,
    IntentDenied,
    IntentOpened,
    Judged,
    ReceiptSettled,
)
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import START_NS, Rig, check
from tests.worlds import (
    ASK,
    GO,
    LAB,
    TIMER,
    UNDO,
    ask,
    effect,
    go,
    lab_documents,
    lab_function,
)

CODE = ("t/code@1", "lab")
SECOND = 1_000_000_000


def keyed(following: Any, value: Any, _ctx: Any) -> Outcome:
    """Ask under one explicit key; `n` is the correlation of this asking."""
    wish = ask("same", idempotency_key=b"k", issuer_ref=f"r{value['n']}")
    return Outcome(following, effects=[wish])


def other(following: Any, _value: Any, _ctx: Any) -> Outcome:
    return Outcome(following, effects=[ask("other", idempotency_key=b"k")])


def twice(following: Any, _value: Any, _ctx: Any) -> Outcome:
    wishes = [ask("same", idempotency_key=b"k", issuer_ref=f"t{i}") for i in range(2)]
    return Outcome(following, effects=wishes)


def plain(following: Any, value: Any, _ctx: Any) -> Outcome:
    return Outcome(following, effects=[ask("same")] * value["n"])


def lab(*extra: Any, limits: Any = None, **deeds: Any) -> Rig:
    known = {"key": keyed, "other": other, "twice": twice, "plain": plain}
    documents = lab_documents(*extra, limits=limits or {})
    return Rig(documents, {CODE: lab_function(**known, **deeds)})


# ---- KN-17: explicit keys -------------------------------------------------------------------


@pytest.mark.clause("K-47", "K-10")
@pytest.mark.invariant("I12")
def test_key_attaches_and_redelivers() -> None:
    """KN-17: open: both continuations from one execution; settled: the same receipt again.

    The executor is called once.
    """
    rig = lab()
    rig.send(GO, go("a", "key", 1))
    rig.send(GO, go("a", "key", 2))
    (job,) = rig.jobs.of(ASK)
    rig.settle(job, {"a": "once"})
    assert rig.state(LAB, "a")["log"] == ["key", "key", "ok:r1", "ok:r2"]
    rig.send(GO, go("a", "key", 3))
    assert rig.state(LAB, "a")["log"][-2:] == ["key", "ok:r3"]
    assert rig.jobs.of(ASK) == [job]
    assert len(rig.records(IntentOpened)) == 1
    assert len(rig.records(IntentAttached)) == 2
    check(rig)


@pytest.mark.clause("K-47")
def test_key_survives_reopening() -> None:
    """KN-17: a remembered key is state: the receipt is delivered again after a restart."""
    rig = lab()
    rig.send(GO, go("a", "key", 1))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "once"})
    rig.driver.snapshot()
    rig = rig.reopened()
    rig.send(GO, go("a", "key", 2))
    assert rig.state(LAB, "a")["log"] == ["key", "ok:r1", "key", "ok:r2"]
    assert not rig.jobs.all
    check(rig)


@pytest.mark.clause("K-47")
def test_key_twice_in_one_tick() -> None:
    """KN-17: asked twice in one tick, a key opens once and owes two continuations."""
    rig = lab()
    rig.send(GO, go("a", "twice"))
    (job,) = rig.jobs.of(ASK)
    rig.settle(job, {"a": "x"})
    assert rig.state(LAB, "a")["log"] == ["twice", "ok:t0", "ok:t1"]
    (settled,) = rig.records(ReceiptSettled)
    assert len(settled.to) == 2
    check(rig)


@pytest.mark.clause("K-47")
def test_key_conflict() -> None:
    """D8: the same key with other params is denied, whether the first is open or settled."""
    rig = lab()
    rig.send(GO, go("a", "key"))
    rig.send(GO, go("a", "other"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"})
    rig.send(GO, go("a", "other"))
    assert [(d.stage, d.code) for d in rig.records(IntentDenied)] == [
        ("shape", "effect.key_conflict")
    ] * 2
    assert {d.judged for d in rig.records(IntentDenied)} == {Judged("ok", "no")}
    log = ["key", "other", "denied:", "ok:r0", "other", "denied:"]
    assert rig.state(LAB, "a")["log"] == log
    assert len(rig.jobs.all) == 1
    check(rig)


@pytest.mark.clause("K-47")
def test_key_belongs_to_its_cell() -> None:
    """D8: another cell, or a cell born again, does not inherit the answer."""
    rig = lab(gone=lambda *_: Outcome(None))
    rig.send(GO, go("a", "key"))
    rig.send(GO, go("b", "key"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"})
    rig.send(GO, go("a", "gone"))
    rig.send(GO, go("a", "key"))
    assert len({job.intent for job in rig.jobs.of(ASK)}) == 3
    check(rig)


@pytest.mark.clause("K-47")
def test_keys_max() -> None:
    """D8: at `keys_max` a new key is denied; a known one still answers."""

    def fresh(following: Any, value: Any, _ctx: Any) -> Outcome:
        key = b"key %d" % value["n"]
        return Outcome(following, effects=[ask("q", idempotency_key=key)])

    rig = lab(limits={"keys_max": 2}, fresh=fresh)
    for n in (1, 2, 3, 1):
        rig.send(GO, go("a", "fresh", n))
    assert [d.code for d in rig.records(IntentDenied)] == ["effect.key_capacity"]
    assert len(rig.records(IntentAttached)) == 1
    check(rig)


@pytest.mark.clause("K-47", "X-06")
def test_denial_frees_its_key() -> None:
    """06: a denied asking does not use up its key, not even within one tick."""

    def both(following: Any, _value: Any, _ctx: Any) -> Outcome:
        wishes = [ask("q", idempotency_key=b"k") for _ in range(2)]
        wishes[0]["cap_slot"] = "nothing"
        return Outcome(following, effects=wishes)

    rig = lab(both=both)
    rig.send(GO, go("a", "both"))
    assert [d.code for d in rig.records(IntentDenied)] == ["cap.unbound"]
    (job,) = rig.jobs.of(ASK)
    rig.settle(job, {"a": "x"})
    assert rig.state(LAB, "a")["log"] == ["both", "denied:", "ok:"]
    check(rig)


# ---- identity by position -------------------------------------------------------------------


@pytest.mark.clause("K-14")
@pytest.mark.invariant("I12")
def test_positions_differ() -> None:
    """K-14: equal wishes from two cells, two ticks and two places are different intents."""
    rig = lab()
    for name in "ab":
        rig.send(GO, go(name, "plain", 2))
        rig.send(GO, go(name, "plain", 2))
    assert len({job.intent for job in rig.jobs.of(ASK)}) == 8
    assert len({job.dispatch_key for job in rig.jobs.of(ASK)}) == 8
    assert [job.params for job in rig.jobs.of(ASK)] == [canon.encode({"q": "same"})] * 8
    check(rig)


@pytest.mark.clause("K-10")
def test_published_after_durable() -> None:
    """K-25: nothing leaves before its frame is in the journal."""
    rig = lab()
    rig.send(GO, go("a", "plain", 1), run=False)
    assert rig.driver.tick()
    assert not rig.jobs.all
    rig.driver.flush()
    assert len(rig.jobs.all) == 1
    check(rig)


@pytest.mark.clause("K-05")
def test_params_max() -> None:
    """`params_bytes_max` denies the effect; the tick goes on."""

    def big(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[ask("x" * 200), ask("small")])

    rig = lab(limits={"params_bytes_max": 100}, big=big)
    rig.send(GO, go("a", "big"))
    assert [d.code for d in rig.records(IntentDenied)] == ["effect.params_invalid"]
    assert len(rig.jobs.all) == 1
    assert rig.state(LAB, "a")["log"] == ["big", "denied:"]
    check(rig)


# ---- KN-20: owner timeouts ------------------------------------------------------------------


def waiting(timeout_ns: int | None) -> Any:
    def run(following: Any, _value: Any, _ctx: Any) -> Outcome:
        more = {} if timeout_ns is None else {"timeout_ns": timeout_ns}
        return Outcome(following, effects=[{**ask("q"), "effect": "t/slow@1", **more}])

    return run


@pytest.mark.clause("X-10")
@pytest.mark.parametrize(("asked", "after"), [(None, 10 * SECOND), (3 * SECOND, 3 * SECOND)])
def test_owner_timeout(asked: int | None, after: int) -> None:
    """KN-20: a silent executor cannot keep its owner waiting; the late receipt changes nothing.

    The effect's own timeout holds unless the asking names another.
    """
    slow = effect("t/slow@1", "t/Ask@1", "t/Answer@1", timeout_ns=10 * SECOND)
    documents = lab_documents(slow, flow={"effects_emitted": ["t/slow@1"]})
    rig = Rig(documents, {CODE: lab_function(slow=waiting(asked))})
    rig.send(GO, go("a", "slow"))
    (job,) = rig.jobs.of("t/slow@1")
    assert job.deadline_ns is not None
    assert job.deadline_ns - START_NS - after < 10
    rig.pass_time(after - SECOND)
    assert rig.state(LAB, "a")["log"] == ["slow"]
    rig.pass_time(2 * SECOND)
    assert rig.state(LAB, "a")["log"] == ["slow", "timeout:"]
    assert not rig.cell(LAB, "a").inflight
    state = rig.state_root()
    assert rig.settle(job, {"a": "late"}).detail == "late"
    assert rig.state_root() == state
    assert [d.reason for d in rig.records(Dropped)] == ["late"]
    rig.pass_time(100 * SECOND)
    assert [r.status for r in rig.records(ReceiptSettled)] == ["timeout"]
    check(rig)


@pytest.mark.clause("X-10")
def test_many_timeouts() -> None:
    """X-10: a thousand timeouts due at once all settle, over several bounded frames."""
    slow = effect("t/slow@1", "t/Ask@1", "t/Answer@1", timeout_ns=SECOND)
    documents = lab_documents(slow, flow={"effects_emitted": ["t/slow@1"]})
    rig = Rig(documents, {CODE: lab_function(slow=waiting(None))})
    for i in range(1000):
        rig.send(GO, go(f"c{i}", "slow"), run=False)
    rig.run()
    rig.clock.now_ns += 2 * SECOND
    while rig.driver.settle_due():
        rig.run()
    assert [r.status for r in rig.records(ReceiptSettled)] == ["timeout"] * 1000
    assert not list(rig.world.intents.entries())
    check(rig)


@pytest.mark.clause("X-14")
@pytest.mark.invariant("I25")
def test_timer() -> None:
    """X-14: a timer fires once, not before its time, also when it was due while nobody ran."""

    def later(following: Any, value: Any, _ctx: Any) -> Outcome:
        params = {"deliver_at_ns": START_NS + value["n"] * SECOND, "key": "t"}
        return Outcome(following, effects=[{"effect": TIMER, "params": params}])

    rig = lab(later=later)
    rig.send(GO, go("a", "later", 5))
    rig.send(GO, go("a", "later", 50))
    rig.pass_time(4 * SECOND)
    assert rig.state(LAB, "a")["log"] == ["later", "later"]
    rig.clock.now_ns += 10 * SECOND
    rig = rig.reopened()
    rig.pass_time(0)
    assert rig.state(LAB, "a")["log"] == ["later", "later", "ok:"]
    rig.clock.now_ns -= 10 * SECOND  # a clock that steps back fires nothing twice
    rig.pass_time(0)
    rig.pass_time(60 * SECOND)
    assert rig.state(LAB, "a")["log"] == ["later", "later", "ok:", "ok:"]
    assert not rig.jobs.all
    check(rig)


# ---- attempts and cancellation --------------------------------------------------------------


@pytest.mark.clause("K-47")
@pytest.mark.invariant("I22")
def test_attempts() -> None:
    """A new attempt makes receipts of older ones stale; the intent keeps its name."""
    rig = lab()
    rig.send(GO, go("a", "plain", 1))
    (old,) = rig.jobs.of(ASK)
    rig.do(Operate(rig.clock.sample(), "attempt", "node", "restart", intent=old.intent))
    assert [a.attempt for a in rig.records(EffectAttempted)] == [2]
    assert rig.settle(old, {"a": "old"}).detail == "stale_attempt"
    assert rig.settle(old._replace(attempt=2), {"a": "new"}).kind == "settled"
    assert rig.state(LAB, "a")["log"] == ["plain", "ok:"]
    check(rig)


CANCELS = [("intent", False), ("issuer_ref", False), ("issuer_ref", True), ("nobody", True)]


@pytest.mark.clause("X-10")
@pytest.mark.parametrize(("by", "same_tick"), CANCELS)
# tidy: one scene, told from begin to end.
def test_cancel_effect(by: str, same_tick: bool) -> None:
    """`sys/effect.cancel@1` settles an open intent of the same cell as cancelled, and no other."""
    named: list[str] = []

    def mine(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[ask("q", issuer_ref="mine")])

    def undo(following: Any, _value: Any, _ctx: Any) -> Outcome:
        params = {"intent": None, "issuer_ref": "mine" if by == "issuer_ref" else "nobody"}
        if by == "intent":
            params = {"intent": named[0], "issuer_ref": None}
        wishes = [ask("q", issuer_ref="mine")] if same_tick else []
        wishes.append({"effect": UNDO, "params": params, "issuer_ref": "undo"})
        return Outcome(following, effects=wishes)

    rig = lab(undo=undo, mine=mine)
    rig.send(GO, go("b", "mine"))
    if not same_tick:
        rig.send(GO, go("a", "mine"))
        named += map(canon.text_of, rig.cell(LAB, "a").inflight)
    rig.send(GO, go("a", "undo"))
    log = rig.state(LAB, "a")["log"]
    cancelled = by != "nobody"
    assert ("cancelled:mine" in log) == cancelled
    assert log[-1] == "ok:undo"
    assert len(rig.cell(LAB, "a").inflight) == (0 if cancelled else 1)
    assert len(rig.cell(LAB, "b").inflight) == 1
    # What was cancelled in the tick that asked for it never left.
    assert len(rig.jobs.all) == (1 if cancelled and same_tick else 2)
    if by == "intent":
        assert rig.settle(rig.jobs.all[-1], {"a": "late"}).detail == "late"
    check(rig)
