"""A world in the hands of the engine: its driver, and what the engine counts about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tallystick.errors import TallyError
from tallystick.journal.base import Head
from tallystick.kernel.snapshot import prepare
from tallystick.node.driver import Driver
from tallystick.values import canon

# After opening behind a long tail: the first who ask do not wait for its snapshot.
# Nor does a rest between two parts of one take longer.
_REST_NS: Final = 1_000_000_000
_LONG: Final = 1_000
# Of a snapshot on its way.
_WAITING: Final = 4  # so many blobs for each entry of a part wait for a commit: a part or two
_RESTS: Final = 3  # so many times as long as a part is the rest after it: who asks meets one part
_RESTS_DUE: Final = 1  # of a snapshot that is due: it has to end before it is overdue
_HASTE: Final = 16  # so many times larger is a part of a snapshot that is overdue
_CROWD: Final = 1024  # so many blobs of one that is overdue: a flood would outrun the disk


class Hosted:
    """A world in the hands of the engine.

    `snapped` is where its newest snapshot stands; `reopen` folds it again from the disk.
    """

    __slots__ = (
        "_seen",
        "admitted",
        "busy_ns",
        "clock_after_ns",
        "driver",
        "gone",
        "hurries",
        "parts_after_ns",
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
        self.gone: TallyError | None = None  # why this world is no longer here
        long = driver.world.seq - snapped >= _LONG
        self.rests_until_ns = time.monotonic_ns() + _REST_NS if long else 0
        self._seen = driver.world.seq  # where it stood at the last commit
        self.busy_ns = 0  # when it recorded something last
        self.hurries = False  # a snapshot that is overdue is on its way
        self.admitted = 0  # how many commits had landed when new events were taken last
        self.parts_after_ns = 0  # when the next part of a snapshot may be done
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
            self.again()
            self.driver.work.extend(old.work)
            self.driver.ingress.extend(old.ingress)
        self.driver.stopped = None
        self.driver.publish_unsent()

    def again(self) -> None:
        """Fold the world from the disk: what ran ahead is gone; who waited is up to the caller.

        It goes on in its own time, and stands still for whoever holds it.
        """
        old = self.driver
        self.driver = new = self.reopen(old.head)
        new.clock, new.held = old.clock, old.held
        new.stopped, new.unsent = old.stopped, old.unsent

    @property
    def crowded(self) -> bool:
        """True while new events wait for a commit: few go between those of an overdue snapshot."""
        if not self.hurries or self.admitted != self.driver.landed:
            return False
        return self.driver.blobs.waiting() > _CROWD

    def look_busy(self, now_ns: int) -> None:
        """Note whether anything was recorded since this was asked last."""
        seq = self.driver.world.seq
        if seq > self._seen:
            self.busy_ns = now_ns
        self._seen = seq

    def prepared(self, part: int, least: int, *, due: bool, hurry: int) -> bool:
        """Do the next part of a snapshot; False when there is none.

        Parts grow with the hurry, 0 being none: a flood must not outrun its snapshot.
        While much of it waits for the disk, there is nothing to do.
        """
        part, self.hurries = part * _HASTE * hurry or part, hurry > 0
        if self.driver.blobs.waiting() > _WAITING * part:
            return True
        begun_ns = time.monotonic_ns()
        blobs = self.driver.blobs
        put = blobs.put if hurry else blobs.put_early
        done = prepare(self.driver.world, part, least, put, hurry=hurry > 0)
        now_ns = time.monotonic_ns()
        rest_ns = (now_ns - begun_ns) * (_RESTS_DUE if due else _RESTS)
        # A machine that stood still within a part does not put the next one off for as long.
        self.parts_after_ns = now_ns + min(rest_ns, _REST_NS)
        return done

    def lacks(self, records: int) -> bool:
        """True when so many records stand behind the newest snapshot and one may be taken."""
        return self.behind(records) and time.monotonic_ns() >= self.rests_until_ns

    def behind(self, records: int) -> bool:
        """True when so many records stand behind the newest snapshot, now or after a rest."""
        world = self.driver.world
        return world.seq - self.snapped >= records and not world.frozen
