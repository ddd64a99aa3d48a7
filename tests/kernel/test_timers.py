"""Timers: each fires once, never early, whatever the clock and the process do."""

from __future__ import annotations

from random import Random

import pytest

from tallystick.kernel.inputs import Activate, Clock, Submit
from tallystick.kernel.parts import TIMER
from tallystick.kernel.roots import root
from tallystick.model.records import IntentOpened, ReceiptSettled
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests import worlds
from tests.rig import START_NS, Rig, bundle_of

TIMERS = 1000
HOUR_NS = 3_600_000_000_000
DAY_NS = 24 * HOUR_NS
YEAR_NS = 365 * DAY_NS


def alarm_rig() -> Rig:
    """A lab whose event sets a timer at `n` hours after the start."""

    def alarm(state, value, ctx):
        due = START_NS + value["n"]
        wanted = {"effect": TIMER, "params": {"deliver_at_ns": due, "key": "x"}}
        return Outcome(state, effects=[{**wanted, "cap_slot": "time"}])

    functions = {("t/code@1", "lab"): worlds.lab_function(alarm=alarm)}
    return Rig(worlds.lab_documents(), functions)


def set_alarms(rig: Rig, dues: list[int]) -> None:
    for i, due in enumerate(dues):
        given = Submit(rig.clock.sample(), worlds.GO, worlds.go(f"c{i}", "alarm", due))
        rig.driver.offer(given)
    rig.run()


def fire(rig: Rig) -> None:
    """Send Clock inputs until nothing more is due."""
    while rig.driver.settle_due():
        rig.run()


@pytest.mark.slow
@pytest.mark.clause("X-14")
@pytest.mark.invariant("I25")
def test_a_thousand_timers_over_restarts_and_clock_steps() -> None:  # tidy: one story
    """KN-15: 1,000 timers, steps of a year either way, restarts: each once, none early."""
    random = Random(15)
    rig = alarm_rig()
    dues = [random.randrange(1, 3 * YEAR_NS) for _ in range(TIMERS)]
    set_alarms(rig, dues)
    for step in range(60):
        jump = random.choice([-YEAR_NS, -DAY_NS, 0, DAY_NS, 30 * DAY_NS, YEAR_NS])
        rig.clock.now_ns = max(rig.clock.now_ns + jump, 1)
        fire(rig)
        if step % 7 == 3:
            rig.driver.snapshot()
        if step % 5 == 0:
            rig = rig.reopened()
    rig.clock.now_ns = START_NS + 4 * YEAR_NS
    fire(rig)
    opened = {record.intent: record for record in rig.records(IntentOpened)}
    settled = rig.records(ReceiptSettled)
    assert len(opened) == TIMERS
    assert len(settled) == len({record.intent for record in settled}) == TIMERS
    for record in settled:
        params = canon.decode(opened[record.intent].params or b"")
        payload = canon.decode(record.payload or b"")
        assert isinstance(params, dict)
        assert isinstance(payload, dict)
        assert payload["delivered_at_ns"] >= params["deliver_at_ns"], "none early"
        assert record.status == "ok"
    for i in range(0, TIMERS, 97):
        assert rig.state(worlds.LAB, f"c{i}")["log"] == ["alarm", "ok:"]
    assert rig.driver.settle_due() is False
    assert root(rig.folded()) == rig.root()


@pytest.mark.clause("X-14")
@pytest.mark.invariant("I25")
def test_they_fire_in_order_of_time() -> None:
    """I25: what is overdue together fires earliest first, over several inputs."""
    rig = alarm_rig()
    dues = [(i * 7919) % 700 + 1 for i in range(700)]
    set_alarms(rig, dues)
    rig.clock.now_ns += DAY_NS
    fire(rig)
    opened = {r.intent: canon.decode(r.params)["deliver_at_ns"] for r in rig.records(IntentOpened)}
    fired = [opened[record.intent] for record in rig.records(ReceiptSettled)]
    assert fired == sorted(fired)
    assert len(fired) == 700


@pytest.mark.invariant("I25")
def test_not_one_nanosecond_early() -> None:
    """I25: at one before the due time nothing fires; at the due time it does."""
    rig = alarm_rig()
    set_alarms(rig, [DAY_NS])
    rig.clock.now_ns = START_NS + DAY_NS - 1
    rig.do(Clock(rig.clock.sample()))
    assert rig.records(ReceiptSettled) == []
    assert rig.driver.settle_due() is False
    rig.clock.now_ns += 1
    assert rig.driver.settle_due() is True
    rig.run()
    assert len(rig.records(ReceiptSettled)) == 1


@pytest.mark.invariant("I25")
def test_overdue_ones_fire_after_a_restart() -> None:
    """I25: a node that was down at the due time fires when it is up, once."""
    rig = alarm_rig()
    set_alarms(rig, [5, 6])
    rig.driver.snapshot()
    rig.clock.now_ns += YEAR_NS
    again = rig.reopened()
    fire(again)
    assert len(again.records(ReceiptSettled)) == 2
    fire(again.reopened())
    assert len(again.records(ReceiptSettled)) == 2


@pytest.mark.invariant("I25")
def test_a_frozen_clock_still_passes_time_by_events() -> None:
    """I25: logical time grows with every input, so a due time within reach is reached."""
    rig = alarm_rig()
    set_alarms(rig, [3])
    for _ in range(5):
        rig.send(worlds.GO, worlds.go("other", "note"))
        fire(rig)
    assert len(rig.records(ReceiptSettled)) == 1


# ---- the fence is a calendar too ------------------------------------------------------------


@pytest.mark.invariant("I9")
def test_a_renewed_key_outlives_its_old_window() -> None:
    """I9: a key used again after its window is fenced anew, also while old ones are pruned."""
    rig = alarm_rig()
    for i in range(100):
        rig.send(worlds.GO, worlds.go("a", "note", i), idem_key=b"key %d" % i)
    rig.clock.now_ns += 2 * DAY_NS
    first = rig.send(worlds.GO, worlds.go("a", "note", 1), idem_key=b"key 99")
    assert first.kind == "accepted"
    for i in range(5):
        rig.send(worlds.GO, worlds.go("b", "note", i))
    again = rig.send(worlds.GO, worlds.go("a", "note", 1), idem_key=b"key 99")
    assert (again.kind, again.seq) == ("seen", first.seq)
    assert len(dict(rig.world.fence.entries())) == 1, "and the others are forgotten"


def limited_rig() -> Rig:
    """A lab whose event sets a timer in an hour, with a timeout of `n` of its own."""

    def alarm(state, value, ctx):
        wanted = {"effect": TIMER, "params": {"deliver_at_ns": START_NS + HOUR_NS, "key": "x"}}
        return Outcome(state, effects=[{**wanted, "cap_slot": "time", "timeout_ns": value["n"]}])

    return Rig(worlds.lab_documents(), {("t/code@1", "lab"): worlds.lab_function(alarm=alarm)})


@pytest.mark.clause("X-10", "X-14")
@pytest.mark.parametrize(("timeout_ns", "status"), [(HOUR_NS // 2, "timeout"), (2 * HOUR_NS, "ok")])
@pytest.mark.parametrize("late_ns", [0, DAY_NS])
def test_its_own_timeout_ends_a_timer_that_is_not_due_yet(
    timeout_ns: int, status: str, late_ns: int
) -> None:
    """Bug 112: the earlier of the two ends it, however late somebody looks at the clock."""
    rig = limited_rig()
    set_alarms(rig, [timeout_ns])
    rig.clock.now_ns = START_NS + HOUR_NS // 4
    fire(rig)
    assert not rig.records(ReceiptSettled), "neither has come"
    rig = rig.reopened()
    rig.clock.now_ns = START_NS + min(timeout_ns, HOUR_NS) + 1_000_000 + late_ns
    fire(rig)
    (settled,) = rig.records(ReceiptSettled)
    assert settled.status == status
    rig.clock.now_ns = START_NS + DAY_NS + late_ns
    fire(rig)
    assert len(rig.records(ReceiptSettled)) == 1, "once"
    assert root(rig.folded()) == rig.root()


@pytest.mark.clause("X-14")
def test_a_timer_with_a_key_that_is_kept_by_its_digest() -> None:
    """X-14: a key is text of any legal length, and a timer with a long one fires like any other."""
    word = "k" * 70_000

    def alarm(state, value, ctx):
        wanted = {"effect": TIMER, "params": {"deliver_at_ns": START_NS + HOUR_NS, "key": word}}
        return Outcome(state, effects=[{**wanted, "cap_slot": "time"}])

    rig = Rig(worlds.lab_documents(), {("t/code@1", "lab"): worlds.lab_function(alarm=alarm)})
    set_alarms(rig, [1])
    rig = rig.reopened()
    rig.clock.now_ns = START_NS + 2 * HOUR_NS
    fire(rig)
    (settled,) = rig.records(ReceiptSettled)
    assert canon.decode(rig.world.payload(settled))["key"] == word
    assert rig.verify().first is None
    assert root(rig.folded()) == rig.root()


@pytest.mark.invariant("I9")
def test_a_window_may_never_pass() -> None:
    """I9: a manifest may say that keys are kept for ever, with the largest number there is."""
    made = worlds.lab_documents(limits={"idempotency_window": 2**64 - 1})
    rig = Rig(made, {("t/code@1", "lab"): worlds.lab_function()})
    first = rig.send(worlds.GO, worlds.go("a"), idem_key=b"x")
    rig.clock.now_ns += 1000 * DAY_NS
    rig = rig.reopened()
    again = rig.send(worlds.GO, worlds.go("a"), idem_key=b"x")
    assert (again.kind, again.seq) == ("seen", first.seq)
    assert root(rig.folded()) == rig.root()


@pytest.mark.invariant("I9")
@pytest.mark.parametrize(("before", "after"), [(24, 1), (1, 24)], ids=["shorter", "longer"])
def test_a_window_that_an_upgrade_changes(before: int, after: int) -> None:
    """I9: a key is fenced for as long as the window in force says, whenever it was used."""
    functions = {("t/code@1", "lab"): worlds.lab_function()}
    made = [
        worlds.lab_documents(flow={"lifecycle": "entity"}, limits={"idempotency_window": n})
        for n in (before * HOUR_NS, after * HOUR_NS)
    ]
    rig = Rig(made[0], functions)
    rig.send(worlds.GO, worlds.go("a"), idem_key=b"x")
    manifest, blobs = bundle_of(made[1])
    given = Activate(rig.clock.sample(), manifest, manifest, rig.manifest, blobs, "al")
    assert rig.do(given).kind == "activated"
    # Shorter: used again behind the new window, before the old one. Longer: between the two.
    rig.clock.now_ns += 24 * HOUR_NS - HOUR_NS // 2
    kind = "accepted" if after < before else "seen"
    rig.send(worlds.GO, worlds.go("b"))
    assert rig.send(worlds.GO, worlds.go("a"), idem_key=b"x").kind == kind
    rig.clock.now_ns += HOUR_NS * 3 // 4
    rig.send(worlds.GO, worlds.go("b"))
    kind = "seen" if after < before else "accepted"
    assert rig.send(worlds.GO, worlds.go("a"), idem_key=b"x").kind == kind
    rig.clock.now_ns += 25 * HOUR_NS
    for _ in range(3):
        rig.send(worlds.GO, worlds.go("b"))
    assert dict(rig.world.fence.entries()) == {}, "and nothing is kept for ever"
    assert rig.world.expiry.first() is None
    assert root(rig.folded()) == rig.root()
