"""Hosting: what the kernel's thread does to have a world in its hands, or another one.

These run on the kernel's thread, between turns, and use the journal there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tallystick.journal.base import Head, Reader
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.index import Blobs
from tallystick.kernel.restore import restored
from tallystick.kernel.world import Settings, World
from tallystick.model.abi import Runner
from tallystick.modules.runners import Runners
from tallystick.node.clock import AheadClock, Clock, SystemClock
from tallystick.node.driver import Driver, Ports
from tallystick.node.hosted import Hosted
from tallystick.node.whatif import Drawn, driven
from tallystick.node.worlds import (
    ForkOrder,
    NewWorld,
    create_world,
    fork_world,
    open_driver,
    world_at,
)

Modules = Callable[[Blobs], Runner]
"""Makes the runner of one world, which reads module code from the world's own blobs."""


class Hosting(NamedTuple):
    """What every world of a node is hosted with."""

    ports: Ports
    modules: Modules
    settings: Settings
    clock: SystemClock
    node_key: bytes

    def at(self, reader: Reader, world: str, runner: Runner, seq: int) -> World:
        """A world as it was at a sequence; called on the thread of its reader."""
        return world_at(reader, world, runner, seq=seq, settings=self.settings)

    def open(self, world: str, backup: str | None = None, *, look: bool = False) -> Hosted:
        """Open a world of the journal; becomes its only writer, unless it only came to `look`.

        With `backup` it was restored from that one, which is recorded before anything else.
        """
        runner = self.modules(StagedBlobs(self.ports.journal, world))
        look = look and backup is None
        driver = open_driver(self.ports, world, runner, self.settings, look=look)
        if not look:
            _prepare(driver)
        driver.clock = self._clock(driver.world.logical_ns)
        if backup is not None:
            sample = driver.clock.sample()
            driver.stage(restored(driver.world, sample, backup, self.node_key))
            driver.flush()
        return self._hosted(driver)

    def create(self, new: NewWorld) -> Hosted:
        """Create a world and make its first frame durable."""
        staged = StagedBlobs(self.ports.journal, new.world)
        for digest, data in new.blobs.items():
            staged.put(digest, data)
        driver = create_world(self.ports, new, self.modules(staged), self.settings)
        _prepare(driver)
        return self._hosted(driver)

    def fork(self, order: ForkOrder) -> Hosted:
        """Fork a world; its first frame is durable then."""
        runner = self.modules(StagedBlobs(self.ports.journal, order.parent))
        return self._hosted(fork_world(self.ports, order, runner, self.settings))

    def adopt(self, order: ForkOrder, made: Drawn, head: Head) -> Hosted:
        """Host a what-if that was run elsewhere and is durable by now."""
        # The runner it ran with reads from a connection that is closed.
        made.world.runner = self.modules(StagedBlobs(self.ports.journal, order.child))
        return self._hosted(driven(self.ports, order, made, head))

    def _clock(self, logical_ns: int) -> Clock:
        """Time goes on from what the journal has seen, also when the wall clock stepped back."""
        ahead = logical_ns - self.clock.now_ns()
        return self.clock if ahead <= 0 else AheadClock(self.clock, ahead)

    def _hosted(self, driver: Driver) -> Hosted:
        world, runner = driver.world.id, driver.world.runner

        def reopen(head: Head) -> Driver:
            """The same world from the disk, under the same epoch: what ran ahead is gone."""
            again = world_at(self.ports.journal, world, runner, settings=self.settings)
            assert isinstance(again.blobs, StagedBlobs), "a hosted world stages its blobs"
            return Driver(again, self.ports, again.blobs, Head(again.seq, again.head, head.epoch))

        taken = self.ports.journal.snapshots(world)
        return Hosted(driver, reopen, taken[-1].seq if taken else 0)


def _prepare(driver: Driver) -> None:
    """Start what a runner needs outside of a tick, where no watchdog counts the time."""
    runner = driver.world.runner
    if isinstance(runner, Runners):
        runner.prepare(driver.world.active.catalogue)
