"""Worlds: creating, opening, forking, looking back, and collecting what nothing names.

Each of these is a short dance between the journal and the kernel; the driver does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from tallystick.errors import BlobLost, DiskFull, NotOwner, UnknownName
from tallystick.governance.whatif import Edit
from tallystick.journal.base import Appender, Head, Held, History, Journal
from tallystick.journal.lineage import is_unfinished
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.fork import fork
from tallystick.kernel.govern import Genesis, create
from tallystick.kernel.reach import Marks
from tallystick.kernel.replay import open_world
from tallystick.kernel.world import Settings, World
from tallystick.model.abi import Runner
from tallystick.node.driver import Driver, Ports

T = TypeVar("T")


class NewWorld(NamedTuple):
    """What a new world needs: its id, its bundle, the node's public key, and a name."""

    world: str
    bundle: bytes
    manifest: bytes
    blobs: dict[bytes, bytes]
    node_key: bytes
    name: str = ""


def create_world(
    ports: Ports, new: NewWorld, runner: Runner, settings: Settings | None = None
) -> Driver:
    """Create a world and make its first frame durable.

    It has its name before that: a crash leaves it with its name, or nothing that is ever opened.
    """
    driver = _driver(ports, World(new.world, _blobs(ports, new.world), runner, settings))
    if new.name:
        ports.journal.alias(new.name, new.world)
    genesis = Genesis(
        world=new.world,
        sample=ports.clock.sample(),
        bundle=new.bundle,
        manifest=new.manifest,
        blobs=new.blobs,
        node_key=new.node_key,
    )
    driver.stage(create(driver.world, genesis))
    driver.flush()
    return driver


def open_driver(
    ports: Ports,
    world_id: str,
    runner: Runner,
    settings: Settings | None = None,
    *,
    look: bool = False,
) -> Driver:
    """Open a world: newest snapshot, then the tail; becomes its only writer.

    With `look` it does not yet: who only reads raises no epoch, and `own` comes before a write.
    """
    epoch = ports.journal.head(world_id).epoch if look else _epoch(ports.journal, world_id)
    world = world_at(ports.journal, world_id, runner, settings=settings)
    head = Head(world.seq, world.head, epoch)
    return Driver(world, ports, _staged(world), head)


def own(driver: Driver) -> None:
    """Become the only writer of a world that was opened to look at."""
    epoch = _epoch(driver.journal, driver.world.id)
    driver.head = driver.head._replace(epoch=epoch)


def world_at(
    journal: History,
    world_id: str,
    runner: Runner,
    *,
    seq: int | None = None,
    settings: Settings | None = None,
) -> World:
    """The world as of a sequence (its head by default), from the nearest snapshot below it.

    A sequence inside a frame means the end of that frame.
    """
    rows = [row for row in journal.snapshots(world_id) if seq is None or row.seq <= seq]
    pinned = rows[-1] if rows else None
    if seq is not None and not 1 <= seq <= journal.head(world_id).seq:
        raise _no_seq(seq, journal.head(world_id).seq)
    world = open_world(
        world_id,
        journal.read(world_id, after=0 if pinned is None else pinned.seq, upto=seq),
        StagedBlobs(journal, world_id),
        runner,
        pinned=None if pinned is None else pinned.document,
        settings=settings,
    )
    world.read_only = seq is not None or world.frozen
    return world


def unthinned(journal: History, world_id: str, read: Callable[[], T]) -> T:
    """What is read of a past; read again where its snapshot was thinned out and swept meanwhile."""
    while True:
        before = journal.snapshots(world_id)
        try:
            return read()
        except BlobLost:
            if journal.snapshots(world_id) == before:
                raise


def _no_seq(seq: int, head: int) -> UnknownName:
    return UnknownName(
        f"the journal has no sequence {seq}",
        code="journal.no_seq",
        where={"seq": seq},
        hint=f"it has those from 1 to {head}",
    )


class ForkOrder(NamedTuple):
    """Which world to fork, where, as what, and what becomes of its open intents."""

    parent: str
    child: str
    seq: int | None = None
    pending: str = "suspend"
    pending_for: dict[str, str] | None = None
    principal: str = "node"
    edits: tuple[Edit, ...] = ()
    name: str = ""


def drop_unfinished(journal: Journal, world: str) -> bool:
    """Drop a world whose making was cut off; False when it is whole, or was never begun.

    Where there is no room even for that, the next start does it.
    """
    row = next((row for row in journal.worlds() if row.world == world), None)
    if row is None or not is_unfinished(row):
        return False
    try:
        journal.drop_world(world)
    except DiskFull:
        return False
    return True


def fork_world(
    ports: Ports, order: ForkOrder, runner: Runner, settings: Settings | None = None
) -> Driver:
    """A new world that begins where another one stood; writes one frame and copies nothing.

    As in `create_world` its name comes first.
    """
    journal = ports.journal
    there = world_at(journal, order.parent, runner, seq=order.seq, settings=settings)
    journal.fork(order.parent, Head(there.seq, there.head, 0), order.child)
    if order.name:
        journal.alias(order.name, order.child)
    blobs = StagedBlobs(journal, order.child)
    there.rehouse(blobs)
    there.read_only = False
    driver = _driver(ports, there, order.child, blobs)
    frame = fork(
        there,
        order.child,
        ports.clock.sample(),
        pending=order.pending,
        pending_for=order.pending_for,
        principal=order.principal,
    )
    driver.stage(frame)
    driver.flush()
    ports.points.at("fork.recorded")
    for path, _ in list(there.intents.entries()):
        driver.publish(path)
    return driver


def marks_of(journal: History, world: World, keep: int = 1) -> frozenset[bytes]:
    """The digests that a collection must keep: newest and pinned snapshots, frames, the live."""
    kept: set[bytes] = set()
    waiting = [world.id]
    while waiting:
        name = waiting.pop()
        marks = Marks(StagedBlobs(journal, name), world.catalogue)
        # Genesis is pinned: every frame can still be folded, so every frame's blobs are kept.
        marks.tail(journal.read(name))
        rows = journal.snapshots(name)
        newest = rows[-keep:] if keep else []
        for row in (*newest, *(row for row in rows if row.pinned)):
            marks.snapshot(row.document)
        if name == world.id:
            for store in world.stores().values():
                marks.index(store.top)
        kept.update(marks.kept)
        # A fork reads its parent's blobs: what it pins must not be swept here (I7, I21).
        waiting += journal.forks(name)
    return frozenset(kept)


def _blobs(ports: Ports, world_id: str) -> StagedBlobs:
    return StagedBlobs(ports.journal, world_id)


def _staged(world: World) -> StagedBlobs:
    assert isinstance(world.blobs, StagedBlobs), "a driven world stages its blobs"
    return world.blobs


def _epoch(journal: Appender, world: str) -> int:
    lease = journal.acquire(world)
    if isinstance(lease, Held):
        raise NotOwner(f"node {lease.node} owns world {world}", where={"world": world})
    return lease.epoch


def _driver(
    ports: Ports, world: World, name: str | None = None, blobs: StagedBlobs | None = None
) -> Driver:
    """Become the writer of a world that stands at its journal's head."""
    epoch = _epoch(ports.journal, name or world.id)
    return Driver(world, ports, blobs or _staged(world), Head(world.seq, world.head, epoch))
