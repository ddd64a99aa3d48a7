"""The watchdog: a block that runs for too long is stopped, whatever it does about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tallystick.node.watchdog import TickStopped, Watchdog

LIMIT_S = 0.05
PATIENCE_S = 20.0  # a busy machine is no reason to fail


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    """One that watches this thread."""
    made = Watchdog(LIMIT_S)
    made.start(threading.current_thread())
    yield made
    made.stop()


def linger(until_s: float) -> None:
    while time.monotonic() < until_s:
        time.sleep(0.001)


def test_a_short_block_is_left_alone(watchdog: Watchdog) -> None:
    """Control: nothing is raised, in the block or behind it."""
    with watchdog:
        done = True
    linger(time.monotonic() + 4 * LIMIT_S)
    assert done


def test_a_long_block_is_stopped(watchdog: Watchdog) -> None:
    """04 section 1: a tick that runs for too long is broken off."""
    with pytest.raises(TickStopped), watchdog:
        linger(time.monotonic() + PATIENCE_S)


def stubborn(times: int, until_s: float) -> int:
    """Swallow so many of them and go on; how many came."""
    swallowed = 0
    while swallowed < times and time.monotonic() < until_s:
        try:
            linger(until_s)
        except TickStopped:
            swallowed += 1
    return swallowed


def test_what_is_swallowed_comes_again(watchdog: Watchdog) -> None:
    """Bug 115: a finaliser or a wide `except` takes the first; the block ends all the same."""
    until = time.monotonic() + PATIENCE_S
    came = []
    with pytest.raises(TickStopped), watchdog:  # noqa: PT012 - what is swallowed before it counts
        came.append(stubborn(2, until))
        linger(until)
    assert came == [2]
    assert time.monotonic() < until, "the third one has ended it"
    linger(time.monotonic() + 4 * LIMIT_S)  # nothing is left that could arrive out here


def test_a_block_that_swallowed_it_and_ended_is_stopped_at_its_end(watchdog: Watchdog) -> None:
    """Bug 115: nothing of such a tick is kept, and the thread that ran it goes on."""
    with pytest.raises(TickStopped), watchdog:
        stubborn(1, time.monotonic() + PATIENCE_S)
    with watchdog:
        again = True
    assert again
