"""The engine: the kernel's thread, which drives all worlds of a node in turn (04 section 1).

Theory of operation.
Everything that comes to this thread comes through one inbox: tickets of callers, the writer's word
that a commit is durable, and calls that need a world.
A turn of a world handles a few inputs or ticks: accepted work first, then ticks, then new events,
so that work in progress ends under load.
Frames are staged; when no commit is in flight and there is nothing else to do, or enough is staged,
all worlds are cut into one commit (`node/commits.py`).

After a failed sync nothing is released any more and the engine ends (D15).
"""

# tidy: one thread's whole life stands on one page.
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from tallystick.errors import (
    DiskFull,
    JournalCorrupt,
    LaneMissing,
    SyncFailed,
    TallyError,
    Unavailable,
)
from tallystick.kernel.draft import Frame
from tallystick.kernel.inputs import Clock as ClockInput
from tallystick.kernel.inputs import Operate, TakeSnapshot
from tallystick.kernel.settle import CLOCK_MAX
from tallystick.node.at_once import LoneJobs
from tallystick.node.commits import Commits, Ways, Write
from tallystick.node.driver import Driver, Staged, Ticket, awaited_ns, tickets_of
from tallystick.node.hosted import Hosted
from tallystick.node.jobs import Published
from tallystick.node.outlet import Outlet, Parcel
from tallystick.node.snapping import Hands, Snapping
from tallystick.node.watchdog import TickStopped, Watchdog
from tallystick.node.writer import Rhythm, Writer

STAGED_FRAMES_MAX: Final = 4_096
STAGED_BYTES_MAX: Final = 16 * 1024 * 1024
_CLEARED: Final = 64  # ticks before new work while a snapshot is overdue: it needs an idle ring
_ROUNDS: Final = 16
_AGAIN_NS: Final = 200_000_000  # between two looks for bytes that a disk has lost
_BURST: Final = 8  # receipts or ticks of one world before the next world has its turn


class Out(NamedTuple):
    """What the engine tells the io thread, and what it has counted."""

    post: Callable[[Parcel], None]
    ticked: Callable[[str, str, float], None]
    late: Callable[[float], None]


class Engine:
    """One thread, all worlds; other threads only `offer` and `call`."""

    def __init__(self, writer: Writer, rhythm: Rhythm, outlet: Outlet, out: Out) -> None:
        self.worlds: dict[str, Hosted] = {}
        self.outlet = outlet
        self.failed: TallyError | None = None
        self.draining = False  # no timers any more, so nothing begins by itself
        self.asleep = False  # nothing at all begins, until an input comes
        self._rhythm = rhythm
        self._post = out.post
        self._ticked = out.ticked
        self._late = out.late
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._commits = Commits(
            self.worlds, rhythm, Ways(writer, outlet, out.post, self.call, self._perform)
        )
        hands = Hands(self._inbox.empty, self._may_snap, self._handled, self._stop)
        self._snaps = Snapping(self.worlds, rhythm, hands)
        self.lone: LoneJobs | None = None
        self._ended = False
        self._again_ns = 0
        self._watchdog = Watchdog()
        self._kernel_thread = threading.Thread(target=self._run, name="tally-kernel", daemon=True)

    # ---- other threads ----------------------------------------------------------------------

    def start(self) -> None:
        """Begin to turn."""
        self._kernel_thread.start()
        self._watchdog.start(self._kernel_thread)

    def offer(self, hosted: Hosted, tickets: list[Ticket], *, ingress: bool) -> None:
        """Queue tickets of one world, in order."""
        self._inbox.put((hosted, tickets, ingress))

    def look(self, hosted: Hosted, ticket: Ticket) -> None:
        """Queue a question; it goes before all inputs and is answered on a full disk too."""
        self._inbox.put((hosted, ticket))

    def call(self, action: Callable[[], None]) -> None:
        """Run something on this thread, between turns."""
        self._inbox.put(action)

    def break_off(self, why: TallyError) -> None:
        """The journal failed while nobody wrote: end as after a failed commit."""

        def fail() -> None:
            raise why

        self._inbox.put(fail)

    def stop(self) -> None:
        """Commit what is staged, release it, and end."""
        self._inbox.put(self._end)
        self._kernel_thread.join()
        self._watchdog.stop()

    def let_out(self) -> None:
        """Hand on what a call has published; on this thread."""
        self._post(self.outlet.taken())

    def busy(self, world: str) -> bool:
        """True while a world has anything to handle or to make durable; on this thread."""
        hosted = self.worlds.get(world)
        if hosted is None:
            return False
        driver = hosted.driver
        waits = driver.work or driver.ingress or driver.world.ring or driver.staged
        return bool(waits) or self._commits.flight is not None

    def ahead(self, hosted: Hosted) -> list[Staged]:
        """What is decided in a world and not known to be durable, in order; on this thread."""
        return self._commits.ahead(hosted)

    def depth(self) -> int:
        """How many messages wait; a gauge."""
        return self._inbox.qsize()

    # ---- the loop ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ended:
                self._listen()
                self._turns()
                self._flush()
            self._finish()
        except TallyError as why:
            self._fail(why)
        except BaseException as why:
            self._fail(JournalCorrupt(f"the kernel's thread broke: {why!r}", code="node.broken"))
            raise

    def _end(self) -> None:
        self._ended = True

    def _listen(self) -> None:
        """Take every message that waits; sleep for the first when there is nothing to do."""
        inbox = self._inbox
        if self.stopped():
            self._look_again()
        if inbox.empty() and self._idle():
            try:
                self._take(inbox.get(timeout=self._doze_s()))
            except Empty:
                self._pass_time()
                return
        while not inbox.empty():
            self._take(inbox.get_nowait())
        self._pass_time()

    def _take(self, message: Any) -> None:
        if type(message) is not tuple:
            message()
        elif message[0].gone is not None:
            self._turn_away(message, message[0].gone)
            self._post(self.outlet.taken())
        elif len(message) == 2:
            hosted, ticket = message
            hosted.staged_ns = hosted.staged_ns if hosted.driver.staged else time.monotonic_ns()
            if hosted.driver.torn or not self._handled(hosted.driver, ticket):
                self._tell(hosted.driver, ticket)
        else:
            hosted, tickets, ingress = message
            self.asleep = False
            driver = hosted.driver
            if ingress:
                driver.ingress.extend(tickets)
            elif self._commits.disk_full:
                driver.work.extend(self._commits.kept(tickets))
                self._post(self.outlet.taken())
            else:
                driver.work.extend(tickets)

    def _idle(self) -> bool:
        """Nothing to handle, and nothing staged that could be cut now."""
        for hosted in self.worlds.values():
            driver = hosted.driver
            if self._may_turn(hosted):
                return False
            if self._commits.flight is None and (driver.staged or self._snaps.due(hosted)):
                return False
        return True

    def _may_turn(self, hosted: Hosted) -> bool:
        driver = hosted.driver
        if len(driver.staged) >= STAGED_FRAMES_MAX or driver.staged_bytes >= STAGED_BYTES_MAX:
            return False
        if driver.held:
            return False
        if self._commits.disk_full or driver.stopped is not None:
            return bool(driver.ingress)
        ready = driver.world.ring and not (self.asleep or driver.world.frozen)
        if driver.work or ready:
            return True
        return bool(driver.ingress) and not (self.outlet.jammed or hosted.crowded)

    def _turns(self) -> None:
        """Let every world have its turns until a commit is due or somebody knocks."""
        inbox = self._inbox
        for _ in range(_ROUNDS):
            worked = False
            for hosted in list(self.worlds.values()):
                if self._may_turn(hosted):
                    worked = True
                    self._turn(hosted)
            if not worked or not inbox.empty() or self._commits.due():
                return

    def _turn(self, hosted: Hosted) -> None:
        driver = hosted.driver
        if not driver.staged:
            hosted.staged_ns = time.monotonic_ns()
        if self._commits.disk_full:
            self._refuse(hosted, DiskFull("the disk is full; the node only reads"))
            return
        if driver.stopped is not None:
            self._refuse(hosted, driver.stopped)
            return
        if self._snaps.overdue(hosted):
            self._ticks(driver, _CLEARED)
        if not driver.world.ring and self._snaps.overdue(hosted) and self._snaps.take(hosted):
            return
        if driver.work:
            self._work(driver)
        elif driver.world.ring and not driver.world.frozen:
            self._ticks(driver, _BURST)
        elif not hosted.crowded:
            self._admit(hosted)

    def _work(self, driver: Driver) -> None:
        """Handle accepted work; a snapshot somebody asks for waits for what is ready."""
        for _ in range(min(_BURST, len(driver.work))):
            ticket = driver.work.popleft()
            if isinstance(ticket.given, TakeSnapshot) and not driver.world.frozen:
                self._ticks(driver, _CLEARED)
            if driver.stopped is not None or not self._handled(driver, ticket):
                driver.work.appendleft(ticket)
                return

    def _admit(self, hosted: Hosted) -> None:
        """Handle new events, some at a time; a group of tickets goes into one commit."""
        lane = hosted.driver.ingress
        left = _BURST
        hosted.admitted = hosted.driver.landed
        while lane and left > 0:
            more = True
            while more:
                ticket = lane.popleft()
                more = ticket.more
                left -= 1
                hosted.taken += 1
                hosted.taken_bytes += ticket.size
                if not self._handled(hosted.driver, ticket):
                    self._tell(hosted.driver, ticket)

    def _ticks(self, driver: Driver, most: int) -> None:
        while most > 0 and driver.world.ring and driver.stopped is None:
            self._tick(driver)
            most -= 1

    def _tick(self, driver: Driver) -> None:
        """Run one tick under the watchdog; stopped, or without its lane, it suspends its cell."""
        cell = driver.world.ring[0]
        begun = time.perf_counter()
        try:
            with self._watchdog:
                frame = driver.decide()
        except (TickStopped, LaneMissing) as why:
            told = (driver.clock.sample(), "suspend", "node", getattr(why, "code", "watchdog"))
            driver.handle(Ticket(Operate(*told, cell.workflow, cell.key)))
            return
        except JournalCorrupt as why:
            self._stop(driver, why)
            return
        if frame is not None:
            self._ticked(cell.workflow, frame.answer.kind, time.perf_counter() - begun)
            self._stage(driver, frame)

    # ---- time -------------------------------------------------------------------------------

    def _doze_s(self) -> float | None:
        """How long nothing is due; None is for ever."""
        if self._commits.disk_full or self.draining:
            return None
        waits = [_AGAIN_NS] if self.stopped() else []
        for hosted in self.worlds.values():
            wait_ns = self._snaps.wait_ns(hosted)
            if wait_ns is not None:
                waits.append(wait_ns)
            due = None if hosted.driver.stands else awaited_ns(hosted.driver.world)
            if due is not None:
                now = hosted.driver.clock.sample().now_ns
                waits.append(max(due - now, hosted.clock_after_ns - time.monotonic_ns(), 0))
        return min(waits) / 1e9 + 0.0005 if waits else None

    def _pass_time(self) -> None:
        """Tell every world that has something due what time it is."""
        if self._commits.disk_full or self.draining:
            return
        for hosted in self.worlds.values():
            driver = hosted.driver
            due = None if driver.stands else awaited_ns(driver.world)
            if due is None or hosted.clock_after_ns > time.monotonic_ns():
                continue
            sample = driver.clock.sample()
            if max(driver.world.logical_ns + 1, sample.now_ns) >= due:
                before = driver.world.seq
                self._late(max(0, sample.now_ns - due) / 1e9)
                self._handled(driver, Ticket(ClockInput(sample)))
                hosted.staged_ns = hosted.staged_ns or time.monotonic_ns()
                if driver.world.seq - before >= CLOCK_MAX:
                    # Many are overdue, after a long stop: they drain at a bounded rate.
                    pause = CLOCK_MAX * 1_000_000_000 // self._rhythm.catchup_rate
                    hosted.clock_after_ns = time.monotonic_ns() + pause

    # ---- commits ----------------------------------------------------------------------------

    def _may_snap(self, hosted: Hosted) -> bool:
        """Who only came to look writes nothing, nor does anybody else on a full disk."""
        return not (self.asleep or self._commits.disk_full or hosted.driver.stands)

    def _flush(self) -> None:
        """Cut a commit when it is time for one."""
        if self._commits.flight is not None:
            return
        calm = self._inbox.empty() and not any(
            self._may_turn(hosted) for hosted in self.worlds.values()
        )
        if not calm and not self._commits.due():
            return
        if calm:
            for hosted in self.worlds.values():
                # Who waits for what is staged does not wait for a snapshot too.
                idle = not (hosted.driver.staged or hosted.driver.world.ring)
                if idle and self._snaps.due(hosted):
                    self._snaps.take(hosted)
        self._commits.cut(calm=calm)
        self._snaps.prepare()

    def together(self, worlds: list[Hosted], write: Write) -> bool:
        """Make what is staged of some worlds durable by one write; False while a commit flies."""
        return self._commits.together(worlds, write)

    def remove(self, world: str, write: Callable[[], None]) -> bool:
        """Let a world go that `write` removes; False while a commit flies; on this thread."""
        removed = self._commits.remove(world, write)
        self.let_out()
        return removed

    @property
    def read_only(self) -> bool:
        """True while the disk is full."""
        return self._commits.disk_full

    def writable(self) -> None:
        """There is space again; called on this thread."""
        self._commits.disk_full = False

    def _refuse(self, hosted: Hosted, why: TallyError) -> None:
        ticket = hosted.driver.ingress.popleft()
        hosted.taken, hosted.taken_bytes = hosted.taken + 1, hosted.taken_bytes + ticket.size
        self._commits.give_up(ticket, why)
        self._post(self.outlet.taken())

    def _perform(self, job: Published) -> bool:
        """Perform a lone job here if it needs no waiting and nobody knocks."""
        hosted = self.worlds.get(job.world)
        if self.lone is None or hosted is None or self.draining or not self._inbox.empty():
            return False
        ticket = self.lone.perform(job, self._watchdog)
        if ticket is not None:
            hosted.driver.work.append(ticket)
        return ticket is not None

    # ---- damage -----------------------------------------------------------------------------

    def stopped(self) -> list[str]:
        """The worlds that wait for bytes which the disk has lost."""
        return [name for name, hosted in self.worlds.items() if hosted.driver.stopped is not None]

    def _handled(self, driver: Driver, ticket: Ticket) -> bool:
        """Decide about one input; False when the world stopped over it and it is as before."""
        try:
            driver.handle(ticket)
        except JournalCorrupt as why:
            self._stop(driver, why)
            return False
        return True

    def _stage(self, driver: Driver, frame: Frame) -> None:
        try:
            driver.stage(frame)
        except JournalCorrupt as why:
            self._stop(driver, why)

    def _tell(self, driver: Driver, ticket: Ticket) -> None:
        """Tell a caller why its world stopped."""
        assert driver.stopped is not None, "only a stopped world has something to tell"
        self._commits.give_up(ticket, driver.stopped)
        self._post(self.outlet.taken())

    def _stop(self, driver: Driver, why: JournalCorrupt) -> None:
        """This world waits for lost bytes; whoever watches is told."""
        driver.stop(why)
        self._post(self.outlet.taken())
        self._again_ns = time.monotonic_ns() + _AGAIN_NS

    def _look_again(self) -> None:
        """Let every stopped world go on whose bytes are back."""
        if time.monotonic_ns() < self._again_ns:
            return
        self._again_ns = time.monotonic_ns() + _AGAIN_NS
        for name in self.stopped():
            hosted = self.worlds[name]
            if hosted.driver.staged or self._commits.flight is not None:
                continue
            try:
                hosted.mend()
            except JournalCorrupt as why:
                self._stop(hosted.driver, why)
            if hosted.driver.stopped is None:
                self.outlet.now.stopped.append((name, None))
            self._post(self.outlet.taken())

    # ---- the end ----------------------------------------------------------------------------

    def _finish(self) -> None:
        """The last commit: what is staged becomes durable; what only waits is refused."""
        while self._commits.flight is not None:
            self._take(self._inbox.get())
        self._commits.cut(calm=True)
        self._refuse_all(Unavailable("the node is stopping", code="node.stopping"))

    def _fail(self, why: TallyError) -> None:
        """Nothing is durable any more: nothing is let out, every caller is told (D15)."""
        self.failed = why
        cuts, self._commits.flight = self._commits.flight or [], None
        told = SyncFailed(why.message, code=why.code) if why.exit_code != 3 else why
        for _, cut in cuts:
            for each in cut.batch:
                if each.ticket is not None:
                    self._commits.give_up(each.ticket, told)
        self._refuse_all(told)

    def _refuse_all(self, why: TallyError) -> None:
        while not self._inbox.empty():
            message = self._inbox.get_nowait()
            if type(message) is tuple:
                self._turn_away(message, why)
        for hosted in self.worlds.values():
            for ticket in tickets_of(hosted.driver, None):
                self._commits.give_up(ticket, why)
        self._post(self.outlet.taken())

    def _turn_away(self, message: Any, why: TallyError) -> None:
        """Refuse what somebody brought for a world."""
        for ticket in message[1] if len(message) == 3 else [message[1]]:
            self._commits.give_up(ticket, why)
