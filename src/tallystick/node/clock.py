"""The clock: the only reader of time and entropy (D4)."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Final, Protocol

from tallystick.kernel.inputs import Sample
from tallystick.model.tuples import make

ENTROPY_BYTES: Final = 64
_BLOCK: Final = 128  # samples per call of the system: a call costs as much as a sample


class Clock(Protocol):
    """Where samples come from."""

    def sample(self) -> Sample:
        """Time and 64 bytes of entropy for one external input."""
        ...


class SystemClock:
    """The machine's own time and chance; any thread may ask.

    Time advances by the monotonic clock from the wall time at start, so that a step of the wall
    clock is not seen while the node runs.
    """

    __slots__ = ("_chance", "_offset_ns")

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._chance: deque[bytes] = deque()

    def now_ns(self) -> int:
        """The time now."""
        return time.monotonic_ns() + self._offset_ns

    def sample(self) -> Sample:
        """Read time and chance now."""
        # Taking from a deque is atomic: two threads never share the same bytes.
        try:
            chance = self._chance.popleft()
        except IndexError:
            chance = self._refill()
        return make(Sample, (time.monotonic_ns() + self._offset_ns, chance))

    def _refill(self) -> bytes:
        block = os.urandom(ENTROPY_BYTES * _BLOCK)
        pieces = [block[i : i + ENTROPY_BYTES] for i in range(0, len(block), ENTROPY_BYTES)]
        self._chance.extend(pieces[1:])
        return pieces[0]


class AheadClock:
    """A clock that runs a fixed time ahead of another.

    A world whose journal ends in the future, because the wall clock stepped back while the node
    was down, goes on from there: its timers keep their distance.
    """

    __slots__ = ("_clock", "ahead_ns")

    def __init__(self, clock: Clock, ahead_ns: int) -> None:
        self._clock = clock
        self.ahead_ns = ahead_ns

    def sample(self) -> Sample:
        """The other clock's sample, moved ahead."""
        sample = self._clock.sample()
        return sample._replace(now_ns=sample.now_ns + self.ahead_ns)
