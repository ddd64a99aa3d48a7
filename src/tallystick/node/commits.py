"""Commits: what the worlds of a node have decided becomes durable together, one write at a time.

Theory of operation.
One commit is in flight at most; while it syncs, the engine computes the next.
What a commit lets out is gathered in one `Parcel` and handed on in one go.
A world that another writer owns is dropped; a full disk throws away what ran ahead.
Everything here runs on the kernel's thread, but for the one call by which the writer tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tallystick.errors import DiskFull, NotOwner, TallyError
from tallystick.journal.base import Ambiguous, Append, Fenced, Full, Head, Outcome
from tallystick.node.driver import Cut, Look, Staged, Ticket, tickets_of
from tallystick.node.hosted import Hosted
from tallystick.node.jobs import Published
from tallystick.node.outlet import Outlet, Parcel
from tallystick.node.writer import Rhythm, Writer

Write = Callable[[list[Append]], list[Outcome]]
_SHARED: Final = 4  # so many times sooner a commit is cut when several worlds wait for it


class Ways(NamedTuple):
    """Where what becomes durable goes: to the disk, to the io thread, back to the kernel's."""

    writer: Writer
    outlet: Outlet
    post: Callable[[Parcel], None]
    call: Callable[[Callable[[], None]], None]
    perform: Callable[[Published], bool]


class Commits:
    """The commits of all worlds of one engine."""

    def __init__(self, worlds: dict[str, Hosted], rhythm: Rhythm, ways: Ways) -> None:
        self.disk_full = False
        self.flight: list[tuple[Hosted, Cut]] | None = None
        self._worlds = worlds
        self._rhythm = rhythm
        self._ways = ways
        self._outlet = ways.outlet

    def due(self) -> bool:
        """True when enough is staged for a commit and none is in flight.

        With several worlds it is enough sooner: none waits long for the batch of another (I40).
        """
        if self.flight is not None:
            return False
        staged = [hosted for hosted in self._worlds.values() if hosted.driver.staged]
        if not staged:
            return False
        oldest_ns = min(hosted.staged_ns for hosted in staged)
        wait_ns = self._rhythm.max_wait_ns // (1 if len(staged) == 1 else _SHARED)
        if time.monotonic_ns() - oldest_ns >= wait_ns:
            return True
        frames = sum(len(hosted.driver.staged) for hosted in staged)
        size = sum(hosted.driver.staged_bytes for hosted in staged)
        return frames >= self._rhythm.max_frames or size >= self._rhythm.max_bytes

    def ahead(self, hosted: Hosted) -> list[Staged]:
        """What is decided in a world and not known to be durable, in order."""
        flown = [each for other, cut in self.flight or () if other is hosted for each in cut.batch]
        return [*flown, *hosted.driver.staged]

    def cut(self, *, calm: bool) -> None:
        """Cut what is staged of all worlds into one commit; `calm` waits for it here.

        Who has little in it is told first: a few do not wait for the many of another world (I40).
        """
        cuts = [
            (hosted, cut)
            for hosted in self._worlds.values()
            if (cut := hosted.driver.cut()) is not None
        ]
        if len(cuts) > 1:
            cuts.sort(key=lambda each: len(each[1].batch))
        if cuts:
            self._commit(cuts, calm=calm)

    def _commit(self, cuts: list[tuple[Hosted, Cut]], *, calm: bool) -> None:
        batch = [cut.append for _, cut in cuts if cut.append is not None]
        if not batch:
            self._committed(cuts, [])
            return
        self.flight = cuts  # if it fails, its callers are told with everybody else
        writer = self._ways.writer
        if calm or writer.is_quick:
            outcomes = writer.commit(batch)
            self.flight = None
            self._committed(cuts, outcomes)
        else:
            writer.submit(batch, self._told)

    def together(self, worlds: list[Hosted], write: Write) -> bool:
        """Make what is staged of some worlds durable by one write; False while a commit flies."""
        if self.flight is not None:
            return False
        cuts = [(h, cut) for h in worlds if (cut := h.driver.cut()) is not None]
        self._committed(cuts, write([cut.append for _, cut in cuts if cut.append is not None]))
        return True

    def remove(self, world: str, write: Callable[[], None]) -> bool:
        """Let a world go, and tell all who wait for it; False while a commit flies."""
        if self.flight is not None:
            return False
        write()
        why = NotOwner(f"world {world} was removed", where={"world": world})
        self._let_go(self._worlds[world], None, why)
        return True

    def give_up(self, ticket: Ticket, why: Exception) -> None:
        """Answer a caller with what went wrong, once the outlet is emptied."""
        ticket.error = why
        self._outlet.answered(ticket)

    # ---- the writer's word ------------------------------------------------------------------

    def _told(self, outcomes: list[Outcome] | TallyError) -> None:
        """Called on the writer's thread: the commit in flight has landed, or failed."""

        def landed() -> None:
            cuts, self.flight = self.flight, None
            assert cuts is not None, "one commit is in flight at a time"
            if isinstance(outcomes, TallyError):
                self.flight = cuts  # its callers are told with everybody else
                raise outcomes
            self._committed(cuts, outcomes)

        self._ways.call(landed)

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
                taken = [
                    each.frame.snapshot for each in cut.batch if each.frame.snapshot is not None
                ]
                if taken:
                    hosted.snapped = max(hosted.snapped, taken[-1].seq)
                    self._outlet.now.snapshots.append((hosted.driver.world.id, taken[-1]))
                hosted.driver.committed(cut, outcome)
        if full:
            self._filled(full)
        parcel = self._outlet.taken()
        lone = parcel.published.pop() if len(parcel.published) == 1 else None
        if lone is not None and not self._ways.perform(lone):
            parcel.published.append(lone)
        self._ways.post(parcel)

    def _settled(self, hosted: Hosted, cut: Cut, outcome: Outcome) -> Head | Fenced | Full:
        """An ambiguous commit is read back: ours, still to be sent, or another's."""
        if not isinstance(outcome, Ambiguous):
            return outcome
        assert cut.append is not None, "only what was appended can be ambiguous"
        head = hosted.driver.journal.head(cut.append.world)
        if cut.append.frames and head.hash == cut.append.frames[-1].hash:
            return head
        if head.hash == cut.append.expect.hash:
            (again,) = self._ways.writer.commit([cut.append])
            return again if isinstance(again, Head | Full) else Fenced(head)
        return Fenced(head)

    # ---- what can go wrong ------------------------------------------------------------------

    def _lose(self, hosted: Hosted, cut: Cut) -> None:
        """Another writer owns the world: drop it, tell everyone, never retry."""
        world = hosted.driver.world.id
        why = NotOwner(f"another writer owns world {world}", where={"world": world})
        self._let_go(hosted, cut, why)
        self._outlet.now.lost.append(world)

    def _let_go(self, hosted: Hosted, cut: Cut | None, why: TallyError) -> None:
        self._worlds.pop(hosted.driver.world.id, None)
        hosted.gone = why
        for ticket in tickets_of(hosted.driver, cut):
            self.give_up(ticket, why)

    def _filled(self, full: list[tuple[Hosted, Cut]]) -> None:
        """The disk is full: what ran ahead is thrown away; work that came back waits."""
        self.disk_full = True
        for hosted, cut in full:
            old = hosted.driver
            hosted.again()
            taken = old.journal.snapshots(old.world.id)
            hosted.snapped = taken[-1].seq if taken else 0
            for ticket in [each.ticket for each in (*cut.batch, *old.staged)]:
                if ticket is not None and isinstance(ticket.given, Look):
                    hosted.driver.handle(ticket)  # who only reads is answered
                elif ticket is not None:
                    hosted.driver.work.append(ticket)
            hosted.driver.work.extend(old.work)
            hosted.driver.ingress.extend(old.ingress)
        for hosted in self._worlds.values():
            work = hosted.driver.work
            left = list(work)
            work.clear()
            work.extend(self.kept(left))

    def kept(self, tickets: list[Ticket]) -> list[Ticket]:
        """Those that wait until a full disk has room; the others are refused, as nobody knows when.

        Among them are those of who looks for room: waiting, they would never find it.
        """
        why = DiskFull("the disk is full; nothing of this was written")
        for ticket in tickets:
            if not ticket.keep:
                self.give_up(ticket, why)
        return [ticket for ticket in tickets if ticket.keep]
