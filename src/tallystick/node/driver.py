"""The driver: feeds inputs to the kernel and lets nothing out before it is durable (K-25, K-26).

Theory of operation.
An input becomes a frame, the frame is folded at once and staged; many staged frames share one
commit.
The world in memory so runs ahead of the journal, and only the kernel may see it.
`cut` takes what is staged as one part of a commit, `committed` is told that it is durable.
`release` is the only place that answers callers, publishes intents, feeds readers and promotes
snapshots, and it is called for frames that the journal has confirmed.
If the journal refuses, what ran ahead is thrown away: the durable head is the truth.

The driver is synchronous and starts no thread; `node/engine` calls it from one.
"""

# tidy: the loop from inbox to release is the walk itself.
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from tallystick.errors import DiskFull, JournalCorrupt, NotOwner, TallyError
from tallystick.journal.base import Append, Appender, Full, Head, Outcome, SnapshotRow
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel import snapshot
from tallystick.kernel.draft import Answer, Frame
from tallystick.kernel.inputs import Clock as ClockInput
from tallystick.kernel.inputs import Input, Operate, Submit, TakeSnapshot
from tallystick.kernel.machine import accept, advance, submit
from tallystick.kernel.parts import KERNEL, Intent
from tallystick.kernel.settle import next_due_ns
from tallystick.kernel.world import World
from tallystick.model.frames import Sealed
from tallystick.model.tuples import make
from tallystick.node.clock import Clock
from tallystick.node.jobs import Published, job_of
from tallystick.node.points import Points
from tallystick.values import canon

CLEANED: Final = 64  # entries of a store that a snapshot has made clean leave memory at a time


class Deferred(NamedTuple):
    """The name of an open intent that waits for a free executor; the journal keeps the rest."""

    world: str
    intent: bytes
    effect: str
    executor: str


class Look(NamedTuple):
    """A question to the live world: computed by the kernel's thread, changes nothing.

    Its answer waits like any other for what it saw to be durable.
    """

    ask: Callable[[World], Any]


class Waiter(Protocol):
    """Whoever offered an input and is told once it is durable, or that it never will be."""

    def told(self, ticket: Ticket) -> None:
        """The ticket has its answer or its error."""
        ...


class Ticket:
    """An input on its way, and in the end its answer.

    `more` says that the next ticket of the lane belongs to the same commit, `keep` that it waits
    where a full disk refuses others, `blobs` what becomes durable with it.
    """

    __slots__ = ("answer", "blobs", "error", "given", "keep", "more", "size", "waiter")

    def __init__(self, given: Input | Look, waiter: Waiter | None = None) -> None:
        self.given = given
        self.waiter = waiter
        self.more = False
        self.keep = False
        self.size = 0
        self.blobs: Mapping[bytes, bytes] | None = None
        self.answer: Answer | None = None
        self.error: Exception | None = None

    @property
    def done(self) -> bool:
        """True once the caller may be told."""
        return self.answer is not None or self.error is not None


class Outbox(Protocol):
    """Where a durable batch goes: the outside, seen from the driver."""

    @property
    def full(self) -> bool:
        """True while no executor could start a job: intents are then only named, not carried."""
        ...

    def publish(self, job: Published) -> None:
        """Take an intent; idempotent by (intent, attempt)."""
        ...

    def defer(self, name: Deferred) -> None:
        """Remember the name of an open intent for later; it is durable."""
        ...

    def stopped(self, world: str, why: TallyError) -> None:
        """A world decides nothing until the disk has again what it lost."""
        ...

    def settled(self, world: str, intent: bytes) -> None:
        """An intent has its terminal outcome, from whomever."""
        ...

    def answered(self, ticket: Ticket) -> None:
        """A caller may be told."""
        ...

    def durable(self, world: str, frames: Sequence[Sealed], head: Head) -> None:
        """These frames may be read by anyone."""
        ...


class Publisher:
    """An outbox that only hands on intents, at once: for a driver without threads around it."""

    full = False

    def __init__(self, take: Callable[[Published], None]) -> None:
        self._take = take

    def publish(self, job: Published) -> None:
        """Hand on an intent."""
        self._take(job)

    def defer(self, name: Deferred) -> None:
        """Never asked for: this outbox is never full."""
        raise AssertionError(name)

    def stopped(self, world: str, why: TallyError) -> None:
        """Nobody would look again: whoever drives is told at once."""
        del world
        raise why

    def settled(self, world: str, intent: bytes) -> None:
        """Nobody runs who would have to stop."""

    def answered(self, ticket: Ticket) -> None:
        """The caller looks at its ticket itself."""

    def durable(self, world: str, frames: Sequence[Sealed], head: Head) -> None:
        """Readers look at the journal themselves."""


class Staged(NamedTuple):
    """One decision that waits for its commit."""

    frame: Frame
    sealed: Sealed | None
    ticket: Ticket | None


class Cut(NamedTuple):
    """What one world adds to a commit; `append` is None when nothing of it has to be written."""

    batch: list[Staged]
    append: Append | None
    blobs: dict[bytes, bytes]


class Ports(NamedTuple):
    """What a driver is given of the outside: storage, time, and where intents go."""

    journal: Appender
    clock: Clock
    outbox: Outbox
    points: Points


class Driver:
    """One world, its journal and its outbox."""

    def __init__(self, world: World, ports: Ports, blobs: StagedBlobs, head: Head) -> None:
        self.world = world
        self.ports = ports
        self.journal = ports.journal
        self.blobs = blobs
        self.head = head
        self.clock = ports.clock
        self.outbox = ports.outbox
        self.points = ports.points
        self.work: deque[Ticket] = deque()
        self.ingress: deque[Ticket] = deque()
        self.staged: list[Staged] = []
        self.staged_bytes = 0
        self.landed = 0  # cuts that are durable
        self.held = False  # what comes waits, and nothing begins, until its holder lets go
        self.stopped: TallyError | None = None  # the disk lost what the next decision needs
        self.unsent: dict[bytes, None] = {}  # open intents that wait for bytes the disk has lost
        self.torn = False  # it lost it amid a fold: the world in memory is no state of the journal

    @property
    def stands(self) -> bool:
        """True while nothing begins by itself."""
        return self.held or self.stopped is not None

    # ---- taking -----------------------------------------------------------------------------

    def offer(self, given: Input) -> Ticket:
        """Queue an input; accepted work goes before new events."""
        ticket = Ticket(given)
        (self.ingress if isinstance(given, Submit) else self.work).append(ticket)
        return ticket

    def step(self) -> bool:
        """Handle one input or one tick and stage its frame; False when there is nothing to do."""
        queue = self.work or self.ingress
        if queue:
            self.handle(queue.popleft())
            return True
        return self.tick()

    def tick(self) -> bool:
        """Run one tick even when inputs wait, so that a flood cannot starve accepted work."""
        frame = self.decide()
        if frame is None:
            return False
        self.stage(frame)
        return True

    def decide(self) -> Frame | None:
        """Run the next tick and keep nothing of it yet; None when no cell is ready."""
        return advance(self.world)

    def handle(self, ticket: Ticket) -> None:
        """Decide about one input; a refusal is staged too, for it may rest on staged frames."""
        self.points.at("inbox.taken")
        given = ticket.given
        if ticket.blobs:
            for digest, data in ticket.blobs.items():
                self.blobs.put(digest, data)
        try:
            frame = (
                _looked(self.world, given) if isinstance(given, Look) else submit(self.world, given)
            )
        except TallyError as why:
            if why.exit_code == 4 and not isinstance(given, Look):
                raise
            self.staged.append(Staged(_refused(self.world, why), None, ticket))
            return
        self.stage(frame, ticket)

    def stage(self, frame: Frame, ticket: Ticket | None = None) -> None:
        """Fold a decided frame and keep it for the next commit."""
        self.points.at("frame.built")
        try:
            sealed = accept(self.world, frame)
        except TallyError:
            self.torn = True
            raise
        self.points.at("frame.folded")
        self.staged.append(make(Staged, (frame, sealed, ticket)))
        if sealed is not None:
            self.staged_bytes += len(sealed.body)

    # ---- durability -------------------------------------------------------------------------

    def cut(self) -> Cut | None:
        """Take everything staged as this world's part of one commit; None if there is nothing."""
        if not (self.staged or self.blobs.waiting()):
            return None
        batch, self.staged, self.staged_bytes = self.staged, [], 0
        frames = [each.sealed for each in batch if each.sealed is not None]
        if not (frames or self.blobs.waiting()):
            return Cut(batch, None, {})
        rows = _snapshots(batch)
        blobs = self.blobs.taken(len(frames), whole=bool(rows))
        return Cut(batch, Append(self.world.id, frames, self.head, blobs, rows), blobs)

    def committed(self, cut: Cut, head: Head | None) -> None:
        """A cut is durable: the head has moved to `head`; let out what that allows."""
        self.landed += 1
        if head is not None:
            self.points.at("journal.flushed")
            self.head = head
            self.blobs.forget(cut.blobs)
        self.release(cut)

    def flush(self) -> bool:
        """Make everything staged durable in one commit, then release it; False if none was."""
        cut = self.cut()
        if cut is None:
            return False
        head: Head | None = None
        if cut.append is not None:
            self.points.at("journal.appended")
            (outcome,) = self.journal.append(cut.append)
            head = _durable(self.world.id, outcome)
        self.committed(cut, head)
        snapshot.clean(self.world, CLEANED)
        return True

    def release(self, cut: Cut) -> None:
        """Let out what a durable cut allows: answers, intents, frames, clean snapshots."""
        outbox, world = self.outbox, self.world.id
        for frame, _, ticket in cut.batch:
            if frame.snapshot is not None:
                self.points.at("snapshot.written")
                snapshot.promote(self.world, frame.snapshot)
                self.points.at("snapshot.promoted")
            if ticket is not None:
                if frame.answer.kind == "error":
                    ticket.error = frame.answer.detail
                else:
                    ticket.answer = frame.answer
                outbox.answered(ticket)
            for ident in frame.settled:
                outbox.settled(world, ident)
            for ident in frame.opened:
                self.publish(ident)
        if cut.append is not None and cut.append.frames:
            outbox.durable(world, cut.append.frames, self.head)

    def publish(self, ident: bytes, *, wanted: bool = False) -> None:
        """Hand an open intent to the outbox, unless it is held or the kernel's own.

        A full outbox is only told its name, but for one that was `wanted` by name.
        One of which the disk has lost something stops its world, and goes out once that is back.
        """
        try:
            intent = self.world.intents.get(ident)
            if intent is None or intent.hold is not None or kernel_owned(intent):
                return
            if self.world.synthetic or self.world.frozen:
                return  # a what-if and a world that lost its name let nothing out
            self.points.at("intent.dispatched")
            if self.outbox.full and not wanted:
                record = intent.record
                self.outbox.defer(Deferred(self.world.id, ident, record.effect, record.executor))
            else:
                self.outbox.publish(job_of(self.world, self.blobs, ident, intent))
        except JournalCorrupt as why:
            self.unsent[ident] = None
            self.stop(why)

    def publish_unsent(self) -> None:
        """Try again to let out what the disk had lost something of."""
        unsent, self.unsent = self.unsent, {}
        for ident in unsent:
            self.publish(ident)

    def stop(self, why: JournalCorrupt) -> None:
        """The disk has lost bytes: nothing is decided here until they are back (F4)."""
        if self.stopped is None:
            self.outbox.stopped(self.world.id, why)
        self.stopped = why

    # ---- conveniences -----------------------------------------------------------------------

    def settle_due(self) -> bool:
        """Queue a Clock input when something is due at the clock's time; False otherwise."""
        due = next_due_ns(self.world)
        if due is None:
            return False
        sample = self.clock.sample()
        if max(self.world.logical_ns + 1, sample.now_ns) < due:
            return False
        self.offer(ClockInput(sample))
        return True

    def run_until_idle(self, batch: int = 256) -> None:
        """Handle everything that is queued or ready, in commits of at most `batch` frames."""
        while True:
            worked = self.step()
            if len(self.staged) >= batch or not worked:
                flushed = self.flush()
                if not worked and not flushed and not (self.work or self.ingress):
                    return

    def snapshot(self) -> Ticket:
        """Take a snapshot once nothing is ready."""
        self.run_until_idle()
        ticket = self.offer(TakeSnapshot(self.clock.sample()))
        self.run_until_idle()
        while snapshot.clean(self.world, CLEANED):
            pass
        return ticket

    def resume(self) -> None:
        """After opening: attempt every open intent again, in the order they were opened.

        Whether the outside was touched before the crash cannot be known, so each attempt is
        journaled before it is published.
        """
        for name in unfinished(self.world):
            sample = self.clock.sample()
            self.offer(Operate(sample, "attempt", "node", "restart", intent=name.intent))
        self.run_until_idle()


def unfinished(world: World) -> list[Deferred]:
    """The open intents that an executor owes an outcome, in the order they were opened.

    Nobody owes a what-if anything, nor a world whose name means another one now.
    """
    if world.synthetic or world.frozen:
        return []
    found = [
        (intent.seq, path, intent.record.effect, intent.record.executor)
        for path, intent in world.intents.entries()
        if not kernel_owned(intent) and intent.hold is None
    ]
    return [Deferred(world.id, path, *served) for _, path, *served in sorted(found)]


def awaited_ns(world: World) -> int | None:
    """When time has to be told to a world; a what-if stands where its inputs ended."""
    return None if world.synthetic or world.frozen else next_due_ns(world)


def tickets_of(driver: Driver, cut: Cut | None) -> list[Ticket]:
    """Everyone who waits for something of a world."""
    staged = [*([] if cut is None else cut.batch), *driver.staged]
    found = [each.ticket for each in staged if each.ticket is not None]
    return [*found, *driver.work, *driver.ingress]


def kernel_owned(intent: Intent) -> bool:
    """Timers and internal effects are settled by the kernel; no executor sees them."""
    return intent.record.effect in _KERNEL_EFFECTS or intent.record.executor == KERNEL


_KERNEL_EFFECTS = frozenset({"sys/timer.set@1", "sys/workflow.spawn@1", "sys/workflow.call@1"})


def _looked(world: World, look: Look) -> Frame:
    return Frame((), (), (), {}, Answer("look", world.seq, None, look.ask(world)))


def _refused(world: World, why: TallyError) -> Frame:
    return Frame((), (), (), {}, Answer("error", world.seq, None, why))


def _durable(world: str, outcome: Outcome) -> Head:
    """The head that a commit moved to; anything else ends this driver."""
    if isinstance(outcome, Head):
        return outcome
    if isinstance(outcome, Full):
        raise DiskFull("no space is left for a commit", where={"world": world})
    # One thread, one store in this process: an answer that was lost means another owner too.
    raise NotOwner(f"another writer owns world {world}", where={"world": world})


def _snapshots(batch: list[Staged]) -> list[SnapshotRow]:
    rows: list[SnapshotRow] = []
    for each in batch:
        plan = each.frame.snapshot
        if plan is not None:
            stamp = getattr(each.frame.records[0], "stamp", None)
            at_ns = 0 if stamp is None else int(stamp.now_ns)
            document = canon.digest_of(plan.document)
            rows.append(SnapshotRow(plan.seq, plan.root, document, at_ns=at_ns))
    return rows
