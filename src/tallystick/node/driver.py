"""The driver: feeds inputs to the kernel and lets nothing out before it is durable (K-25, K-26).

Theory of operation.
An input becomes a frame, the frame is folded at once and staged; many staged frames share one
commit.
The world in memory so runs ahead of the journal, and only the kernel may see it.
`release` is the only place that answers callers, publishes intents and promotes snapshots, and it
is called for frames that the journal has confirmed.
If the journal refuses, what ran ahead is thrown away: the durable head is the truth.

This driver is synchronous and starts no thread; a shell may call it from one.
"""

# tidy: the loop from inbox to release is the walk itself.
from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from tallystick.errors import NotOwner, TallyError
from tallystick.journal.base import Append, Fenced, Head, Journal, SnapshotRow
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel import snapshot
from tallystick.kernel.draft import Answer, Frame
from tallystick.kernel.inputs import Clock as ClockInput
from tallystick.kernel.inputs import Input, Operate, Submit, TakeSnapshot
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.machine import accept, advance, submit
from tallystick.kernel.parts import KERNEL, Intent
from tallystick.kernel.settle import next_due_ns
from tallystick.kernel.world import World
from tallystick.model.effects import dispatch_key
from tallystick.model.frames import Sealed
from tallystick.node.clock import Clock
from tallystick.node.points import Points
from tallystick.values import canon


class Job(NamedTuple):
    """One intent as an executor sees it."""

    world: str
    intent: bytes
    dispatch_key: bytes
    effect: str
    executor: str
    params: bytes
    attempt: int
    deadline_ns: int | None


class Outbox(Protocol):
    """Where published intents go."""

    def publish(self, job: Job) -> None:
        """Take a job; idempotent by (intent, attempt)."""
        ...


class Ticket:
    """A caller waiting for its input to be durable."""

    __slots__ = ("answer", "error", "given")

    def __init__(self, given: Input) -> None:
        self.given = given
        self.answer: Answer | None = None
        self.error: TallyError | None = None

    @property
    def done(self) -> bool:
        """True once the caller may be told."""
        return self.answer is not None or self.error is not None


class _Staged(NamedTuple):
    frame: Frame
    sealed: Sealed | None
    ticket: Ticket | None


class Ports(NamedTuple):
    """What a driver is given of the outside: storage, time, and where intents go."""

    journal: Journal
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
        self.staged: list[_Staged] = []

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
            ticket = queue.popleft()
            self.points.at("inbox.taken")
            self._handle(ticket)
            return True
        frame = advance(self.world)
        if frame is None:
            return False
        self.stage(frame)
        return True

    def tick(self) -> bool:
        """Run one tick even when inputs wait, so that a flood cannot starve accepted work."""
        frame = advance(self.world)
        if frame is None:
            return False
        self.stage(frame)
        return True

    def _handle(self, ticket: Ticket) -> None:
        try:
            frame = submit(self.world, ticket.given)
        except TallyError as why:
            if why.exit_code == 4:
                raise
            # A refusal wrote nothing, but it may rest on frames that are not durable yet:
            # it waits for them like any answer.
            self.staged.append(_Staged(_refused(self.world, why), None, ticket))
            return
        self.stage(frame, ticket)

    def stage(self, frame: Frame, ticket: Ticket | None = None) -> None:
        """Fold a decided frame and keep it for the next commit."""
        self.points.at("frame.built")
        sealed = accept(self.world, frame)
        self.points.at("frame.folded")
        self.staged.append(_Staged(frame, sealed, ticket))

    # ---- durability -------------------------------------------------------------------------

    def flush(self) -> bool:
        """Make everything staged durable in one commit, then release it; False if none was."""
        if not self.staged:
            return False
        batch, self.staged = self.staged, []
        frames = [each.sealed for each in batch if each.sealed is not None]
        blobs = self.blobs.taken()
        if frames:
            self.points.at("journal.appended")
            outcome = self.journal.append(
                Append(self.world.id, frames, self.head, blobs, _snapshots(batch))
            )
            if isinstance(outcome, Fenced):
                raise NotOwner(
                    f"another writer owns world {self.world.id}",
                    where={"world": self.world.id, "epoch": outcome.head.epoch},
                )
            self.points.at("journal.flushed")
            self.head = outcome
            self.blobs.forget(blobs)
        self.release(batch)
        return True

    def release(self, batch: list[_Staged]) -> None:
        """Let out what a durable batch allows: answers, intents, clean snapshots."""
        for each in batch:
            if each.frame.snapshot is not None:
                self.points.at("snapshot.written")
                snapshot.promote(self.world, each.frame.snapshot)
                self.points.at("snapshot.promoted")
            if each.ticket is not None:
                if each.frame.answer.kind == "error":
                    each.ticket.error = each.frame.answer.detail
                else:
                    each.ticket.answer = each.frame.answer
            for ident in each.frame.opened:
                self.publish(ident)

    def publish(self, ident: bytes) -> None:
        """Hand an open intent to the outbox, unless it is held or the kernel's own."""
        intent = self.world.intents.get(ident)
        if intent is None or intent.hold is not None or _kernel_owned(intent):
            return
        self.points.at("intent.dispatched")
        self.outbox.publish(self.job(ident, intent))

    def job(self, ident: bytes, intent: Intent) -> Job:
        """An open intent as an executor sees it."""
        record = intent.record
        params = record.params
        if params is None:
            assert record.params_hash is not None, "parameters stand inline or by digest"
            params = read_blob(self.blobs, record.params_hash)
        return Job(
            world=self.world.id,
            intent=ident,
            dispatch_key=dispatch_key(self.world.id, ident),
            effect=record.effect,
            executor=record.executor,
            params=params,
            attempt=intent.attempt,
            deadline_ns=record.timeout_at_ns,
        )

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
        return ticket

    def resume(self) -> None:
        """After opening: attempt every open intent again, in the order they were opened.

        Whether the outside was touched before the crash cannot be known, so each attempt is
        journaled before it is published.
        """
        found = [
            (intent.seq, path)
            for path, intent in self.world.intents.entries()
            if not _kernel_owned(intent) and intent.hold is None
        ]
        for _, path in sorted(found):
            sample = self.clock.sample()
            self.offer(Operate(sample, "attempt", "node", "restart", intent=path))
        self.run_until_idle()
        for _, path in sorted(found):
            self.publish(path)


def _kernel_owned(intent: Intent) -> bool:
    """Timers and internal effects are settled by the kernel; no executor sees them."""
    return intent.record.effect in _KERNEL_EFFECTS or intent.record.executor == KERNEL


_KERNEL_EFFECTS = frozenset({"sys/timer.set@1", "sys/workflow.spawn@1", "sys/workflow.call@1"})


def _refused(world: World, why: TallyError) -> Frame:
    return Frame((), (), (), {}, Answer("error", world.seq, None, why))


def _snapshots(batch: list[_Staged]) -> list[SnapshotRow]:
    rows: list[SnapshotRow] = []
    for each in batch:
        plan = each.frame.snapshot
        if plan is not None:
            rows.append(SnapshotRow(plan.seq, plan.root, canon.digest_of(plan.document)))
    return rows
