"""Approvals: what a rule holds for people leaves only when enough of them said yes."""

# tidy: one held intent, and every way in which it may end.
from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.fork import fork
from tallystick.kernel.inputs import Decide, Operate, RevokeGrant
from tallystick.kernel.machine import accept
from tallystick.kernel.replay import open_world, verify
from tallystick.model.records import (
    IntentApproval,
    IntentDenied,
    IntentOpened,
    IntentReleased,
    ReceiptSettled,
)
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tallystick.values.seal import KeyPair, approval_statement
from tests.rig import START_NS, WORLD, Rig, check, refused
from tests.worlds import (
    ASK,
    GO,
    LAB,
    SPAWN,
    TIMER,
    ask,
    go,
    lab_authority,
    lab_documents,
    lab_function,
)

CODE = ("t/code@1", "lab")
SECOND = 1_000_000_000
BOB = KeyPair(sha256(b"bob").digest())
PRINCIPALS = [
    {"id": "bob", "kind": "human", "roles": ["finance"], "key": "ed25519:" + BOB.public.hex()},
    {"id": "carol", "kind": "human", "roles": ["finance"]},
    {"id": "eve", "kind": "human", "roles": ["sales"]},
]


def documents(
    approval: Any = None, effect: str = ASK, expires_ns: int | None = None, **governance: Any
) -> list[Any]:
    """The lab under a rule that holds one effect."""
    hold: dict[str, Any] = {
        "id": "big",
        "when": {"effect": effect},
        "decision": "require_approval",
        **({} if approval is None else {"approval": approval}),
    }
    rules = [hold, {"id": "rest", "decision": "allow"}]
    authority = lab_authority()
    authority["authority"]["policies"] = ["t/held@1"]
    if expires_ns is not None:
        authority["authority"]["grants"][0]["expires_ns"] = expires_ns
    return lab_documents(
        {"$kind": "defpolicy", "name": "t/held@1", "rules": rules},
        governance={"principals": PRINCIPALS, **governance},
        **authority,
    )


def asker(approval: Any = None, wish: Any = None, **governance: Any) -> Rig:
    """A world whose cell has asked once."""
    wishes = [ask()] if wish is None else wish

    def run(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=wishes)

    effect = wishes[0]["effect"]
    rig = Rig(documents(approval, effect, **governance), {CODE: lab_function(wish=run)})
    rig.send(GO, go("a", "wish"))
    return rig


def held(rig: Rig) -> bytes:
    """The one open intent."""
    ((path, _),) = rig.world.intents.entries()
    return path


def vote(rig: Rig, principal: str, decision: str = "approve", **more: Any) -> Decide:
    return Decide(rig.clock.sample(), held(rig), principal, decision, **more)


def told(rig: Rig) -> tuple[str, str]:
    """Status and code of the last receipt."""
    receipt = rig.records(ReceiptSettled)[-1]
    return receipt.status, canon.decode(receipt.payload).get("code", "")


TWO = {"by": ["role:finance"], "count": 2}
EXPIRED = "policy.approval_expired"


@pytest.mark.clause("X-06", "D13")
@pytest.mark.invariant("I5")
def test_enough_approvals_publish_once() -> None:
    """AG-09: held, it is not published; a stranger and a second vote are refused; the last
    distinct approval that is needed publishes it, once.
    """
    rig = asker(TWO)
    (opened,) = rig.records(IntentOpened)
    assert opened.judged.policy.decision == "require_approval"
    assert not rig.jobs.all
    rig = rig.reopened()
    rig.driver.resume()
    assert not rig.jobs.all
    for stranger in ("eve", "mallory"):
        assert refused(rig, vote(rig, stranger)).code == "policy.not_approver"
    assert rig.do(vote(rig, "bob", comment="fine")).kind == "decided"
    assert not rig.jobs.all
    assert refused(rig, vote(rig, "bob")).code == "policy.voted_already"
    assert rig.folded().intents.get(held(rig)).hold["detail"]["votes"] == ["bob"]
    rig.do(vote(rig, "carol"))
    assert [job.intent for job in rig.jobs.all] == [opened.intent]
    assert [r.cause for r in rig.records(IntentReleased)] == ["approved"]
    assert refused(rig, vote(rig, "carol")).code == "effect.not_held"
    rig.settle(rig.jobs.all[0], {"a": "yes"})
    assert rig.state(LAB, "a")["log"] == ["wish", "ok:"]
    assert len(rig.jobs.all) == 1
    check(rig)


@pytest.mark.clause("X-06")
def test_one_no_denies() -> None:
    """AG-09: one rejection denies, the cell is told why, and nothing ever leaves."""
    rig = asker(TWO)
    rig.do(vote(rig, "bob"))
    rig.do(vote(rig, "carol", "reject", comment="too much"))
    rig.run()
    assert told(rig) == ("denied", "policy.approval_rejected")
    assert rig.state(LAB, "a")["log"] == ["wish", "denied:"]
    assert not rig.jobs.all
    assert not list(rig.world.intents.entries())
    assert [a.comment for a in rig.records(IntentApproval)] == [None, "too much"]
    check(rig)


@pytest.mark.clause("X-10")
def test_nobody_decides() -> None:
    """AG-12: after its time to live a held intent is denied, and a late vote is refused."""
    rig = asker({"by": ["bob"], "ttl_ns": 5 * SECOND})
    rig.pass_time(4 * SECOND)
    assert held(rig)
    rig.clock.now_ns += 2 * SECOND
    assert refused(rig, vote(rig, "bob")).code == "policy.approval_expired"
    rig.pass_time(0)
    assert told(rig) == ("denied", "policy.approval_expired")
    assert not rig.jobs.all
    check(rig)


@pytest.mark.clause("X-10")
@pytest.mark.parametrize("approved", [False, True])
def test_owner_timeout(approved: bool) -> None:
    """AG-12: the owner's timeout runs while an intent is held, and goes on when it is out."""
    wish = [ask(timeout_ns=3 * SECOND)]
    rig = asker({"by": ["bob"], "ttl_ns": 60 * SECOND}, wish=wish)
    if approved:
        rig.do(vote(rig, "bob"))
        assert len(rig.jobs.all) == 1
    rig.pass_time(4 * SECOND)
    assert told(rig) == ("timeout", "effect.timeout")
    check(rig)


@pytest.mark.clause("X-10")
@pytest.mark.parametrize("late_ns", [0, 100 * SECOND])
@pytest.mark.parametrize(("timeout", "told_as"), [(3, "effect.timeout"), (9, EXPIRED)])
def test_the_earlier_of_two_ends_is_told(timeout: int, told_as: str, late_ns: int) -> None:
    """X-10: whether time ends the question or the request is the same however late one looks."""
    wish = [ask(timeout_ns=timeout * SECOND)]
    rig = asker({"by": ["bob"], "ttl_ns": 6 * SECOND}, wish=wish)
    rig.pass_time((min(timeout, 6) * SECOND) + SECOND + late_ns)
    assert told(rig)[1] == told_as
    check(rig)


def test_approved_in_time_does_not_expire() -> None:
    """AG-09: the end of the time to decide means nothing to an intent that is out."""
    rig = asker({"by": ["bob"], "ttl_ns": 5 * SECOND})
    rig.do(vote(rig, "bob"))
    rig.pass_time(6 * SECOND)
    assert held(rig)
    rig.settle(rig.jobs.all[0], {"a": "yes"})
    assert told(rig)[0] == "ok"
    check(rig)


def test_a_denial_frees_its_key() -> None:
    """06 section 1: an open key attaches to the held intent; rejected, the key is free again."""
    rig = asker({"by": ["bob"]}, wish=[ask(idempotency_key=b"k")])
    rig.send(GO, go("a", "wish"))
    assert len(rig.records(IntentOpened)) == 1
    rig.do(vote(rig, "bob", "reject"))
    rig.run()
    assert rig.state(LAB, "a")["log"] == ["wish", "wish", "denied:", "denied:"]
    assert not rig.cell(LAB, "a").keyed
    rig.send(GO, go("a", "wish"))
    assert len(rig.records(IntentOpened)) == 2
    rig.do(vote(rig, "bob"))
    assert len(rig.jobs.all) == 1
    assert rig.verify().first is None


@pytest.mark.clause("K-29")
def test_release_asks_again() -> None:
    """06 section 1: a grant that expired while people thought about it lets nothing out."""
    rig = asker({"by": ["bob"]}, expires_ns=START_NS + SECOND)
    rig.clock.now_ns += 2 * SECOND
    rig.do(vote(rig, "bob"))
    rig.run()
    assert told(rig) == ("denied", "cap.expired")
    assert not rig.jobs.all
    check(rig)


@pytest.mark.clause("K-29")
def test_revoking_denies_what_is_held() -> None:
    """06 section 2: what is held under a revoked grant is denied at once."""
    rig = asker({"by": ["bob"]})
    rig.do(RevokeGrant(rig.clock.sample(), "effect", "root", "leaked"))
    rig.run()
    assert told(rig) == ("denied", "cap.revoked")
    assert not list(rig.world.intents.entries())
    assert not rig.jobs.all
    check(rig)


def test_a_held_timer_does_not_fire() -> None:
    """06 section 3: a timer that waits for approval fires after it, not before."""
    due = START_NS + 2 * SECOND
    params = {"deliver_at_ns": due, "key": None}
    rig = asker({"by": ["bob"]}, wish=[{"effect": TIMER, "params": params, "cap_slot": "time"}])
    rig.pass_time(3 * SECOND)
    assert held(rig)
    rig.do(vote(rig, "bob"))
    rig.pass_time(1)
    assert told(rig)[0] == "ok"
    check(rig)


def test_a_held_spawn_is_performed_at_its_release() -> None:
    """06 section 3: internal effects wait too: the child begins when somebody approved it."""
    payload = {"schema": GO, "value": canon.encode(go("kid"))}
    params = {"workflow": LAB, "key": canon.encode("kid"), "payload": payload, "caps": None}
    rig = asker({"by": ["bob"]}, wish=[{"effect": SPAWN, "params": params, "cap_slot": "flow"}])
    assert rig.cell(LAB, "kid") is None
    rig.do(vote(rig, "bob"))
    rig.run()
    assert rig.state(LAB, "kid")["log"] == ["note"]
    assert rig.state(LAB, "a")["log"] == ["wish", "ok:"]
    check(rig)


def test_cancelled_while_held() -> None:
    """06 section 1: a held intent is open in every sense: it can be cancelled."""
    rig = asker({"by": ["bob"]})
    sample = rig.clock.sample()
    rig.do(Operate(sample, "cancel", "alice", "changed my mind", intent=held(rig)))
    rig.run()
    assert told(rig)[0] == "cancelled"
    assert not rig.jobs.all
    check(rig)


def test_by_hand_is_no_approval() -> None:
    """06 section 3: an operator cannot release what people must approve."""
    rig = asker({"by": ["bob"]})
    given = Operate(rig.clock.sample(), "release", "alice", "hurry", intent=held(rig))
    assert refused(rig, given).code == "effect.not_held"


# ---- seals ----------------------------------------------------------------------------------


def sealed(rig: Rig, pair: KeyPair = BOB, **changed: Any) -> dict[str, Any]:
    said = {
        "world": WORLD,
        "intent": canon.text_of(held(rig)),
        "bundle": None,
        "report_hash": None,
        "decision": "approve",
        "principal": "bob",
        "at_ns": 7,
        **changed,
    }
    return {**pair.sign(approval_statement(**said)), "at_ns": said["at_ns"]}


@pytest.mark.clause("K-15")
def test_seals() -> None:
    """06 sections 3 and 6: a seal must be the principal's over this very decision."""
    rig = asker({"by": ["bob", "carol"]}, rules={"signed": True})
    assert refused(rig, vote(rig, "bob")).code == "policy.unsigned"
    other = KeyPair(sha256(b"mallory").digest())
    bad = [
        sealed(rig, other),
        sealed(rig, decision="reject"),
        sealed(rig, intent="sha256:" + "0" * 64),
        sealed(rig, world="00000000-0000-4000-8000-000000000000"),
        {**sealed(rig), "at_ns": 8},
        {"alg": "x"},
    ]
    for seal in bad:
        assert refused(rig, vote(rig, "bob", seal=seal)).code == "policy.bad_seal"
    # Carol has no registered key, so nobody can seal for her.
    assert refused(rig, vote(rig, "carol", seal=sealed(rig))).code == "policy.bad_seal"
    rig.do(vote(rig, "bob", seal=sealed(rig)))
    assert len(rig.jobs.all) == 1
    check(rig)


def test_rule_without_names() -> None:
    """06 section 3: a rule that names nobody leaves it to every caller who may decide at all."""
    rig = asker()
    rig.do(vote(rig, "anyone"))
    assert len(rig.jobs.all) == 1
    assert refused(rig, Decide(rig.clock.sample(), held(rig), "x", "maybe")).code == (
        "policy.bad_decision"
    )
    gone = Decide(rig.clock.sample(), bytes(32), "x", "approve")
    assert refused(rig, gone).code == "effect.not_open"
    check(rig)


# ---- forks, replay --------------------------------------------------------------------------


@pytest.mark.clause("X-02")
@pytest.mark.parametrize("who", ["bob", "eve"])
def test_replay_decides_again(who: str) -> None:
    """06: a vote that the rule gives to nobody is found when the journal is run again.

    The control is the same frame with the vote of one who may.
    """
    rig = asker({"by": ["bob"]})
    frames = list(rig.journal.read(WORLD))
    forged = rig.folded()
    stamp = Draft(forged).stamp(rig.clock.sample())
    made = (
        IntentApproval(held(rig), who, "approve", stamp),
        IntentReleased(held(rig), "approval", "approved"),
    )
    at = forged.seq + 1
    sealed = accept(forged, Frame(made, (), (), {}, Answer("forged")))
    again = open_world(WORLD, [], rig.driver.blobs, rig.runner)
    first = verify(again, [*frames, sealed]).first  # type: ignore[list-item]
    assert first is None if who == "bob" else (first.seq, first.expected) == (at, "IntentApproval")


@pytest.mark.clause("X-08")
def test_a_fork_is_no_way_around() -> None:
    """06 section 11: in a fork what waits for people still waits for people."""
    rig = asker({"by": ["bob"]})
    world = rig.folded()
    accept(world, fork(world, "00000000-0000-4000-8000-000000000001", rig.clock.sample()))
    assert world.intents.get(held(rig)).hold["kind"] == "approval"


def test_denials_count_as_evidence_once() -> None:
    """X-06: a denied hold has one receipt and no second record of the denial."""
    rig = asker({"by": ["bob"]})
    rig.do(vote(rig, "bob", "reject"))
    rig.run()
    assert not rig.records(IntentDenied)
    assert len(rig.records(ReceiptSettled)) == 1
    rig.driver.snapshot()
    check(rig)
