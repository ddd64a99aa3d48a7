"""Flows in numbers: thousands of intents, thousands of histories; small counts in the suite.

TALLY_FLOW_INTENTS=10000 and TALLY_FLOW_SEEDS=2000 run the whole rows.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from tallystick.kernel.inputs import TakeSnapshot
from tallystick.model.records import IntentOpened, IntentReleased, ReceiptSettled
from tallystick.values import canon
from tests.kernel.test_flows import LATER, SECOND, end, flow, lab, wishes
from tests.rig import Rig, check
from tests.worlds import LAB, ask

INTENTS = int(os.environ.get("TALLY_FLOW_INTENTS", "120"))
SEEDS = int(os.environ.get("TALLY_FLOW_SEEDS", "6"))
KEYS = 8
GAP_NS = SECOND // 50
BURST = 2


def left_at(rig: Rig) -> dict[str, list[int]]:
    """The logical times at which the intents of each key left, in order."""
    times: dict[str, list[int]] = {}
    keys: dict[bytes, str] = {}
    now = 0
    for record in rig.records():
        stamp = getattr(record, "stamp", None)
        now = stamp.logical_ns if stamp is not None else now
        if isinstance(record, IntentOpened):
            keys[record.intent] = canon.decode(record.params)["q"]  # type: ignore[arg-type]
        opened = isinstance(record, IntentOpened) and record.hold is None
        if opened or (isinstance(record, IntentReleased) and record.hold == "capacity"):
            times.setdefault(keys[record.intent], []).append(now)
    return times


class Crowd:
    """Many who ask for a few keys, and an outside that answers in any order."""

    def __init__(self, count: int, max_open: int = 1, burst: int = BURST) -> None:
        key = {"key": "{{ params.q }}", "max_open": max_open}
        rate = {"count": 50, "per_ns": SECOND, "burst": burst}
        self.rig = lab(flow(keyed=key, rate=rate, queue_max=10**6))
        self.count = count
        self._chance = Random("flows")
        self._seen = 0
        self._out: list[Any] = []
        self._keys: dict[str, bytes] = {}

    def play(self) -> None:
        """Ask, answer and wait until all is over; never two of a key are out at once."""
        asked = settled = 0
        chance = self._chance
        while settled < self.count:
            # As many ask as are answered: what waits stays a crowd, and not the whole history.
            if asked < self.count and asked - settled < 20 * KEYS and chance.random() < 0.6:
                wishes(self.rig, chance.randrange(KEYS), cell=f"c{asked}")
                asked += 1
            elif chance.random() < 0.5:
                self.rig.pass_time(chance.randrange(4 * GAP_NS))
            self._look()
            if self._out and (asked == self.count or chance.random() < 0.5):
                self._answer()
                settled += 1

    def _look(self) -> None:
        for job in self.rig.jobs.all[self._seen :]:
            key = canon.decode(job.params)["q"]
            assert key not in self._keys, "two of a key are out"
            self._keys[key] = job.intent
            self._out.append(job)
        self._seen = len(self.rig.jobs.all)

    def _answer(self) -> None:
        job = self._out.pop(self._chance.randrange(len(self._out)))
        del self._keys[canon.decode(job.params)["q"]]
        self.rig.settle(job, {"a": "ok"})

    def judge(self) -> None:
        """Play, and look at every stretch of it."""
        self.play()
        self.check_rate()

    def check_rate(self) -> None:
        """Never more than the rate left in any stretch, and all have left."""
        every = left_at(self.rig)
        assert sum(map(len, every.values())) == self.count
        for times in every.values():
            for many in (BURST + 1, BURST + 10):
                for first, last in zip(times, times[many - 1 :], strict=False):
                    # Within a frame a release is dated by the input before: a tick is a nanosecond.
                    assert last - first >= (many - BURST) * GAP_NS - self.count * 10, "too many"


@pytest.mark.clause("F-22", "X-03")
def test_never_over_a_key_or_a_rate() -> None:
    """AG-11: many intents under a limit of one per key and a rate: never more than one of a key
    is out, never more than the rate leave in any stretch, all leave, and the order of release is
    the same at replay.
    """
    crowd = Crowd(INTENTS)
    crowd.judge()
    assert not crowd.rig.world.levels.queue
    check(crowd.rig)


@pytest.mark.parametrize("planted", ["limit", "rate"])
def test_a_flow_that_lets_more_out_is_found(planted: str) -> None:
    """AG-11, control: the same crowd under a flow with room for two of a key, or with a longer
    burst, does not pass.
    """
    wider = {"max_open": 2} if planted == "limit" else {"burst": BURST + 2}
    crowd = Crowd(120, **wider)
    with pytest.raises(AssertionError, match="two of a key" if planted == "limit" else "too many"):
        crowd.judge()


# ---- none is forgotten ------------------------------------------------------------------------


def tangled(seed: int) -> Rig:
    """A history of asking, cancelling, timing out and answering under two full flows."""
    chance = Random(seed)

    def wish(n: int) -> list[Any]:
        limit = {"timeout_ns": SECOND} if n % 3 == 0 else {}
        return [ask(str(n % 3), **limit)]

    rig = lab(
        flow("w", max_open={"world": 2}), flow("k", keyed={"key": "{{ params.q }}"}), wish=wish
    )
    for number in range(12):
        wishes(rig, chance.randrange(9), cell=f"c{number}")
        if chance.random() < 0.3:
            rig.operate("cancel", LAB, f"c{number}", force=True)
        if chance.random() < 0.2:
            rig.driver.snapshot()
        if chance.random() < 0.2:
            rig.pass_time(SECOND // 2)
    return rig


def drained(rig: Rig, seed: int) -> None:
    """Answer whatever is out until nothing is; a receipt is never kept waiting."""
    chance = Random(seed)
    for _ in range(100):
        out = [path for path, intent in rig.world.intents.entries() if intent.hold is None]
        if not out:
            break
        intent = chance.choice(out)
        job = next(each for each in rig.jobs.all if each.intent == intent)
        assert rig.settle(job, {"a": "ok"}).kind == "settled"
    assert not list(rig.world.intents.entries()), "one waits for ever"
    opened = {record.intent for record in rig.records(IntentOpened)}
    assert opened == {record.intent for record in rig.records(ReceiptSettled)}


@pytest.mark.clause("X-10")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_none_is_forgotten(seed: int) -> None:
    """AG-12: whatever is cancelled, settled, timed out or waited for, receipts are never blocked
    by a full flow, and in the end every intent that opened has settled.
    """
    rig = tangled(seed)
    drained(rig, seed)
    check(rig)


def test_a_forgotten_one_is_found() -> None:
    """AG-12, control: of a queue that lost one the simulation says so; held ones time out in it."""
    seed = next(n for n in range(100) if _would_wait(tangled(n)))
    rig = tangled(seed)
    lost = rig.world.levels.queue.pop()
    assert rig.world.intents.get(lost.intent).record.timeout_at_ns is None
    with pytest.raises(AssertionError, match="one waits for ever"):
        drained(rig, seed)
    ends = [r.status for n in range(8) for r in tangled(n).records(ReceiptSettled)]
    assert ends.count("timeout") > 2


def _would_wait(rig: Rig) -> bool:
    queue = rig.world.levels.queue
    return bool(queue) and rig.world.intents.get(queue[-1].intent).record.timeout_at_ns is None


@pytest.mark.clause("F-22")
@pytest.mark.invariant("I42")
def test_where_nothing_is_open_nothing_is_remembered() -> None:
    """06 section 4: a key with nothing open or queued, and whose time has passed, is dropped."""
    paced = {"keyed": {"key": "{{ params.q }}"}, "rate": {"count": 1, "per_ns": SECOND}}
    rig = lab(flow(max_open={"world": 2, "cell": 1}), flow("g", **paced))
    wishes(rig, 1, 2, 3)
    assert rig.world.levels.open
    assert rig.world.levels.queued
    for n in (1, 2, 3):
        end(rig, n)
    assert (rig.world.levels.open, rig.world.levels.queued) == ({}, {})
    rig.pass_time(LATER)
    rig.do(TakeSnapshot(rig.clock.sample()))
    assert rig.world.levels.tats == {}
    check(rig)
