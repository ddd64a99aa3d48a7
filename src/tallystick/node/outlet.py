"""The outlet: where the drivers of a node put what a commit lets out.

It is filled on the kernel's thread and handed to the io thread as one parcel per commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tallystick.errors import TallyError
from tallystick.journal.base import Head
from tallystick.kernel.snapshot import Plan
from tallystick.model.frames import Sealed
from tallystick.node.driver import Deferred, Ticket
from tallystick.node.jobs import Published
from tallystick.node.receipts import Ended


@dataclass(slots=True)
class Parcel:
    """What one commit lets out, for the io thread to hand on."""

    answered: list[Ticket] = field(default_factory=list)
    published: list[Published] = field(default_factory=list)
    deferred: list[Deferred] = field(default_factory=list)
    performed: list[tuple[Ended, str]] = field(default_factory=list)
    settled: list[tuple[str, bytes]] = field(default_factory=list)
    durable: list[tuple[str, Sequence[Sealed], Head]] = field(default_factory=list)
    snapshots: list[tuple[str, Plan]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    stopped: list[tuple[str, TallyError | None]] = field(default_factory=list)


class Outlet:
    """The outbox of every driver of a node; `full` and `jammed` are set by the io thread."""

    def __init__(self) -> None:
        self.now = Parcel()
        self.full = False
        self.jammed = False

    def publish(self, job: Published) -> None:
        """An intent goes out."""
        self.now.published.append(job)

    def defer(self, name: Deferred) -> None:
        """An intent waits by name."""
        self.now.deferred.append(name)

    def stopped(self, world: str, why: TallyError) -> None:
        """A world waits for bytes that the disk has lost."""
        self.now.stopped.append((world, why))

    def settled(self, world: str, intent: bytes) -> None:
        """An intent is settled."""
        self.now.settled.append((world, intent))

    def answered(self, ticket: Ticket) -> None:
        """A caller is told, if anybody waits."""
        if ticket.waiter is not None:
            self.now.answered.append(ticket)

    def durable(self, world: str, frames: Sequence[Sealed], head: Head) -> None:
        """Frames may be read."""
        self.now.durable.append((world, frames, head))

    def taken(self) -> Parcel:
        """Everything so far; a new one begins."""
        parcel, self.now = self.now, Parcel()
        return parcel


def told_of(why: TallyError | None) -> tuple[str, str, str]:
    """What the log says of a world that stopped over lost bytes, or has them back."""
    if why is None:
        return "info", "world.restored", "what was lost is back"
    return "error", why.code, f"{why.message}; the world waits"
