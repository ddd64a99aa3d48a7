"""The engine: the kernel's thread, which drives all worlds of a node in turn (04 section 1).

Theory of operation.
Everything that comes to this thread comes through one inbox: tickets of callers, the writer's word
that a commit is durable, and calls that need a world.
A turn of a world handles a few inputs or ticks: accepted work first, then ticks, then new events,
so that work in progress ends under load.
Frames are staged; when no commit is in flight and there is nothing else to do, or enough is staged,
all worlds are cut into one commit.
While it syncs, the next one is computed.
What a commit lets out is gathered in one `Parcel` and handed to the io thread in one go.

After a failed sync nothing is released any more and the engine ends (D15).
After a full disk, what ran ahead is thrown away and the worlds are opened again from the disk.
"""

# tidy: one thread's whole life stands on one page.
from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from tallystick.errors import (
    DiskFull,
    JournalCorrupt,
    LaneMissing,
    NotOwner,
    SyncFailed,
    TallyError,
    Unavailable,
)
from tallystick.journal.base import Ambiguous, Append, Fenced, Full, Head, Outcome
from tallystick.kernel.inputs import Clock as ClockInput
from tallystick.kernel.inputs import Operate, TakeSnapshot
from tallystick.kernel.settle import CLOCK_MAX
from tallystick.node.driver import Cut, Driver, Staged, Ticket, awaited_ns, tickets_of
from tallystick.node.outlet import Outlet, Parcel
from tallystick.node.watchdog import TickStopped, Watchdog
from tallystick.node.writer import Pace, Writer

STAGED_FRAMES_MAX: Final = 4_096
STAGED_BYTES_MAX: Final = 16 * 1024 * 1024
_OVERDUE: Final = 8  # a snapshot waits for calm, but not for ever
_ROUNDS: Final = 16
Write = Callable[[list[Append]], list[Outcome]]
_BURST: Final = 8  # receipts or ticks of one world before the next world has its turn


class Out(NamedTuple):
    """What the engine tells the io thread, and what it has counted."""

    post: Callable[[Parcel], None]
    ticked: Callable[[str, str, float], None]
    late: Callable[[float], None]


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


class Engine:
    """One thread, all worlds; other threads only `offer` and `call`."""

    def __init__(self, writer: Writer, pace: Pace, outlet: Outlet, out: Out) -> None:
        self.worlds: dict[str, Hosted] = {}
        self.outlet = outlet
        self.failed: TallyError | None = None
        self.read_only = False
        self.draining = False  # no timers any more, so nothing begins by itself
        self.asleep = False  # nothing at all begins, until an input comes
        self._writer = writer
        self._pace = pace
        self._post = out.post
        self._ticked = out.ticked
        self._late = out.late
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._flight: list[tuple[Hosted, Cut]] | None = None
        self._ended = False
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
        return bool(waits) or self._flight is not None

    def ahead(self, hosted: Hosted) -> list[Staged]:
        """What is decided in a world and not known to be durable, in order; on this thread."""
        flown = [each for other, cut in self._flight or () if other is hosted for each in cut.batch]
        return [*flown, *hosted.driver.staged]

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
        elif len(message) == 2:
            hosted, ticket = message
            hosted.staged_ns = hosted.staged_ns if hosted.driver.staged else time.monotonic_ns()
            hosted.driver.handle(ticket)
        else:
            hosted, tickets, ingress = message
            self.asleep = False
            driver = hosted.driver
            (driver.ingress if ingress else driver.work).extend(tickets)

    def _idle(self) -> bool:
        """Nothing to handle, and nothing staged that could be cut now."""
        for hosted in self.worlds.values():
            driver = hosted.driver
            if self._may_turn(driver) or (driver.staged and self._flight is None):
                return False
        return True

    def _may_turn(self, driver: Driver) -> bool:
        if len(driver.staged) >= STAGED_FRAMES_MAX or driver.staged_bytes >= STAGED_BYTES_MAX:
            return False
        if self.read_only:
            return bool(driver.ingress)
        ready = driver.world.ring and not (self.asleep or driver.world.frozen)
        return bool(driver.work or ready or (driver.ingress and not self.outlet.jammed))

    def _turns(self) -> None:
        """Let every world have its turns until a commit is due or somebody knocks."""
        inbox = self._inbox
        for _ in range(_ROUNDS):
            worked = False
            for hosted in list(self.worlds.values()):
                if self._may_turn(hosted.driver):
                    worked = True
                    self._turn(hosted)
            if not worked or not inbox.empty() or self._due():
                return

    def _turn(self, hosted: Hosted) -> None:
        driver = hosted.driver
        if not driver.staged:
            hosted.staged_ns = time.monotonic_ns()
        if self.read_only:
            self._refuse(driver.ingress.popleft(), hosted)
        elif driver.work:
            for _ in range(min(_BURST, len(driver.work))):
                driver.handle(driver.work.popleft())
        elif driver.world.ring and not driver.world.frozen:
            for _ in range(min(_BURST, len(driver.world.ring))):
                self._tick(driver)
        elif self._snapshot_due(hosted):
            self._snapshot(hosted)
        else:
            self._admit(hosted)

    def _admit(self, hosted: Hosted) -> None:
        """Handle new events; a group of tickets goes into one commit."""
        lane = hosted.driver.ingress
        more = True
        while more:
            ticket = lane.popleft()
            more = ticket.more
            hosted.taken += 1
            hosted.taken_bytes += ticket.size
            hosted.driver.handle(ticket)

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
        if frame is not None:
            self._ticked(cell.workflow, frame.answer.kind, time.perf_counter() - begun)
            driver.stage(frame)

    # ---- time -------------------------------------------------------------------------------

    def _doze_s(self) -> float | None:
        """How long nothing is due; None is for ever."""
        if self.read_only or self.draining:
            return None
        waits = []
        for hosted in self.worlds.values():
            due = awaited_ns(hosted.driver.world)
            if due is not None:
                now = hosted.driver.clock.sample().now_ns
                waits.append(max(due - now, hosted.clock_after_ns - time.monotonic_ns(), 0))
        return min(waits) / 1e9 + 0.0005 if waits else None

    def _pass_time(self) -> None:
        """Tell every world that has something due what time it is."""
        if self.read_only or self.draining:
            return
        for hosted in self.worlds.values():
            driver = hosted.driver
            due = awaited_ns(driver.world)
            if due is None or hosted.clock_after_ns > time.monotonic_ns():
                continue
            sample = driver.clock.sample()
            if max(driver.world.logical_ns + 1, sample.now_ns) >= due:
                before = driver.world.seq
                self._late(max(0, sample.now_ns - due) / 1e9)
                driver.handle(Ticket(ClockInput(sample)))
                hosted.staged_ns = hosted.staged_ns or time.monotonic_ns()
                if driver.world.seq - before >= CLOCK_MAX:
                    # Many are overdue, after a long stop: they drain at a bounded rate.
                    pause = CLOCK_MAX * 1_000_000_000 // self._pace.catchup_rate
                    hosted.clock_after_ns = time.monotonic_ns() + pause

    # ---- snapshots --------------------------------------------------------------------------

    def _snapshot_due(self, hosted: Hosted) -> bool:
        since, every = hosted.driver.world.seq - hosted.snapped, self._pace.snapshot_every
        if since < every:
            return False
        return since >= every * _OVERDUE or (not hosted.driver.ingress and self._inbox.empty())

    def _snapshot(self, hosted: Hosted) -> None:
        hosted.driver.handle(Ticket(TakeSnapshot(hosted.driver.clock.sample())))
        hosted.snapped = hosted.driver.world.seq
        gc.collect(1)

    # ---- commits ----------------------------------------------------------------------------

    def _due(self) -> bool:
        """True when enough is staged for a commit and none is in flight."""
        if self._flight is not None:
            return False
        frames = size = 0
        now = time.monotonic_ns()
        for hosted in self.worlds.values():
            driver = hosted.driver
            if driver.staged:
                frames += len(driver.staged)
                size += driver.staged_bytes
                if now - hosted.staged_ns >= self._pace.max_wait_ns:
                    return True
        return frames >= self._pace.max_frames or size >= self._pace.max_bytes

    def _flush(self) -> None:
        """Cut a commit when it is time for one."""
        if self._flight is not None:
            return
        calm = self._inbox.empty() and not any(
            self._may_turn(hosted.driver) for hosted in self.worlds.values()
        )
        if not calm and not self._due():
            return
        cuts: list[tuple[Hosted, Cut]] = []
        for hosted in self.worlds.values():
            if calm and self._snapshot_due(hosted) and not hosted.driver.world.ring:
                self._snapshot(hosted)
            cut = hosted.driver.cut()
            if cut is not None:
                cuts.append((hosted, cut))
        if cuts:
            self._commit(cuts, calm=calm)

    def _commit(self, cuts: list[tuple[Hosted, Cut]], *, calm: bool) -> None:
        batch = [cut.append for _, cut in cuts if cut.append is not None]
        if not batch:
            self._committed(cuts, [])
            return
        self._flight = cuts  # if it fails, its callers are told with everybody else
        if calm or self._writer.is_quick:
            outcomes = self._writer.commit(batch)
            self._flight = None
            self._committed(cuts, outcomes)
        else:
            self._writer.submit(batch, self._told)

    def together(self, worlds: list[Hosted], write: Write) -> bool:
        """Make what is staged of some worlds durable by one write; False while a commit flies."""
        if self._flight is not None:
            return False
        cuts = [(h, cut) for h in worlds if (cut := h.driver.cut()) is not None]
        self._committed(cuts, write([cut.append for _, cut in cuts if cut.append is not None]))
        return True

    def _told(self, outcomes: list[Outcome] | TallyError) -> None:
        """Called on the writer's thread: the commit in flight has landed, or failed."""

        def landed() -> None:
            cuts, self._flight = self._flight, None
            assert cuts is not None, "one commit is in flight at a time"
            if isinstance(outcomes, TallyError):
                self._flight = cuts  # its callers are told with everybody else
                raise outcomes
            self._committed(cuts, outcomes)

        self._inbox.put(landed)

    def _committed(self, cuts: list[tuple[Hosted, Cut]], outcomes: list[Outcome]) -> None:
        told = iter(outcomes)
        full: list[tuple[Hosted, Cut]] = []
        for hosted, cut in cuts:
            outcome = None if cut.append is None else self._settled(hosted, cut, next(told))
            if isinstance(outcome, Fenced):
                self._lose(hosted, cut)
            elif isinstance(outcome, Full):
                full.append((hosted, cut))
            else:
                if any(each.frame.snapshot is not None for each in cut.batch):
                    self.outlet.now.snapshots.append(hosted.driver.world.id)
                hosted.driver.committed(cut, outcome)
        if full:
            self._filled(full)
        self._post(self.outlet.taken())

    def _settled(self, hosted: Hosted, cut: Cut, outcome: Outcome) -> Head | Fenced | Full:
        """An ambiguous commit is read back: ours, still to be sent, or another's."""
        if not isinstance(outcome, Ambiguous):
            return outcome
        assert cut.append is not None, "only what was appended can be ambiguous"
        head = hosted.driver.journal.head(cut.append.world)
        if head.hash == cut.append.frames[-1].hash:
            return head
        if head.hash == cut.append.expect.hash:
            (again,) = self._writer.commit([cut.append])
            return again if isinstance(again, Head | Full) else Fenced(head)
        return Fenced(head)

    # ---- what can go wrong ------------------------------------------------------------------

    def _lose(self, hosted: Hosted, cut: Cut) -> None:
        """Another writer owns the world: drop it, tell everyone, never retry."""
        world = hosted.driver.world.id
        why = NotOwner(f"another writer owns world {world}", where={"world": world})
        self.worlds.pop(world, None)
        for ticket in tickets_of(hosted.driver, cut):
            self._give_up(ticket, why)
        self.outlet.now.lost.append(world)

    def _filled(self, full: list[tuple[Hosted, Cut]]) -> None:
        """The disk is full: what ran ahead is thrown away; work that came back waits."""
        self.read_only = True
        why = DiskFull("the disk is full; nothing of this was written")
        for hosted, cut in full:
            old = hosted.driver
            hosted.driver = hosted.reopen(old.head)
            hosted.snapped = hosted.driver.world.seq
            for each in [*cut.batch, *old.staged]:
                if each.ticket is not None:
                    self._keep_or_refuse(each.ticket, hosted.driver, why)
            hosted.driver.work.extend(old.work)
            hosted.driver.ingress.extend(old.ingress)

    def _keep_or_refuse(self, ticket: Ticket, driver: Driver, why: TallyError) -> None:
        if ticket.keep:
            driver.work.append(ticket)
        else:
            self._give_up(ticket, why)

    def writable(self) -> None:
        """There is space again; called on this thread."""
        self.read_only = False

    def _refuse(self, ticket: Ticket, hosted: Hosted) -> None:
        hosted.taken, hosted.taken_bytes = hosted.taken + 1, hosted.taken_bytes + ticket.size
        self._give_up(ticket, DiskFull("the disk is full; the node only reads"))
        self._post(self.outlet.taken())

    def _give_up(self, ticket: Ticket, why: Exception) -> None:
        ticket.error = why
        self.outlet.answered(ticket)

    def _finish(self) -> None:
        """The last commit: what is staged becomes durable; what only waits is refused."""
        while self._flight is not None:
            self._take(self._inbox.get())
        cuts = [(h, cut) for h in self.worlds.values() if (cut := h.driver.cut()) is not None]
        if cuts:
            self._commit(cuts, calm=True)
        self._refuse_all(Unavailable("the node is stopping", code="node.stopping"))

    def _fail(self, why: TallyError) -> None:
        """Nothing is durable any more: nothing is let out, every caller is told (D15)."""
        self.failed = why
        cuts, self._flight = self._flight or [], None
        told = SyncFailed(why.message, code=why.code) if why.exit_code != 3 else why
        for _, cut in cuts:
            for each in cut.batch:
                if each.ticket is not None:
                    self._give_up(each.ticket, told)
        self._refuse_all(told)

    def _refuse_all(self, why: TallyError) -> None:
        while not self._inbox.empty():
            message = self._inbox.get_nowait()
            if type(message) is tuple:
                for ticket in message[1] if len(message) == 3 else [message[1]]:
                    self._give_up(ticket, why)
        for hosted in self.worlds.values():
            for ticket in tickets_of(hosted.driver, None):
                self._give_up(ticket, why)
        self._post(self.outlet.taken())
