"""The deterministic simulator: the product code runs whole, its four ports are replaced.

One heap of (simulated time, seeded tie, job) interleaves clients, ticks, commits, receipts, time,
operators, snapshots, collections, forks, second writers and crashes.
Same plan, same trace hash, on any machine.
When the plan is through, faults stop and work drains; then everything is compared.
"""

# tidy: one run from its first job to the last comparison, in the order of reading.
from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from heapq import heappop, heappush
from typing import Any, Final

from tallystick.errors import DiskFull, JournalCorrupt, NotOwner, SyncFailed
from tallystick.kernel.catalogues import Catalogues
from tallystick.kernel.inputs import Progress, Receipt, Settle
from tallystick.kernel.world import Settings
from tallystick.model.catalogue import Catalogue
from tallystick.model.frames import verify_chain
from tallystick.node.driver import Driver, Ports, Publisher, Ticket
from tallystick.node.jobs import Published
from tallystick.node.points import Points
from tallystick.node.worlds import NewWorld, create_world, open_driver
from tallystick.testing.acts import Acts
from tallystick.testing.bundle import Bundle, Held
from tallystick.testing.check import Ack, Trail, Violation
from tallystick.testing.disk import Killed, SimJournal
from tallystick.testing.draw import draw
from tallystick.testing.plan import Config, Decision, Plan
from tallystick.testing.ports import (
    MS,
    NODE,
    SECOND,
    WORLD,
    Delivery,
    SimClock,
    SimExecutor,
    stream,
)
from tallystick.testing.remote import Workers
from tallystick.testing.scene import Scene
from tallystick.testing.scene_nets import PlayScene
from tallystick.testing.scene_rules import RuleScene
from tallystick.testing.scene_script import ScriptScene
from tallystick.testing.scene_watch import WatchScene
from tallystick.testing.violation import LOOKED
from tallystick.values import canon

JOBS_MAX: Final = 5000
DRAIN_ROUNDS: Final = 40
SCENES: Final[Mapping[str, Callable[[Config], Scene]]] = {
    "nets": PlayScene,
    "rules": RuleScene,
    "script": ScriptScene,
    "watch": WatchScene,
}


# Rare paths: one that a whole night never takes would prove nothing about it.
_SOMETIMES: Final[tuple[tuple[str, Callable[[Any], bool]], ...]] = (
    ("activated at quiescence", lambda r: getattr(r, "mode", "") == "quiescent"),
    ("activation refused", lambda r: getattr(r, "blockers", None) is not None),
    ("attached to a key", lambda r: type(r).__name__ == "IntentAttached"),
    ("cell failed by an unreadable receipt", lambda r: getattr(r, "outcome", "") == "cell_failed"),
    ("late receipt", lambda r: getattr(r, "reason", "") == "late"),
    ("progress delivered", lambda r: type(r).__name__ == "ProgressNoted"),
    ("settled by timeout", lambda r: getattr(r, "status", "") == "timeout"),
    ("suspended by a fault", lambda r: getattr(r, "action", "") == "suspended"),
)


class Detected(Exception):  # noqa: N818 - a good end: damage was found as promised
    """The product has found the damage that the run did to its disk."""


@dataclass(slots=True)
class Outcome:
    """What one run was and found."""

    seed: str
    trace: str = ""
    invariant: str | None = None
    message: str = ""
    detected: str | None = None
    jobs: int = 0
    sim_ns: int = 0
    crashes: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    sometimes: dict[str, int] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)

    def count(self, table: dict[str, int], name: str) -> None:
        """One more of a kind."""
        table[name] = table.get(name, 0) + 1


class Outbox:
    """What a commit lets out: jobs go to executors and workers, and ends are told to both."""

    def __init__(self, sim: Simulation) -> None:
        # Not a kind of publisher: a compiled class cannot be the base of one that is not.
        plain = Publisher(sim.publish)
        self.full = plain.full
        self.publish, self.defer, self.stopped = plain.publish, plain.defer, plain.stopped
        self.answered, self.durable = plain.answered, plain.durable
        self._workers = sim.workers

    def settled(self, world: str, intent: bytes) -> None:
        """A lease of what is over is over."""
        if world == WORLD:
            self._workers.settled(intent)


class Simulation:
    """One run of one plan."""

    def __init__(self, plan: Plan) -> None:
        # tidy: every part of a node and its surroundings is set up once, here.
        self.plan = plan
        self.config = plan.config
        self.scene: Scene = SCENES[plan.config.scene](plan.config)
        self.out = Outcome(plan.seed)
        self.chance = stream(plan.seed, "schedule")
        self.clock = SimClock(plan.seed)
        self.journal = SimJournal(self._nth("flush", "lying"))
        scene = self.scene
        self.outside = SimExecutor(plan.seed, self._nth("outside"), scene.answer, scene.usage)
        self.plain = Settings(catalogues=_catalogues(self.scene.bundles))
        self.points = Points()
        self.points.listener = self._at
        self.kills = [dict(d) for d in plan.decisions if d.get("fault") == "crash"]
        self.kill_next = False
        self.passed: dict[str, int] = {}
        self.workers = Workers(self)
        self.ports = Ports(self.journal, self.clock, Outbox(self), self.points)
        self.trail = Trail(WORLD, self._judged, _executors(self.config.scene), self.plain)
        self.journal.on_append = self._committed
        self.acts = Acts(self)
        self.driver: Driver | None = None
        self.tickets: list[tuple[Ticket, str | None]] = []
        self.heap: list[tuple[int, float, int, str, Any]] = []
        self.count = 0
        self.generation = 0
        self.pumping = False
        self.flushing = False
        self.snapped = 0
        self.damage: str | None = None
        self.checkpoint: tuple[int, bytes] | None = None
        self.digest = sha256()

    def _nth(self, *classes: str) -> dict[int, str]:
        found = [d for d in self.plan.decisions if d.get("fault") in classes]
        return {d["nth"]: d.get("kind", "lying") for d in found}

    # ---- the run ----------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run the plan to its end; what it found is in the outcome."""
        LOOKED.clear()
        try:
            self._play()
        except Violation as why:
            self.out.invariant, self.out.message = why.invariant, why.message
        except Detected as why:
            self.out.detected = str(why)
        except JournalCorrupt as why:
            self._corrupt(why)
        except Exception as why:  # noqa: BLE001 - whatever the product raises is a finding
            last = traceback.extract_tb(why.__traceback__)[-1]
            place = f"{last.filename.rsplit('/', 1)[-1]}:{last.name}"
            self.out.invariant = "crash"
            self.out.message = f"{type(why).__name__} in {place}: {why}"
        self.out.sim_ns = self.clock.steady_ns
        for table in (self.outside.struck, self.journal.struck):
            self.out.faults.update(table)
        self.out.sometimes.update(self.points.seen)
        for name, _ in _SOMETIMES:
            self.out.sometimes.setdefault(name, 0)
        for record in self.trail.records:
            for name, seen in _SOMETIMES:
                self.out.sometimes[name] += seen(record)
        self.out.looked.update(LOOKED)
        self.out.trace = self.digest.hexdigest()
        return self.out

    def _corrupt(self, why: JournalCorrupt) -> None:
        if self.damage is None:
            self.out.invariant, self.out.message = "crash", f"{why.code}: {why}"
        else:
            self.out.detected = f"{self.damage}: {why.code}"

    def _play(self) -> None:
        first = self.scene.bundles[0]
        new = NewWorld(WORLD, first.manifest, first.manifest, dict(first.blobs), NODE.public)
        self._guarded("create", lambda: self._create(new))
        for decision in self.plan.decisions:
            if "at" in decision:
                self.later(decision["at"] - self.clock.steady_ns, "act", decision)
        self.later(SECOND // 10, "wake", None)
        while self.heap and self.heap[0][0] <= self.config.span_ns:
            self._next()
        self._drain()

    def _create(self, new: NewWorld) -> None:
        self.driver = create_world(self.ports, new, self.scene.runner, self._settings())

    def _settings(self) -> Settings:
        # Every start draws another cache: neither size nor spilling may change a root (I20).
        cache = self.config.cell_cache if not self.generation else self.chance.choice((1, 2, 4096))
        return Settings(cache, 8192, self.config.resident_bytes_max, self.plain.catalogues)

    def later(self, after_ns: int, kind: str, what: Any) -> None:
        """Put a job on the heap."""
        self.count += 1
        at = self.clock.steady_ns + max(after_ns, 0)
        heappush(self.heap, (at, self.chance.random(), self.count, kind, what))

    def _next(self) -> None:
        at, _, _, kind, what = heappop(self.heap)
        self.clock.steady_ns = max(at, self.clock.steady_ns)
        self.out.jobs += 1
        if self.out.jobs > JOBS_MAX:
            raise Violation("I42", f"still busy after {JOBS_MAX} jobs")
        job = getattr(self, "_do_" + kind)
        self._guarded(kind, lambda: job(what))

    def _guarded(self, kind: str, job: Any) -> None:
        """Run a job as a process would: what ends it ends the node, and is started again."""
        try:
            job()
            self._die_after()
        except (Killed, SyncFailed, DiskFull, NotOwner) as why:
            self._crash(type(why).__name__)
        self._after(kind)

    def _die_after(self) -> None:
        if self.kill_next:
            raise Killed("after")

    def _after(self, kind: str) -> None:
        waiting = []
        for ticket, idem in self.tickets:
            if ticket.answer is not None:
                answer = ticket.answer
                ack = Ack(answer.kind, answer.seq, answer.event_hash, idem)
                self.trail.check_I5_answer(ack)
            elif ticket.error is None:
                waiting.append((ticket, idem))
        self.tickets = waiting
        driver = self.driver
        seq = -1
        if driver is not None:
            seq = driver.world.seq
            if self.damage is None:
                self.trail.check_I20(driver.world, self.journal)
            self.digest.update(driver.world.head)
        self.digest.update(f"{self.clock.steady_ns} {kind} {seq} {self.trail.seq}\n".encode())

    # ---- ports' other ends ------------------------------------------------------------------

    def _committed(self, batch: Any, epoch: int) -> None:
        if batch.world == WORLD:
            self.trail.commit(batch, epoch)
            for last in batch.frames[-1:]:  # blobs may become durable before the frame they serve
                self.checkpoint = (last.last, last.hash)

    def _judged(self, seq: int, records: Sequence[Any]) -> None:
        self.scene.frame(seq, records, partial(self.journal.blob, WORLD))

    def publish(self, job: Published) -> None:
        """The outbox: an executor takes a job, or it waits for a worker."""
        self.trail.check_I5_job(job)
        if job.effect in self.scene.remote:
            self.workers.take(job)
            return
        for delivery in self.outside.take(job):
            self.later(delivery.after_ns, "deliver", (self.generation, delivery))

    def _at(self, point: str) -> None:
        """A crash point is passed: the process may die here, or right after."""
        if self.outside.calm:
            return
        nth = self.passed.get(point, 0)
        self.passed[point] = nth + 1
        if self.kill_next:
            self.kill_next = False
            raise Killed("after")
        for kill in self.kills:
            if kill["point"] == point and kill["nth"] == nth:
                self.out.count(self.out.points, f"{point}.{kill['side']}")
                if kill["side"] == "before":
                    raise Killed(point)
                self.kill_next = True

    # ---- jobs -------------------------------------------------------------------------------

    def _do_act(self, decision: Decision) -> None:
        if self.driver is None:
            self.later(300 * MS, "act", decision)  # the caller tries again
            return
        self.acts.perform(decision)
        self.kick()

    def kick(self) -> None:
        """Let the node work soon; one that is down works when it has started."""
        if self.driver is not None and not self.pumping:
            self.pumping = True
            self.later(int(self.chance.random() * MS), "pump", self.generation)

    def _do_pump(self, generation: int) -> None:
        driver = self.driver
        if generation != self.generation or driver is None:
            return
        self.pumping = False
        for _ in range(self.config.burst):
            if len(driver.staged) >= self.config.batch:
                driver.flush()
            early = self.chance.random() < 0.3
            if not (driver.tick() if early else False) and not driver.step():
                break
        self._snapshot_if_due(driver)
        if driver.staged and not self.flushing:
            self.flushing = True
            self.later(int(self.chance.random() * self.config.flush_ns), "flush", self.generation)
        if driver.work or driver.ingress or driver.world.ring:
            self.kick()

    def _snapshot_if_due(self, driver: Driver) -> None:
        if driver.world.seq - self.snapped >= self.config.snapshot_every and not driver.world.ring:
            self.snapped = driver.world.seq + 1  # its own record is none of the work
            self.acts.pin()

    def _do_flush(self, generation: int) -> None:
        if generation != self.generation or self.driver is None:
            return
        self.flushing = False
        self.driver.flush()
        self.kick()

    def _do_wake(self, _what: None) -> None:
        step = max(self.config.span_ns // 40, MS)
        self.later(int(step * (0.5 + self.chance.random())), "wake", None)
        self.workers.watch()
        if self.driver is not None and self.driver.settle_due():
            self.kick()

    def _do_bring(self, receipt: Receipt) -> None:
        self.workers.bring(receipt)

    def _do_deliver(self, what: tuple[int, Delivery]) -> None:
        generation, delivery = what
        if generation != self.generation and self.generation % 2:
            return  # this time the executors died with the node
        if self.driver is None:
            self.later(300 * MS, "deliver", what)
            return
        sample = self.clock.sample()
        if delivery.receipt is not None:
            self.driver.offer(Settle(sample, delivery.receipt))
        elif delivery.progress is not None and delivery.job is not None:
            job, (seq, payload) = delivery.job, delivery.progress
            self.driver.offer(
                Progress(sample, job.world, job.intent, job.attempt, seq, "p", payload)
            )
        self.points.at("receipt.enqueued")
        self.kick()

    # ---- dying and coming back --------------------------------------------------------------

    def crash(self, why: str) -> None:
        """Stop the node at once; it is started again later."""
        self._crash(why)

    def _crash(self, why: str) -> None:
        self.out.crashes += 1
        if self.driver is not None and self.driver.staged:
            self.points.sometimes("crash with frames on their way")
        self.out.count(self.out.faults, why)
        self.driver = None
        self.kill_next = False
        self.tickets = []
        self.generation += 1
        self.pumping = self.flushing = False
        self.later(int(self.chance.random() * SECOND), "start", None)

    def _do_start(self, _what: None) -> None:
        if self.driver is not None:
            return
        lied = not self.journal.honest and "lying" in self.journal.struck
        self.journal.restart()
        if lied:
            self.damage = self.damage or "lying"
        if not self.trail.frames:
            first = self.scene.bundles[0]
            new = NewWorld(WORLD, first.manifest, first.manifest, dict(first.blobs), NODE.public)
            self._create(new)
            return
        if self.damage is not None:
            self._find_damage()
        self.trail.check_restart(self.journal)
        driver = open_driver(self.ports, WORLD, self.scene.runner, self._settings())
        self.trail.check_I2(driver.world, self.journal, self.scene.runner)
        self.driver = driver
        self.snapped = driver.world.seq
        self.workers.resume(driver)
        self.kick()

    def _find_damage(self) -> None:
        """A node that keeps a checkpoint elsewhere compares before it opens (F3, F4)."""
        frames = self.journal.read(WORLD)
        found = verify_chain(frames, world=WORLD, upto=self.checkpoint)
        if self.damage == "flip":
            # Opening alone must not fold a damaged tail.
            self._open_damaged()
        if found is not None:
            raise Detected(f"{self.damage}: {found.what} at {found.seq}")
        if self.damage != "lose_blob":
            self.damage = None

    def _open_damaged(self) -> None:
        rows = self.journal.snapshots(WORLD)
        below = rows[-1].seq if rows else 0
        open_driver(self.ports, WORLD, self.scene.runner, self._settings())
        if self.acts.flipped > below:
            raise Violation("I10", f"the damaged frame at {self.acts.flipped} was folded")

    # ---- the end ----------------------------------------------------------------------------

    def _drain(self) -> None:
        """Faults stop, the node is started once more, work runs out; then all is compared."""
        self.outside.calm = self.journal.calm = True
        self.kills = []
        self.clock.thaw()
        self.heap = [job for job in self.heap if job[3] in ("deliver", "bring")]
        if self.driver is not None:
            self._crash("end")
        self.heap = [job for job in self.heap if job[3] != "start"]
        self._do_start(None)
        for _ in range(DRAIN_ROUNDS):
            while self.heap:
                self._next()
            if not self.acts.push_on():
                break
        driver = self.driver
        assert driver is not None, "nothing ends a node once faults have stopped"
        driver.run_until_idle()
        self._after("end")
        self._compare(driver)

    def _compare(self, driver: Driver) -> None:
        trail = self.trail
        trail.check_restart(self.journal)
        trail.check_I2(driver.world, self.journal, self.scene.runner)
        trail.check_I2_snapshots(driver.world, self.journal, self.scene.runner, self.acts.pinned())
        trail.check_I15(self.journal, self.scene.runner)
        self.scene.check_end(driver.world)
        self.acts.check_forks()


_CATALOGUES: Final = Catalogues()


def _catalogues(bundles: Sequence[Bundle]) -> Catalogues:
    """Definitions are compiled once for all runs: what a manifest means is in its hash.

    Those of this run are there before it begins, so that a run does not depend on earlier ones.
    """
    for bundle in bundles:
        _CATALOGUES.load(bundle.manifest, Held(bundle.blobs))
    return _CATALOGUES


@lru_cache(maxsize=len(SCENES))
def _executors(scene: str) -> dict[str, tuple[str, str, str]]:
    """Module, its hash and the entrypoint of each effect: what an intent's id binds."""
    first = SCENES[scene](Config()).bundles[0]

    def node(text: str) -> Any:
        return canon.decode(first.blobs[canon.raw_of(text)])

    catalogue = Catalogue.load(node(canon.text_of(first.manifest)), node)
    return {
        name: (effect.module, effect.module_hash_text, effect.entrypoint)
        for name, effect in catalogue.effects.items()
    }


def simulate(seed: str) -> Outcome:
    """Draw the plan of a seed and run it."""
    return Simulation(draw(seed)).run()
