"""Collecting on a live node: remove what nothing names, while worlds go on (K-44, 04 section 13).

Theory of operation.
What a journal names is marked by a reader of its own, which may take long.
Meanwhile the world goes on, and a new frame may name an old blob that nothing named before.
So the sweep runs on the kernel's thread, where nothing is decided meanwhile, under the writer's
lock, where nothing is committed meanwhile: it marks the few frames behind the first marking, those
in flight and those staged, and then removes.
A blob that a later commit brings again is written again.
When a snapshot or a fork came in between, the first marking is worth nothing and is made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.errors import Busy, Conflict
from tallystick.journal.base import Head, Reader, Swept
from tallystick.journal.collect import PART, Trim, archived, marks_of, move_floor, thin
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.catalogues import Catalogues
from tallystick.kernel.reach import Marks
from tallystick.model.frames import Sealed
from tallystick.node.hosted import Hosted
from tallystick.node.node import Node
from tallystick.values.seal import KeyPair

TRIES: Final = 5


class Marked(NamedTuple):
    """What a world's journal named at a sequence, and what must not have changed since."""

    seq: int
    manifest: bytes
    kept: frozenset[bytes]
    snapshots: tuple[int, ...]
    forks: dict[str, int]
    """Where its forks and theirs stood: they read its blobs, and go on meanwhile."""


async def collect(node: Node, world: str, *, dry_run: bool) -> dict[str, Any]:
    """Thin the snapshots of a world and sweep its orphans that are older than the grace.

    Refuses with `gc.busy` when the world takes snapshots faster than they can be marked.
    """
    retention = node.config.retention
    snapshots = 0
    if not dry_run:
        await _dropped(node, world)  # what a trim that was cut short has left
        most = max(1, retention.snapshots)
        snapshots = await node.write(
            lambda held: 0 if _is_run_again(node, held, world) else thin(held, world, most)
        )
    older_ns = node.clock.now_ns() - retention.blob_grace
    for _ in range(TRIES):
        marked, orphans = await _marked(node, world)
        found = {"world": world, "orphans": len(orphans), "bytes": sum(orphans)}
        if dry_run:
            return {**found, "removed": 0, "snapshots": 0}
        swept = await node.on_kernel(partial(_sweep, node, world, marked, older_ns))
        if swept is not None:
            return {**found, "removed": swept.blobs, "snapshots": snapshots}
    raise Busy("the world changes faster than it can be looked through", code="gc.busy")


def _is_run_again(node: Node, reader: Reader, world: str) -> bool:
    """True while a what-if, a shadow, a proof or a replay goes over it, on a snapshot of it."""
    going = set(node.reruns.standing) & set(node.engine.worlds)
    return any(world == row.world for each in going for row in reader.lineage(each))


def _check_rests(node: Node, reader: Reader, world: str) -> None:
    if _is_run_again(node, reader, world):
        raise Busy(
            f"the history of world {world} is run again just now",
            code="gc.busy",
            where={"world": world},
            hint="ask again when the what-if, shadow, proof or replay has ended",
        )


async def _marked(node: Node, world: str) -> tuple[Marked, list[int]]:
    """Everything that the durable journal names, and the sizes of what it does not."""
    seq, manifest = await node.look(world, lambda live: (live.seq, live.manifest))

    def mark(reader: Reader) -> tuple[Marked, list[int]]:
        rows, forks = tuple(row.seq for row in reader.snapshots(world)), _forks(reader, world)
        kept = marks_of(reader, world)
        orphans = [size for digest, size in reader.blobs(world) if digest not in kept]
        return Marked(seq, manifest, kept, rows, forks), orphans

    return await node.read(mark)


def _sweep(node: Node, world: str, marked: Marked, older_ns: int) -> Swept | None:
    """On the kernel's thread: remove what is still not named; None when marking must begin anew."""
    hosted = node.engine.worlds.get(world)
    if hosted is None:
        return Swept(0, 0)
    return node.writer.alone(_swept(node, hosted, marked, older_ns))


def _swept(
    node: Node, hosted: Hosted, marked: Marked, older_ns: int
) -> Callable[[SqliteJournal], Swept | None]:
    world = hosted.driver.world.id

    def act(journal: SqliteJournal) -> Swept | None:
        snapshots = tuple(row.seq for row in journal.snapshots(world))
        forks = _forks(journal, world)
        if snapshots != marked.snapshots or forks.keys() != marked.forks.keys():
            return None
        marks = _tail_marks(hosted, marked, _since(node, journal, (world, marked.seq)))
        for place in marked.forks.items():
            frames = _since(node, journal, place)
            marks |= _fork_marks(node, journal, marked, frames) if frames else frozenset()
        before = journal.seq_at(world, older_ns)
        return journal.sweep(world, marked.kept | marks, before)

    return act


def _forks(reader: Reader, world: str) -> dict[str, int]:
    """Where the forks of a world stand, and those of its forks."""
    found: dict[str, int] = {}
    for name in reader.forks(world):
        found |= {name: reader.head(name).seq, **_forks(reader, name)}
    return found


def _since(node: Node, journal: SqliteJournal, place: tuple[str, int]) -> list[Sealed]:
    """What a world has decided behind a sequence, durable or not."""
    world, seq = place
    frames = list(journal.read(world, seq))
    last, hosted = frames[-1].last if frames else seq, node.engine.worlds.get(world)
    ahead = [] if hosted is None else [each.sealed for each in node.engine.ahead(hosted)]
    return frames + [frame for frame in ahead if frame is not None and frame.seq > last]


def _fork_marks(
    node: Node, journal: SqliteJournal, marked: Marked, frames: list[Sealed]
) -> frozenset[bytes]:
    """What frames of a fork name, maybe of what it reads here."""
    world = frames[0].world
    hosted = node.engine.worlds.get(world)
    blobs = StagedBlobs(journal, world) if hosted is None else hosted.driver.blobs
    marks = Marks(blobs, partial(Catalogues().load, blobs=blobs))
    marks.manifest(marked.manifest if hosted is None else hosted.driver.world.manifest)
    marks.tail(frames)
    return marks.digests()


def _tail_marks(hosted: Hosted, marked: Marked, frames: list[Sealed]) -> frozenset[bytes]:
    """What the frames behind the first marking name, and what the live world still reads."""
    blobs = hosted.driver.blobs
    # Marked afresh: a blob that came meanwhile may name others, and was only a name before.
    marks = Marks(blobs, partial(Catalogues().load, blobs=blobs))
    marks.manifest(marked.manifest)
    marks.tail(frames)
    for name, store in hosted.driver.world.stores().items():
        if store.ahead is not None:
            marks.prepared(name, store.ahead)
        # The live world may still read the index of a snapshot that was just thinned out.
        if store.root not in marked.kept:
            marks.index(store.root)
    return marks.digests()


# ---- trimming -------------------------------------------------------------------------------


async def cut(node: Node, world: str, before: int, archive: Path) -> dict[str, Any]:
    """Move the floor of a world up to its newest snapshot below a sequence; see `trim`."""
    if not await node.look(world, lambda live: node.key.pair.key_id in live.keys):
        raise _untrusted(world, node.key.pair)
    wanted = Trim(world, before, archive, node.key.pair, node.clock.now_ns())

    def checked(reader: Reader) -> Trim:
        _check_rests(node, reader, world)
        return archived(reader, wanted)

    def moved(journal: SqliteJournal) -> Head:
        _check_rests(node, journal, world)
        return move_floor(journal, order)

    order = await node.read(checked)

    base = await node.on_kernel(lambda: node.writer.alone(moved))
    frames = await _dropped(node, world)
    swept = await collect(node, world, dry_run=False)
    return {
        "world": world,
        "base_seq": base.seq,
        "frames": frames,
        "archive": str(archive),
        "removed": swept["removed"],
    }


async def _dropped(node: Node, world: str) -> int:
    """Let what stands below the floor go, between commits: nobody waits for all of it (I40)."""
    gone = 0
    while part := await node.write(lambda held: held.drop_below(world, PART)):
        gone += part
    return gone


def _untrusted(world: str, pair: KeyPair) -> Conflict:
    return Conflict(
        f"world {world} does not trust the key of this node, which must sign its new floor",
        code="trim.untrusted",
        where={"world": world, "key": pair.key_id},
        hint=f"tally key trust {pair.public.hex()}",
    )
