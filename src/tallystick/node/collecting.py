"""Collecting on a live node: remove what nothing names, while worlds go on (K-44, 04 section 13).

Snapshots are thinned out first, then what nothing names any more is swept (`sweeping`).
A trim moves the floor of a world before that, so that frames and what they name go, too.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

from tallystick.errors import Busy, Conflict
from tallystick.journal.base import Head, Reader
from tallystick.journal.collect import PART, Trim, archived, move_floor, thin
from tallystick.journal.sqlite import SqliteJournal
from tallystick.node.node import Node
from tallystick.node.sweeping import Found, Sweeping, find
from tallystick.values.seal import KeyPair

TRIES: Final = 5


async def collect(node: Node, world: str, *, dry_run: bool) -> dict[str, Any]:
    """Thin the snapshots of a world and sweep its orphans that are older than the grace.

    Refuses with `gc.busy` when the world is folded from the disk again and again meanwhile.
    """
    if dry_run:
        found = await node.read(partial(find, world=world))
        return {"world": world, **_told(found), "removed": 0, "snapshots": 0}
    retention = node.config.retention
    await _dropped(node, world)  # what a trim that was cut short has left
    most = max(1, retention.snapshots)
    snapshots = await node.write(
        lambda held: 0 if _is_run_again(node, held, world) else thin(held, world, most)
    )
    older_ns = node.clock.now_ns() - retention.blob_grace
    swept = await _swept(node, world, older_ns)
    for shelf in await node.write(lambda held: held.files.shelves(world)):
        await node.write(partial(_tidied, world=world, shelf=shelf))
    return {"world": world, **swept, "snapshots": snapshots}


def _told(found: Found) -> dict[str, int]:
    return {"orphans": len(found.orphans), "bytes": sum(found.orphans.values())}


async def _swept(node: Node, world: str, older_ns: int) -> dict[str, int]:
    """How many blobs nothing named, of how many bytes, and how many of them went."""
    removed = 0
    for _ in range(TRIES):
        sweeping = Sweeping(node, node.hosted(world, look=True))
        try:
            found = await sweeping.begin(older_ns)
            done = found is not None and await sweeping.swept()
        finally:
            sweeping.end()
        removed += sweeping.removed
        if found is not None and done:
            return {**_told(found), "removed": removed}
    raise Busy("the world was folded from the disk again and again", code="gc.busy")


def _tidied(held: SqliteJournal, world: str, shelf: Path) -> None:
    held.tidy(world, shelf)


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
