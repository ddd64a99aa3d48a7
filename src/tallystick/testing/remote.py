"""Workers that lease jobs from a node, and what becomes of their leases (N-23).

The book is the product's (`node/leases`); the rows are on the simulated disk before a worker sees
its job, workers outlive the node, and some of them die with a job in their hands.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from tallystick.kernel.inputs import Operate, Receipt, Settle
from tallystick.node.driver import Driver, unfinished
from tallystick.node.jobs import Published
from tallystick.node.leases import Lease, Leases, Wish
from tallystick.testing.plan import Decision
from tallystick.testing.ports import MS, SECOND, WORLD, sealed
from tallystick.testing.violation import must

if TYPE_CHECKING:
    from tallystick.testing.simulate import Simulation

POOL: Final = "far"
LEASE_NS: Final = 20 * SECOND
WORKERS: Final = ("w1", "w2", "w3")


class Workers:
    """The workers of one run, and the leases that the node has given them."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.leases = Leases()
        self._given = 0
        # Kept by the workers, not by the node: who was given which attempt of what.
        self._hands: dict[tuple[bytes, int], str] = {}

    # ---- the node's end ---------------------------------------------------------------------

    def resume(self, driver: Driver) -> None:
        """After opening: what workers may have is published as it is, the rest attempted anew."""
        self.leases = Leases()
        self.leases.remember(WORLD, self.sim.journal.work(WORLD))
        if not self.sim.scene.remote:
            driver.resume()
            return
        for name in unfinished(driver.world):
            if name.effect in self.sim.scene.remote:
                driver.publish(name.intent)
            else:
                sample = self.sim.clock.sample()
                driver.offer(Operate(sample, "attempt", "node", "restart", intent=name.intent))
        driver.run_until_idle()

    def take(self, job: Published) -> None:
        """A job is published to the pool."""
        self.leases.take(POOL, job)

    def settled(self, intent: bytes) -> None:
        """A job is over, by whomever."""
        lease = self.leases.settled((WORLD, intent))
        if lease is not None:
            self.sim.journal.put_work(WORLD, lease.row("settled"))

    def watch(self) -> None:
        """Leases whose time is over: the next attempt is journaled, then the job waits again."""
        driver = self.sim.driver
        for lease in self.leases.over(self.sim.clock.wall_ns()) if driver is not None else ():
            assert driver is not None, "looked at above"
            self.leases.drop(lease.place)
            sample = self.sim.clock.sample()
            self.sim.points.sometimes("a lease was lost")
            given = (sample, "attempt", "node", "lease_lost")
            driver.offer(Operate(*given, intent=lease.job.intent))
            self.sim.kick()

    # ---- the workers' end -------------------------------------------------------------------

    def lease(self, decision: Decision) -> None:
        """A worker asks for jobs; it does them in time, too late, or not at all."""
        wish = Wish(decision["who"], (POOL,), (), decision["most"], 0, None)
        for waits in self.leases.fitting(wish, lambda _world: True):
            self._given += 1
            seed = f"{self.sim.plan.seed} lease {self._given}".encode()
            name = sha256(seed).hexdigest()[:32]
            until = self.sim.clock.wall_ns() + LEASE_NS
            lease = self.leases.grant(waits, name, wish.worker, until)
            self.sim.journal.put_work(WORLD, lease.row("leased"))
            self.check_I22(lease)
            self._work(lease, decision["how"])

    def check_I22(self, lease: Lease) -> None:  # noqa: N802 - named by the invariant
        """One attempt of a job is in one pair of hands; a lying disk may forget whose."""
        at = (lease.job.intent, lease.job.attempt)
        known = self._hands.get(at)
        good = known is None or "lying" in self.sim.journal.struck
        must(good, "I22", f"one attempt was given to {known} and to {lease.worker}")
        self._hands[at] = lease.worker

    def _work(self, lease: Lease, how: str) -> None:
        sim = self.sim
        if how == "dies":
            return
        delay = MS if sim.outside.calm else int(sim.chance.random() * LEASE_NS)
        if how == "late":
            sim.points.sometimes("a worker came after its lease")
            delay += LEASE_NS * 2
        status, payload = sim.outside.outcome(lease.job)
        sim.later(delay, "bring", sealed(lease.job, status, payload))

    def bring(self, receipt: Receipt) -> None:
        """A worker brings its receipt to whatever node is there."""
        driver = self.sim.driver
        if driver is None:
            self.sim.later(300 * MS, "bring", receipt)
            return
        driver.offer(Settle(self.sim.clock.sample(), receipt))
        self.sim.kick()

    # ---- the end ----------------------------------------------------------------------------

    def push_on(self) -> list[int]:
        """Once faults have stopped a sound worker takes all that waits; when leases are over."""
        dues = [lease.until_ns for lease in self.leases.held.values()]
        if self.leases.waiting and not dues:
            self.lease({"who": "w9", "most": 1000, "how": "done"})
        return dues
