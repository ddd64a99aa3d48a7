"""A world in the hands of the engine: its driver, and what the engine counts about it."""

from __future__ import annotations

from collections.abc import Callable

from tallystick.journal.base import Head
from tallystick.node.driver import Driver


class Hosted:
    """A world in the hands of the engine."""

    __slots__ = (
        "clock_after_ns", "driver", "reopen", "snapped", "staged_ns", "taken", "taken_bytes"
    )  # fmt: skip

    def __init__(self, driver: Driver, reopen: Callable[[Head], Driver]) -> None:
        self.driver = driver
        self.reopen = reopen
        self.snapped = driver.world.seq
        self.staged_ns = 0
        self.clock_after_ns = 0
        # How much of the ingress lane was handled, for whoever bounds the lane.
        self.taken = 0
        self.taken_bytes = 0
