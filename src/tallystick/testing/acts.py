"""Acts: what clients, operators and bad luck do to a running node."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tallystick.errors import NotOwner
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.inputs import Activate, Operate, RevokeKey, TakeSnapshot, TrustKey
from tallystick.kernel.replay import open_world
from tallystick.kernel.roots import root
from tallystick.model.frames import open_frame
from tallystick.node.driver import Driver, Publisher
from tallystick.node.jobs import Published
from tallystick.node.worlds import ForkOrder, fork_world, marks_of, open_driver
from tallystick.testing.acts_rules import RuleActs
from tallystick.testing.check import must
from tallystick.testing.plan import Decision
from tallystick.testing.ports import SECOND_KEY
from tallystick.values import canon

if TYPE_CHECKING:
    from tallystick.testing.simulate import Simulation


class Jobs:
    """An outbox that only remembers."""

    def __init__(self) -> None:
        self.all: list[Published] = []

    def publish(self, job: Published) -> None:
        """Take a job and do nothing."""
        self.all.append(job)


class Acts:
    """The hands of a simulation."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.flipped = 0
        self.swept = False
        self.forks: dict[str, bytes] = {}
        self.children = 0
        self.rules = RuleActs(sim)

    def perform(self, decision: Decision) -> None:
        """Do what a decision says to the running node."""
        if "fault" in decision:
            self.sim.out.count(self.sim.out.faults, decision["fault"])
        name = decision.get("do") or decision["fault"]
        if name == "lease":
            self.sim.workers.lease(decision)
        else:
            (getattr(self, "_" + name, None) or getattr(self.rules, name))(decision)

    def _driver(self) -> Driver:
        assert self.sim.driver is not None, "acts meet a running node"
        return self.sim.driver

    def _offer(self, given: Any, idem: str | None = None) -> None:
        self.sim.tickets.append((self._driver().offer(given), idem))

    # ---- clients and operators --------------------------------------------------------------

    def _send(self, decision: Decision) -> None:
        sample = self.sim.clock.sample()
        for given in self.sim.scene.inputs(decision, sample):
            self._offer(given, decision.get("idem"))

    def _operate(self, decision: Decision) -> None:
        key = canon.encode(decision["key"])
        sample = self.sim.clock.sample()
        verb, force = decision["verb"], decision["force"]
        given = Operate(sample, verb, "alice", "drawn", decision["workflow"], key, force=force)
        self._offer(given)

    def _activate(self, _decision: Decision) -> None:
        world = self._driver().world
        one, other = self.sim.scene.bundles
        to = other if world.manifest == one.manifest else one
        sample = self.sim.clock.sample()
        given = Activate(sample, to.manifest, to.manifest, world.manifest, to.blobs, "alice")
        self._offer(given)

    def _trust(self, _decision: Decision) -> None:
        given = TrustKey(self.sim.clock.sample(), SECOND_KEY.public, ("*",), ("*",), "alice")
        self._offer(given)

    def _revoke(self, _decision: Decision) -> None:
        self._offer(RevokeKey(self.sim.clock.sample(), SECOND_KEY.key_id, "alice", "drawn"))

    def _pin(self, _decision: Decision) -> None:
        self.pin()

    def pin(self) -> None:
        """Ask for a snapshot; it is refused while cells are ready."""
        self._offer(TakeSnapshot(self.sim.clock.sample()))

    def pinned(self) -> int:
        """How many of the newest snapshots can still be opened."""
        return 1 if self.swept else 1 << 20

    def _audit(self, _decision: Decision) -> None:
        """Compare roots in the middle of it, when nothing is on its way."""
        driver = self._driver()
        driver.flush()
        self.sim.trail.check_I2(driver.world, self.sim.journal, self.sim.scene.runner)

    # ---- collection and forks ---------------------------------------------------------------

    def _gc(self, _decision: Decision) -> None:
        driver, sim = self._driver(), self.sim
        keep = marks_of(sim.journal, driver.world)
        sim.points.at("gc.marked")
        world = driver.world.id
        sim.journal.discard(
            world, [name for name, _ in sim.journal.blobs(world) if name not in keep]
        )
        self.swept = True
        sim.points.at("gc.swept")
        sim.trail.check_I21(sim.journal)

    def _fork(self, decision: Decision) -> None:
        sim, driver = self.sim, self._driver()
        parent = driver.world.id
        before = (sim.journal.head(parent), sim.journal.flushes, root(driver.world))
        seq = 1 + int(decision["pick"] * (sim.journal.head(parent).seq - 1))
        # A number of its own for each attempt: one that died half-way keeps its name.
        self.children += 1
        name = sha256(f"{sim.plan.seed} fork {self.children}".encode()).digest()
        child = str(UUID(bytes=name[:16], version=4))
        jobs = Jobs()
        ports = sim.ports._replace(outbox=Publisher(jobs.publish))
        order = ForkOrder(parent, child, seq, decision["pending"])
        forked = fork_world(ports, order, sim.scene.runner, sim.plain)
        if decision["pending"] != "reissue":
            self._check_unasked(forked, jobs)
            forked.resume()
            self._check_unasked(forked, jobs)
        self._check_inherited(forked)
        forked.offer(sim.scene.greeting(sim.clock.sample(), 0))
        forked.run_until_idle()
        self.forks[child] = root(forked.world)
        after = (sim.journal.head(parent), before[1], root(driver.world))
        must(before == after, "I7", "forking changed the parent")

    def _check_unasked(self, forked: Driver, jobs: Jobs) -> None:
        """What a fork inherits it does not run; what its own ticks open is its own."""
        base = self._first(forked).at_seq
        for job in jobs.all:
            intent = forked.world.intents.get(job.intent)
            own = intent is not None and intent.seq > base
            must(own, "I7", "a fork published an inherited intent unasked")

    def _check_inherited(self, forked: Driver) -> None:
        """The fork begins at its parent's root."""
        sim = self.sim
        frames = list(sim.journal.read(forked.world.id))
        first = self._first(forked)
        upto = [f for f in frames if f.last <= first.at_seq]
        blobs = StagedBlobs(sim.journal, first.parent)
        there = open_world(first.parent, upto, blobs, sim.scene.runner, settings=sim.plain)
        must(root(there) == first.root, "I7", "a fork begins at another root than its parent")

    def _first(self, forked: Driver) -> Any:
        """The record that began a fork."""
        name = forked.world.id
        frame = next(f for f in self.sim.journal.read(name) if f.world == name)
        return open_frame(frame.body)[3][0]

    def check_forks(self) -> None:
        """Each fork still folds to the root it had, whatever its parent did since."""
        sim = self.sim
        if "lying" in sim.journal.struck:
            return  # the disk may have lost the fork's own frames
        for child, wanted in self.forks.items():
            blobs = StagedBlobs(sim.journal, child)
            frames = sim.journal.read(child)
            folded = open_world(child, frames, blobs, sim.scene.runner, settings=sim.plain)
            must(root(folded) == wanted, "I7", "a fork changed after it was left alone")

    # ---- bad luck ---------------------------------------------------------------------------

    def _clock(self, decision: Decision) -> None:
        clock = self.sim.clock
        if decision["kind"] == "freeze":
            clock.freeze()
        else:
            clock.thaw()
            clock.jump(decision["by"])

    def _second(self, decision: Decision) -> None:
        """Another node opens the same world; the first does not know yet."""
        sim, deposed = self.sim, self._driver()
        sim.generation += 1
        sim.pumping = sim.flushing = False
        sim.tickets = []
        sim.driver = open_driver(sim.ports, deposed.world.id, sim.scene.runner, sim.plain)
        if decision["write"]:
            sim.workers.resume(sim.driver)
            self._greet(sim.driver, 1)
        self._greet(deposed, 2)
        try:
            deposed.flush()
        except NotOwner:
            # Had it been let through, the check of each commit (I11) would have said so.
            sim.points.sometimes("a deposed writer was fenced")
        if not decision["write"]:
            sim.workers.resume(sim.driver)

    def _greet(self, driver: Driver, ref: int) -> None:
        driver.offer(self.sim.scene.greeting(self.sim.clock.sample(), ref))
        driver.step()

    def _corrupt(self, decision: Decision) -> None:
        """Damage the disk, and start again on it."""
        sim = self.sim
        if not sim.journal.honest:
            return
        self._driver().flush()
        hit = getattr(sim.journal, decision["kind"])(self._driver().world.id, decision["pick"])
        if hit is None:
            return
        sim.damage = decision["kind"]
        if decision["kind"] == "flip":
            self.flipped = hit
        sim.crash(decision["kind"])

    # ---- the end ----------------------------------------------------------------------------

    def push_on(self) -> bool:
        """Move what still waits: time for timers, people for what only they can move."""
        sim, driver = self.sim, self._driver()
        wanted = sim.scene.wanted(sim.clock.sample())
        for given in wanted:
            self._offer(given)
        dues = [*sim.scene.dues(), *sim.workers.push_on()]
        if dues:
            sim.clock.jump(max(max(dues) - sim.clock.wall_ns(), 0))
            driver.settle_due()
            sim.workers.watch()
        if wanted or dues:
            driver.run_until_idle()
        return bool(wanted or dues or sim.heap)
