"""A what-if as a world of its own: forked before the first edit, re-run to the head.

Nothing that it asks for leaves it, so what it waits for is answered by the record, or not at all.
It is run in a thread of its own over a reader, and comes to the kernel's thread when all of it is
known: there its frames are only written, page by page, between the turns of other worlds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tallystick.errors import DiskFull, Rejected, Unavailable
from tallystick.governance.compare import Live
from tallystick.governance.recorded import Step, steps
from tallystick.governance.rerun import EXHAUSTED, Order, Rerun, Trail
from tallystick.governance.whatif import edited
from tallystick.journal.base import Append, Full, Head, Held, History
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.draft import Frame
from tallystick.kernel.fork import fork
from tallystick.kernel.inputs import Sample
from tallystick.kernel.machine import accept
from tallystick.kernel.world import World
from tallystick.model.frames import Sealed
from tallystick.node.driver import Driver, Ports
from tallystick.node.worlds import ForkOrder

TICKS_MAX: Final = 250_000
SECONDS: Final = 120.0
PAGE: Final = 256  # frames of one commit
_NEWS_S: Final = 1.0


class Page(NamedTuple):
    """Frames of one commit, and the blobs that they name first."""

    frames: list[Sealed]
    blobs: dict[bytes, bytes]


class Drawn(NamedTuple):
    """A what-if that is run and not written yet: where it begins, and all of its frames."""

    world: World
    at: Head
    pages: list[Page]


class Watch(NamedTuple):
    """Who looks on: may it go on, and who is told how far it came."""

    stop: Callable[[], bool]
    news: Callable[[int, int, int], None]


# ---- in a thread of its own -------------------------------------------------------------------


class _Book:
    """What a run leaves, in pages; it reads the blobs of a store that is only read."""

    def __init__(self, base: StagedBlobs) -> None:
        self._base = base
        self._own: dict[bytes, bytes] = {}
        self.pages = [Page([], {})]

    def get(self, name: bytes) -> bytes | None:
        own = self._own.get(name)
        return self._base.get(name) if own is None else own

    def put(self, name: bytes, data: bytes) -> None:
        self._own[name] = self.pages[-1].blobs[name] = data

    def place(self) -> bytes:
        return self._base.place()

    def keep(self, world: World, frame: Frame) -> None:
        """Fold a frame and write it down."""
        sealed = accept(world, frame)
        if sealed is not None:
            self.pages[-1].frames.append(sealed)
        if len(self.pages[-1].frames) == PAGE:
            self.pages.append(Page([], {}))


def drawn(history: History, order: ForkOrder, start: World, watch: Watch) -> Drawn:
    """Run the recorded inputs with the edits in place, on a world that stands before the first.

    Refuses a history that takes too long: half a what-if would tell nothing.
    """
    head = history.head(order.parent).seq
    frames = list(history.read(order.parent, after=start.seq, upto=head))
    recorded = Live(start, frames)
    todo = list(edited(steps(start, frames), order.edits, start.active.catalogue))
    at = Head(start.seq, start.head, 0)
    book = _Book(StagedBlobs(history, order.parent))
    start.rehouse(book)
    start.read_only = False
    book.keep(start, _first(start, order))
    ended = _run(start, (todo, recorded), book.keep, watch)
    if ended != EXHAUSTED:
        raise _cut(ended)
    return Drawn(start, at, [page for page in book.pages if page.frames])


def before(history: History, order: ForkOrder) -> int:
    """The end of the frame before the first edit; a fork begins behind the first frame."""
    first = min(edit.seq for edit in order.edits)
    frames = history.read(order.parent, after=max(first - 1, 0), upto=first)
    seq = next((frame.seq for frame in frames), first)
    return max(seq - 1, 1)


def _first(world: World, order: ForkOrder) -> Frame:
    return fork(
        world,
        order.child,
        # It goes on at the time of its recorded inputs; it draws no chance of its own.
        Sample(world.now_ns, bytes(64)),
        pending="reissue",
        pending_for=order.pending_for,
        principal=order.principal,
        synthetic=True,
    )


def _run(
    world: World,
    recorded: tuple[list[Step], Live],
    keep: Callable[[World, Frame], None],
    watch: Watch,
) -> str:
    """Run it to its end, and tell every second how far it came; how it ended."""
    todo, live = recorded
    told = time.monotonic()

    def look() -> bool:
        nonlocal told
        if time.monotonic() - told > _NEWS_S:
            told = time.monotonic()
            watch.news(rerun.trail.inputs, len(todo), len(rerun.trail.ticks))
        return watch.stop()

    rerun = Rerun(world, Order(ticks_max=TICKS_MAX), keep=keep, stop=look)
    trail: Trail = rerun.run(todo, live)
    return trail.ended


def _cut(ended: str) -> Rejected | Unavailable:
    if ended == "stopped":
        return Unavailable("nobody waits for the what-if any more", code="node.stopping")
    return Rejected(
        f"the what-if runs more than {TICKS_MAX} ticks",
        code="rerun.too_long",
        hint="begin nearer to the head: a later edit",
    )


# ---- on the kernel's thread -------------------------------------------------------------------


def written(ports: Ports, order: ForkOrder, made: Drawn) -> Iterator[Head]:
    """Write a what-if: the head behind each page, so that other worlds have their turn between.

    The first is where it begins: nothing of it is written then.
    """
    journal = ports.journal
    journal.fork(order.parent, made.at, order.child)
    lease = journal.acquire(order.child)
    assert not isinstance(lease, Held), "a new world has no other owner"
    head = made.at._replace(epoch=lease.epoch)
    yield head
    for frames, blobs in made.pages:
        (outcome,) = journal.append(Append(order.child, frames, head, blobs))
        if isinstance(outcome, Full):
            raise DiskFull("no space is left for the what-if", where={"world": order.child})
        assert isinstance(outcome, Head), "nobody else knows this world"
        head = outcome
        yield head


def driven(ports: Ports, order: ForkOrder, made: Drawn, head: Head) -> Driver:
    """The driver of a what-if whose frames are durable."""
    blobs = StagedBlobs(ports.journal, order.child)
    made.world.rehouse(blobs)
    return Driver(made.world, ports, blobs, head)
