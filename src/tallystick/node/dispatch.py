"""Dispatch: from a durable intent to an executor, and from its outcome to a receipt (K-04, K-27).

Theory of operation.
Each executor is a lane with slots; what finds no slot waits, by name only once many wait, because
the journal keeps the rest.
An intent is settled exactly once and attempted at least once: the kernel sees to the first, and
here one job has one outcome, whatever its executor does.
Outcomes that end in the same turn of the loop share one seal.
Of jobs that go out together, those that an executor can answer without waiting
(`executors/base.AtOnce`) are answered when they are published, without tasks of their own.
Everything here runs on the io thread.
"""

# tidy: the life of a job from publication to receipt is one story.
from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from tallystick.executors.base import AtOnce, Executor, Failed, Job, Outcome, at_once_of
from tallystick.executors.scrub import ScrubbedBlobs, Scrubber, StreamScrubber
from tallystick.model.tuples import make
from tallystick.node.attempt import RAISED, Shelf, crash_of, job_for, outcome_of
from tallystick.node.driver import Deferred
from tallystick.node.jobs import Published
from tallystick.node.receipts import Ended
from tallystick.values import canon

CARRIED_MAX: Final = 1_000  # waiting intents that are kept whole; more wait by name
CLOSE_S: Final = 10.0  # for one executor to give back what it holds
Key = tuple[str, bytes]


class Sink(Protocol):
    """What dispatch asks of the node."""

    def ended(self, jobs: list[Ended]) -> None:
        """Settle these."""
        ...

    def wanted(self, names: list[Deferred]) -> None:
        """Publish these again, whole, if they are still open."""
        ...

    async def progress(self, job: Published, seq: int, kind: str, payload: Any) -> None:
        """Note a progress frame; waits when the job has no credit."""
        ...

    def has_secrets(self, job: Published) -> bool:
        """True when the params may refer to secrets."""
        ...

    async def secrets(self, job: Published, params: Any) -> dict[str, str] | Failed:
        """The plain values that the params refer to."""
        ...

    def blob(self, world: str, digest: bytes) -> bytes | None:
        """A durable blob."""
        ...

    def now_ns(self) -> int:
        """The node's time."""
        ...

    def backlog(self, waiting: int) -> None:
        """How many intents wait for a slot."""
        ...


@dataclass(slots=True)
class Waiting:
    """An intent that waits for a slot; `job` is None when only its name is kept."""

    name: Deferred
    job: Published | None
    gone: bool = False


@dataclass(slots=True, eq=False)
class Lane:
    """An executor and who waits for it."""

    executor: Executor
    slots: int
    on_restart: str = "repeat"
    at_once: AtOnce | None = None
    running: int = 0
    waiting: deque[Waiting] = field(default_factory=deque)

    @property
    def room(self) -> int:
        """How many slots are free that nobody waits for."""
        return max(0, self.slots - self.running - len(self.waiting))


@dataclass(slots=True)
class Running:
    """A job in the hands of its executor."""

    job: Published
    lane: Lane
    task: asyncio.Task[None] | None = None
    given: Job | None = None
    progress: int = 0
    begun: bool = False


class Dispatch:
    """Lanes of executors; one job per open intent at a time."""

    def __init__(self, sink: Sink, slots: int) -> None:
        self._sink = sink
        self._slots = slots
        self._lanes: dict[str, Lane] = {}
        self._takers: dict[str, Callable[[Published], None]] = {}
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Key, Waiting] = {}
        self._ended: list[Ended] = []
        self._parting: dict[asyncio.Task[None], None] = {}
        self.running: dict[Key, Running] = {}
        self.unserved: dict[Key, Deferred] = {}
        self.on_settled: list[Callable[[str, bytes], None]] = []
        self.stopping = False
        self.shut: set[str] = set()  # worlds whose name means another one now

    # ---- who serves what --------------------------------------------------------------------

    def serve(
        self, executor: Executor, names: Iterable[str] = (), on_restart: str = "repeat"
    ) -> None:
        """Let an executor perform its effects, and whatever asks for these names too."""
        lane = Lane(executor, min(executor.slots, self._slots), on_restart)
        lane.at_once = at_once_of(executor)
        for name in (*sorted(executor.effects), *names):
            self._lanes[name] = lane

    def route(self, name: str, to: str) -> None:
        """Let what asks for a name be performed by the executor that serves another one."""
        self._lanes[name] = self._lanes[to]
        self._takers.pop(name, None)  # whoever would take it otherwise

    def fails_at_restart(self, name: Deferred) -> bool:
        """True when an intent of unknown fate is settled instead of attempted again."""
        lane = self.lane_of(name)
        return lane is not None and lane.on_restart == "fail"

    def divert(self, name: str, take: Callable[[Published], None]) -> None:
        """Let something else than an executor take an effect: asks and remote workers do."""
        self._takers[name] = take

    def is_diverted(self, name: Deferred | Published) -> bool:
        """True for an ask or a pool's job: those make no attempt of their own at a restart."""
        return name.effect in self._takers or name.executor in self._takers

    def lane_of(self, name: Deferred | Published) -> Lane | None:
        """Where an executor of this process performs it; None where another does, or nobody."""
        if self.is_diverted(name):
            return None
        return self._lanes.get(name.effect) or self._lanes.get(name.executor)

    def executors(self) -> list[Executor]:
        """Every executor once."""
        return list({id(lane): lane.executor for lane in self._lanes.values()}.values())

    def serves(self, effect: str, executor: str) -> bool:
        """True when somebody here performs the effect."""
        names = (effect, executor)
        return any(name in self._lanes or name in self._takers for name in names)

    def effects(self) -> list[str]:
        """The effect of every intent that runs, waits for a slot, or is served by nobody."""
        names = [run.job.effect for run in self.running.values()]
        names += [entry.name.effect for entry in self._waiting.values()]
        return names + [name.effect for name in self.unserved.values()]

    def works_for(self, world: str) -> bool:
        """True while a job of a world runs, waits for a slot, or is about to be settled."""
        keys = (*self.running, *self._waiting)
        return any(key[0] == world for key in keys) or any(
            each.job.world == world for each in self._ended
        )

    def at_once(self, job: Published) -> AtOnce | None:
        """How a job is answered without waiting; asked on the kernel's thread, changes nothing."""
        if self.stopping or job.world in self.shut:
            return None
        lane = self.lane_of(job)
        if lane is None or lane.at_once is None or lane.waiting or self._sink.has_secrets(job):
            return None
        return lane.at_once

    # ---- taking -----------------------------------------------------------------------------

    def publish_all(self, jobs: Sequence[Published]) -> None:
        """Publish what one commit let out; what is answered at once is settled together.

        One that went out alone was asked before, if there was time for it (`node/at_once`).
        """
        together = len(jobs) > 1
        for job in jobs:
            self.publish(job, together=together)
        self._flush()

    def publish(self, job: Published, *, together: bool = False) -> None:
        """Start a job, or let it wait; what runs or waits already is left alone."""
        key = (job.world, job.intent)
        running = self.running.get(key)
        if (
            self.stopping
            or job.world in self.shut
            or (running is not None and running.job.attempt == job.attempt)
        ):
            return
        if running is not None:
            self._stop(running)  # only the newer attempt settles, and it may need the slot
        take = self._takers.get(job.effect) or self._takers.get(job.executor)
        if take is not None:
            take(job)
            return
        lane = self._lanes.get(job.effect) or self._lanes.get(job.executor)
        if lane is None:
            self.unserved[key] = Deferred(job.world, job.intent, job.effect, job.executor)
        elif lane.running >= lane.slots:
            self._wait(lane, Deferred(job.world, job.intent, job.effect, job.executor), job)
        elif not (together and self._answered(lane, job)):
            self._start(lane, job)

    def defer(self, name: Deferred) -> None:
        """Let an intent wait by name."""
        if self.stopping:
            return
        lane = self.lane_of(name)
        if lane is None or lane.running < lane.slots:
            self._sink.wanted([name])
        else:
            self._wait(lane, name, None)

    def _wait(self, lane: Lane, name: Deferred, job: Published | None) -> None:
        key = (name.world, name.intent)
        known = self._waiting.get(key)
        if known is not None:
            known.job = job or known.job
            return
        entry = self._waiting[key] = Waiting(name, job)
        lane.waiting.append(entry)
        self._sink.backlog(len(self._waiting))

    def _next(self, lane: Lane) -> None:
        """A slot is free: the first that waits has it."""
        wanted: list[Deferred] = []
        while lane.waiting and lane.running + len(wanted) < lane.slots and not self.stopping:
            entry = lane.waiting.popleft()
            if entry.gone:
                continue
            del self._waiting[entry.name.world, entry.name.intent]
            if entry.job is not None:
                self._start(lane, entry.job)
            else:
                wanted.append(entry.name)
        if wanted:
            self._sink.wanted(wanted)
        self._sink.backlog(len(self._waiting))

    def fetched(self, names: list[Deferred]) -> None:
        """What was wanted has come, or never will: whoever waits behind it may have its slot."""
        for name in names:
            lane = self.lane_of(name)
            if lane is not None and lane.waiting and lane.running < lane.slots:
                self._next(lane)

    def settled(self, world: str, intent: bytes) -> None:
        """An intent is over; whoever still works on it may stop."""
        key = (world, intent)
        entry = self._waiting.pop(key, None)
        if entry is not None:
            entry.gone = True
        self.unserved.pop(key, None)
        for told in self.on_settled:
            told(world, intent)
        running = self.running.get(key)
        if running is not None:
            self._stop(running)

    def lost(self, world: str) -> None:
        """Another node owns the world: nothing here works for it any more."""
        keys = (*self.running, *self._waiting, *self.unserved)
        for key in [key for key in keys if key[0] == world]:
            self.settled(*key)

    # ---- one job ----------------------------------------------------------------------------

    def _answered(self, lane: Lane, job: Published) -> bool:
        """Have a job answered that needs no waiting; False when a task has to perform it."""
        if lane.at_once is None or self._sink.has_secrets(job):
            return False
        shelf = Shelf(job.world, self._sink.blob)
        started_ns = self._sink.now_ns()
        try:
            found = lane.at_once(job_for(job, canon.decode(job.params), shelf))
        except RAISED as why:
            found = crash_of(why)
        if found is None:
            return False
        outcome = outcome_of(found)
        self._end(make(Ended, (job, outcome, started_ns, self._sink.now_ns(), shelf.put_now)))
        return True

    def _start(self, lane: Lane, job: Published) -> None:
        lane.running += 1
        run = self.running[job.world, job.intent] = Running(job, lane)
        run.task = self._loop.create_task(self._run(run))

    async def _run(self, run: Running) -> None:
        job, lane = run.job, run.lane
        run.begun = True
        shelf = Shelf(job.world, self._sink.blob)
        started_ns = self._sink.now_ns()
        outcome: Outcome | None = None
        try:
            outcome = await self._perform(run, shelf)
        except asyncio.CancelledError as why:
            # The intent is over, or the node stops; either way nobody waits for an outcome.
            # An executor whom nobody cancelled has given up by itself: the intent is open.
            task = asyncio.current_task()
            outcome = None if task is None or task.cancelling() else crash_of(why)
        except RAISED as why:
            outcome = crash_of(why)
        finally:
            self._leave(run)
        if outcome is not None:
            self._end(Ended(job, outcome, started_ns, self._sink.now_ns(), shelf.put_now))
            if not self.running:
                self._flush()  # nobody else can end in this turn: a chain does not wait
        if lane.waiting:
            self._next(lane)

    def _leave(self, run: Running) -> None:
        """A job gives its slot back."""
        run.lane.running -= 1
        key = (run.job.world, run.job.intent)
        if self.running.get(key) is run:
            del self.running[key]

    async def _perform(self, run: Running, shelf: Shelf) -> Outcome:
        params = canon.decode(run.job.params)
        if self._sink.has_secrets(run.job):
            return await self._perform_scrubbed(run, shelf, params)
        run.given = job = job_for(run.job, params, shelf)

        async def report(kind: str, payload: Any) -> None:
            await self._progress(run, kind, payload)

        return outcome_of(await run.lane.executor.perform(job, report))

    async def _perform_scrubbed(self, run: Running, shelf: Shelf, params: Any) -> Outcome:
        """Perform a job that is told secrets; nothing of them comes back."""
        secrets = await self._sink.secrets(run.job, params)
        if isinstance(secrets, Failed):
            return secrets
        job = job_for(run.job, params, shelf, secrets)
        scrubber = Scrubber.of(job)
        stream = StreamScrubber(scrubber)
        run.given = job = replace(job, blobs=ScrubbedBlobs(shelf, scrubber))

        async def report(kind: str, payload: Any) -> None:
            # A secret may come in two pieces, so the stream is scrubbed as a whole.
            for frame in stream.feed(kind, payload):
                await self._progress(run, *frame)

        try:
            outcome = outcome_of(await run.lane.executor.perform(job, report))
        except RAISED as why:  # as in `_run`, but what it says is scrubbed too
            outcome = crash_of(why)
        for frame in stream.rest():
            await self._progress(run, *frame)
        return scrubber.outcome(outcome)

    async def _progress(self, run: Running, kind: str, payload: Any) -> None:
        run.progress += 1
        await self._sink.progress(run.job, run.progress, kind, payload)

    def _end(self, ended: Ended) -> None:
        self._ended.append(ended)
        if len(self._ended) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        ended, self._ended = self._ended, []
        if ended:  # a stop may have flushed what the loop was about to
            self._sink.ended(ended)

    # ---- stopping ---------------------------------------------------------------------------

    def _stop(self, run: Running) -> None:
        if run.task is None or run.task.done():
            return
        run.task.cancel()
        if not run.begun:  # cancelled now, its task never comes so far as to leave by itself
            self._leave(run)
            self._next(run.lane)
        if run.given is not None:
            parting = self._loop.create_task(self._part(run.lane.executor, run.given))
            self._parting[parting] = None
            parting.add_done_callback(lambda task: self._parting.pop(task, None))

    async def _part(self, executor: Executor, job: Job) -> None:
        """Tell the outside that nobody waits; best effort, so a failure is of no consequence."""
        try:
            await asyncio.wait_for(executor.cancel(job), 5)
        except Exception:  # noqa: BLE001 - the intent is settled whatever the executor does now
            return

    async def drain(self, seconds: float, grace_s: float = 5.0) -> None:
        """Start nothing more; let what runs end within some seconds, then stop it.

        What does not stop within the grace is left: nobody waits for it any more.
        """
        self.stopping = True
        tasks = [run.task for run in self.running.values() if run.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for run in list(self.running.values()):
            self._stop(run)
        rest = [task for task in (*tasks, *self._parting) if not task.done()]
        if rest:
            await asyncio.wait(rest, timeout=grace_s)
        if self._ended:
            self._flush()

    async def close(self) -> list[str]:
        """Give back what the executors hold; the names of those that did not."""
        kept = []
        for executor in self.executors():
            try:
                await asyncio.wait_for(executor.close(), CLOSE_S)
            except RAISED:  # the node stops, whatever an executor has to say about it
                kept.append(executor.name)
        return kept
