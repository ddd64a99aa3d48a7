"""The clock: the only reader of time and entropy (D4)."""

from __future__ import annotations

import os
import time
from typing import Protocol

from tallystick.kernel.inputs import Sample


class Clock(Protocol):
    """Where samples come from."""

    def sample(self) -> Sample:
        """Time and 64 bytes of entropy for one external input."""
        ...


class SystemClock:
    """The machine's own time and chance.

    Time advances by the monotonic clock from the wall time at start, so that a step of the wall
    clock is not seen while the node runs.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def sample(self) -> Sample:
        """Read time and chance now."""
        return Sample(time.monotonic_ns() + self._offset_ns, os.urandom(64))
