"""Lone jobs: what goes out alone to an executor that only computes is performed right here.

Theory of operation.
Usually a durable intent goes to the io thread, its executor runs there as a task, and the receipt
comes back: three wake-ups, and most of what a light step of a chain takes.
An executor that can answer without waiting (`executors/base.AtOnce`) is asked here instead, right
after the commit that made the intent durable, and its receipt is the next work of the world.
Only a job that went out alone, while nobody knocks, is performed so: where many are on their way,
the io thread seals them together while the kernel decides.
The watchdog of ticks stops an answer that takes too long after all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tallystick.executors.base import AtOnce, Failed, Job, Outcome
from tallystick.model.tuples import make
from tallystick.node.attempt import RAISED, Shelf, crash_of, job_for, outcome_of
from tallystick.node.clock import SystemClock
from tallystick.node.dispatch import Dispatch
from tallystick.node.driver import Ticket
from tallystick.node.jobs import Published
from tallystick.node.outlet import Outlet
from tallystick.node.receipts import Ended, receipts_of, settling
from tallystick.node.watchdog import TickStopped, Watchdog
from tallystick.values import canon
from tallystick.values.seal import KeyPair

_TOO_LONG: Final = Failed("timeout", "effect.too_slow", "an answer at once took too long")


class Means(NamedTuple):
    """What performing needs of the node: the key that seals, time, and its durable blobs."""

    pair: KeyPair
    clock: SystemClock
    blob: Callable[[str, bytes], bytes | None]


class LoneJobs:
    """Performs what needs no waiting; used on the kernel's thread."""

    def __init__(self, dispatch: Dispatch, outlet: Outlet, means: Means) -> None:
        self._dispatch = dispatch
        self._outlet = outlet
        self._means = means

    def perform(self, job: Published, watchdog: Watchdog) -> Ticket | None:
        """The receipt of a job on its way to the kernel; None when its executor has to wait."""
        answer = self._dispatch.at_once(job)
        if answer is None:
            return None
        pair, clock, blob = self._means
        shelf = Shelf(job.world, blob)
        started_ns = clock.now_ns()
        outcome = _answer(answer, job_for(job, canon.decode(job.params), shelf), watchdog)
        if outcome is None:
            return None
        ended = make(Ended, (job, outcome, started_ns, clock.now_ns(), shelf.put_now))
        (receipt,) = receipts_of(pair, [ended])
        self._outlet.now.performed.append((ended, receipt.status))
        return settling(ended, receipt, clock.sample())


def _answer(answer: AtOnce, job: Job, watchdog: Watchdog) -> Outcome | None:
    try:
        with watchdog:
            found = answer(job)
    except TickStopped:
        return _TOO_LONG
    except RAISED as why:
        return crash_of(why)
    return None if found is None else outcome_of(found)
