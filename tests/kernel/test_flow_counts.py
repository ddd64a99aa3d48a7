"""Flows in numbers: thousands of intents, thousands of histories; small counts in the suite.

TALLY_FLOW_INTENTS=10000 and TALLY_FLOW_SEEDS=2000 run the whole rows.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tallystick.model.records import IntentOpened, IntentReleased, ReceiptSettled
from tallystick.values import canon
from tests.kernel.test_flows import SECOND, flow, lab, wishes
from tests.rig import Rig, check
from tests.worlds import LAB

INTENTS = int(os.environ.get("TALLY_FLOW_INTENTS", "120"))
SEEDS = int(os.environ.get("TALLY_FLOW_SEEDS", "6"))
KEYS = 8
GAP_NS = SECOND // 50
BURST = 2


def out_now(rig: Rig) -> list[str]:
    """The keys of what is out."""
    held = [i for _, i in rig.world.intents.entries() if i.hold is None]
    return [canon.decode(i.record.params)["q"] for i in held]


def left_at(rig: Rig) -> dict[str, list[int]]:
    """The logical times at which the intents of each key left, in order."""
    times: dict[str, list[int]] = {}
    keys: dict[bytes, str] = {}
    now = 0
    for record in rig.records():
        stamp = getattr(record, "stamp", None)
        now = stamp.logical_ns if stamp is not None else now
        if isinstance(record, IntentOpened):
            keys[record.intent] = canon.decode(record.params)["q"]
        opened = isinstance(record, IntentOpened) and record.hold is None
        if opened or (isinstance(record, IntentReleased) and record.hold == "capacity"):
            times.setdefault(keys[record.intent], []).append(now)
    return times


@pytest.mark.clause("F-22", "X-03")
# tidy: one long history, looked at after every step.
def test_never_over_a_key_or_a_rate() -> None:
    """AG-11: many intents under a limit of one per key and a rate: never more than one of a key
    is out, never more than the rate leave in any stretch, all leave, and replay agrees.
    """
    chance = Random("flows")
    key = {"key": "{{ params.q }}", "max_open": 1}
    rate = {"count": 50, "per_ns": SECOND, "burst": BURST}
    rig = lab(flow(keyed=key, rate=rate, queue_max=10**6))
    jobs: dict[bytes, bool] = {}
    asked = settled = 0
    while settled < INTENTS:
        if asked < INTENTS and chance.random() < 0.6:
            wishes(rig, chance.randrange(KEYS), cell=f"c{asked}")
            asked += 1
        elif chance.random() < 0.5:
            rig.pass_time(chance.randrange(4 * GAP_NS))
        fresh = [job for job in rig.jobs.all[len(jobs) :] if job.intent not in jobs]
        jobs |= {job.intent: False for job in fresh}
        keys = out_now(rig)
        assert len(set(keys)) == len(keys)
        open_ = [job for job in rig.jobs.all if not jobs[job.intent]]
        if open_ and (asked == INTENTS or chance.random() < 0.5):
            job = chance.choice(open_)
            jobs[job.intent] = True
            rig.settle(job, {"a": "ok"})
            settled += 1
    every = left_at(rig)
    assert sum(map(len, every.values())) == INTENTS
    for times in every.values():
        for many in (BURST + 1, BURST + 10):
            for first, last in zip(times, times[many - 1 :], strict=False):
                # A release within a frame is dated by the input before it: a tick is a nanosecond.
                assert last - first >= (many - BURST) * GAP_NS - INTENTS * 10
    assert not rig.world.levels.queue
    check(rig)


@pytest.mark.clause("X-10")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_none_is_forgotten(seed: int) -> None:
    """AG-12: whatever is cancelled, settled or waited for, receipts are never blocked by a full
    flow, and in the end every intent that opened has settled.
    """
    chance = Random(seed)
    rig = lab(flow("w", max_open={"world": 2}), flow("k", keyed={"key": "{{ params.q }}"}))
    for number in range(12):
        wishes(rig, chance.randrange(3), cell=f"c{number}")
        if chance.random() < 0.3:
            rig.operate("cancel", LAB, f"c{number}", force=True)
        if chance.random() < 0.2:
            rig.driver.snapshot()
    for _ in range(100):
        waiting = [p for p, i in rig.world.intents.entries() if i.hold is None]
        if not waiting:
            break
        intent = chance.choice(waiting)
        job = next(each for each in rig.jobs.all if each.intent == intent)
        rig.settle(job, {"a": "ok"})
    assert not list(rig.world.intents.entries())
    opened = {record.intent for record in rig.records(IntentOpened)}
    assert opened == {record.intent for record in rig.records(ReceiptSettled)}
    check(rig)
