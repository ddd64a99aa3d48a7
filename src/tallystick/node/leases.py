"""Leases: which job waits for a worker, and which is in whose hands, until when (N-23).

The book of `node/work`, without its clock and its disk: what it gives out counts once its row is
durable, and after a restart the rows are what it begins with.
A job is in one pair of hands at a time: it is leased, or it waits, or it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tallystick.journal.base import WorkRow
from tallystick.node.jobs import Published

Place = tuple[str, bytes]
"""A job by its world and its intent."""


class Wish(NamedTuple):
    """What a worker can do, and how much it takes."""

    worker: str
    pools: tuple[str, ...]
    effects: tuple[str, ...]
    most: int
    wait_ms: int
    lease_ms: int | None


class Waits(NamedTuple):
    """A job that waits in a pool."""

    pool: str
    job: Published


@dataclass(slots=True)
class Lease:
    """A job in the hands of a worker, until a time."""

    id: str
    job: Published
    pool: str
    worker: str
    until_ns: int

    @property
    def world(self) -> str:
        """The world of the job."""
        return self.job.world

    @property
    def place(self) -> Place:
        """The job, by its world and its intent."""
        return (self.job.world, self.job.intent)

    def row(self, state: str) -> WorkRow:
        """The row that the journal keeps of it."""
        job = self.job
        return WorkRow(
            intent=job.intent,
            effect=job.effect,
            pool=self.pool,
            state=state,
            attempt=job.attempt,
            owner=self.worker,
            lease_id=self.id,
            lease_until=self.until_ns,
        )


class Leases:
    """Jobs that wait, jobs that are leased, and rows of before a restart."""

    def __init__(self) -> None:
        self.waiting: dict[Place, Waits] = {}
        self.held: dict[str, Lease] = {}
        self._at: dict[Place, Lease] = {}
        self._kept: dict[Place, WorkRow] = {}

    def remember(self, world: str, rows: Iterable[WorkRow]) -> None:
        """Rows of before a restart: their leases count as soon as their jobs are published."""
        for row in rows:
            if row.state == "leased":
                self._kept[world, row.intent] = row

    def take(self, pool: str, job: Published) -> bool:
        """A job was published; True when it waits now, False when somebody has it."""
        place = (job.world, job.intent)
        kept = self._kept.pop(place, None)
        if kept is not None and kept.attempt == job.attempt:
            assert kept.lease_id is not None, "a leased row names its lease"
            lease = Lease(kept.lease_id, job, pool, kept.owner or "", kept.lease_until or 0)
            self.held[lease.id] = self._at[place] = lease
            return False
        known = self._at.get(place)
        if known is not None and known.job.attempt >= job.attempt:
            return False
        self.drop(place)
        self.waiting[place] = Waits(pool, job)
        return True

    def fitting(self, wish: Wish, allowed: Callable[[str], bool]) -> list[Waits]:
        """Take out what a worker may have, in the order of waiting; whoever asks must `grant`."""
        found: list[Waits] = []
        for pool, job in self.waiting.values():
            fits = (not wish.pools or pool in wish.pools) and (
                not wish.effects or job.effect in wish.effects
            )
            if fits and allowed(job.world):
                found.append(Waits(pool, job))
                if len(found) == wish.most:
                    break
        for _, job in found:
            del self.waiting[job.world, job.intent]
        return found

    def grant(self, waits: Waits, name: str, worker: str, until_ns: int) -> Lease:
        """A job goes into the hands of a worker; it may see it once the row is durable."""
        lease = Lease(name, waits.job, waits.pool, worker, until_ns)
        self.hold(lease)
        return lease

    def hold(self, lease: Lease) -> None:
        """A job is in the hands of a worker, for the first time or still."""
        self.held[lease.id] = self._at[lease.place] = lease

    def put_back(self, lease: Lease) -> None:
        """A job that nobody has seen waits again: no attempt was made."""
        self.drop(lease.place)
        self.waiting[lease.place] = Waits(lease.pool, lease.job)

    def settled(self, place: Place) -> Lease | None:
        """A job is over, by whomever; the lease that it was under."""
        self.waiting.pop(place, None)
        self._kept.pop(place, None)
        return self.drop(place)

    def rest(self, world: str) -> None:
        """What waits of a world is given to nobody until it is published again."""
        for place in [place for place in self.waiting if place[0] == world]:
            del self.waiting[place]

    def forget(self, world: str) -> None:
        """A world is gone, with all that was to be done for it."""
        self.rest(world)
        for place in [place for place in (*self._at, *self._kept) if place[0] == world]:
            self.settled(place)

    def over(self, now_ns: int) -> list[Lease]:
        """The leases whose time is over."""
        return [lease for lease in self.held.values() if lease.until_ns <= now_ns]

    def drop(self, place: Place) -> Lease | None:
        """Forget the lease of a job."""
        lease = self._at.pop(place, None)
        if lease is not None:
            self.held.pop(lease.id, None)
        return lease
