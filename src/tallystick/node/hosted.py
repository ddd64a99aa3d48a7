"""A world in the hands of the engine: its driver, and what the engine counts about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tallystick.journal.base import Head
from tallystick.node.driver import Driver
from tallystick.values import canon

# After opening behind a long tail: the first who ask do not wait for its snapshot.
_REST_NS: Final = 5_000_000_000
_LONG: Final = 1_000


class Hosted:
    """A world in the hands of the engine.

    `snapped` is where its newest snapshot stands; `reopen` folds it again from the disk.
    """

    __slots__ = (
        "_seen",
        "busy_ns",
        "clock_after_ns",
        "driver",
        "reopen",
        "rests_until_ns",
        "snapped",
        "staged_ns",
        "taken",
        "taken_bytes"
    )  # fmt: skip

    def __init__(self, driver: Driver, reopen: Callable[[Head], Driver], snapped: int) -> None:
        self.driver = driver
        self.reopen = reopen
        self.snapped = snapped
        long = driver.world.seq - snapped >= _LONG
        self.rests_until_ns = time.monotonic_ns() + _REST_NS if long else 0
        self._seen = driver.world.seq  # where it stood at the last commit
        self.busy_ns = 0  # when it recorded something last
        self.staged_ns = 0
        self.clock_after_ns = 0
        # How much of the ingress lane was handled, for whoever bounds the lane.
        self.taken = 0
        self.taken_bytes = 0

    def mend(self) -> None:
        """Let a stopped world go on if what it lacked can be read again; raises what it lacks."""
        old = self.driver
        assert old.stopped is not None, "only a stopped world is mended"
        name = old.stopped.where.get("blob")
        if not isinstance(name, str):
            return  # not a blob: somebody has to look, and start the node again
        if old.blobs.get(canon.raw_of(name)) is None:
            return
        if old.torn:
            self.driver = self.reopen(old.head)
            self.driver.work.extend(old.work)
            self.driver.ingress.extend(old.ingress)
            self.driver.unsent = old.unsent
        self.driver.stopped = None
        self.driver.publish_unsent()

    def recorded(self, now_ns: int) -> int:
        """How many records are new since this was asked last."""
        seq = self.driver.world.seq
        new, self._seen = seq - self._seen, seq
        if new > 0:
            self.busy_ns = now_ns
        return new

    def lacks(self, records: int) -> bool:
        """True when so many records stand behind the newest snapshot and one may be taken."""
        world = self.driver.world
        if world.seq - self.snapped < records or world.frozen:
            return False
        return time.monotonic_ns() >= self.rests_until_ns
