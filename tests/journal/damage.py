"""A history worth damaging, and the damages: what a disk, a person or a forger may change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from tallystick.journal import checkpoints
from tallystick.journal.base import CheckpointRow
from tallystick.journal.sqlite import SqliteJournal
from tallystick.model.frames import Sealed, open_frame, seal_frame
from tallystick.model.records import EventAdmitted, ReceiptSettled, Record
from tests.rig import NODE, WORLD, Rig
from tests.worlds import CREATED, FUNCTIONS, created, order_documents

SPILL = 200  # so that some blobs are files


def grown(folder: Path, orders: int = 12) -> Rig:
    """A world with receipts, two snapshots, blob files and three checkpoints."""
    journal = SqliteJournal(folder, spill_bytes=SPILL)
    rig = Rig(order_documents(), FUNCTIONS, journal=journal)  # type: ignore[arg-type]
    for part in range(3):
        for number in range(orders // 3):
            rig.send(CREATED, created(f"o-{part}-{number}"))
        for job in rig.jobs.all[part * 2 : part * 2 + 2]:
            rig.settle(job, {"ref": f"r-{part}"})
        if part:
            rig.driver.snapshot()
        checkpoint(rig)
    rig.send(CREATED, created("last"))
    return rig


def checkpoint(rig: Rig) -> CheckpointRow:
    """Sign where the world stands, and keep it."""
    stand = checkpoints.Stand(rig.root(), rig.manifest, rig.clock.now_ns)
    row = checkpoints.make(NODE, rig.world.id, rig.driver.head, stand)
    rig.journal.add_checkpoint(rig.world.id, row)
    return row


class Case(NamedTuple):
    """A journal whose changes will be rolled back, and the chance that picks the place."""

    journal: SqliteJournal
    chance: Random

    def run(self, query: str, *values: object) -> list[tuple]:
        return list(self.journal._db.execute(query, values))

    def frame(self) -> tuple[int, int, bytes, bytes]:
        """A frame of the middle: id, seq, hash and body."""
        rows = self.run("SELECT id, seq, hash, body FROM frame ORDER BY seq")
        return self.chance.choice(rows[1:-1])

    def flip(self, data: bytes) -> bytes:
        at = self.chance.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self.chance.randrange(8)]) + data[at + 1 :]


# Each damage gives the first bad sequence, or None where the design asks only that it is found.
Damage = Callable[[Case], int | None]


def body_changed(case: Case) -> int:
    row = case.frame()
    case.run("UPDATE frame SET body=? WHERE id=?", case.flip(row[3]), row[0])
    return row[1]


def hash_changed(case: Case) -> int:
    row = case.frame()
    case.run("UPDATE frame SET hash=? WHERE id=?", case.flip(row[2]), row[0])
    return row[1]


def body_cut(case: Case) -> int:
    row = case.frame()
    cut = row[3][: case.chance.randrange(len(row[3]))]
    case.run("UPDATE frame SET body=? WHERE id=?", cut, row[0])
    return row[1]


def frame_deleted(case: Case) -> int:
    row = case.frame()
    case.run("DELETE FROM frame WHERE id=?", row[0])
    return row[1]


def frames_swapped(case: Case) -> int:
    one, other = case.frame(), case.frame()
    if one == other:
        return body_changed(case)
    for target, source in ((one, other), (other, one)):
        case.run("UPDATE frame SET hash=?, body=? WHERE id=?", *source[2:], target[0])
    return min(one[1], other[1])


def number_changed(case: Case) -> int:
    row = case.frame()
    case.run("UPDATE frame SET last=last+1 WHERE id=?", row[0])
    return row[1]


def tail_cut(case: Case) -> int:
    row = case.frame()
    case.run("DELETE FROM frame WHERE seq>=?", row[1])
    return row[1]


def rolled_back(case: Case) -> int:
    """An older copy, head and all: only a checkpoint can tell."""
    newest = case.run("SELECT max(seq) FROM checkpoint")[0][0]
    rows = case.run("SELECT seq, hash, last FROM frame WHERE last<? ORDER BY seq", newest)
    seq, digest, last = case.chance.choice(rows[1:])
    case.run("DELETE FROM frame WHERE seq>?", seq)
    case.run("DELETE FROM snapshot WHERE seq>=?", last)
    case.run("UPDATE world SET head_seq=?, head_hash=?", last, digest)
    return last + 1


def head_changed(case: Case) -> None:
    digest = case.run("SELECT head_hash FROM world")[0][0]
    case.run("UPDATE world SET head_hash=?", case.flip(digest))


def chained_anew(case: Case, target: Sealed, changed: Record) -> None:
    """Change the first record of a frame, and chain everything behind it anew."""
    prev = target.prev
    for frame in list(case.journal.read(WORLD, target.seq - 1)):
        records = open_frame(frame.body)[3]
        if frame.seq == target.seq:
            records[0] = changed
        made = seal_frame(WORLD, frame.seq, prev, records)
        case.run("UPDATE frame SET hash=?, body=? WHERE seq=?", made.hash, made.body, frame.seq)
        prev = made.hash
    case.run("UPDATE world SET head_hash=?", prev)


def rewritten(case: Case) -> None:
    """Someone changes an event and all hashes behind it: checkpoints tell."""
    newest = case.run("SELECT max(seq) FROM checkpoint")[0][0]
    found = []
    for frame in case.journal.read(WORLD, upto=newest - 1):
        first = open_frame(frame.body)[3][0]
        if isinstance(first, EventAdmitted):
            found.append((frame, first._replace(hops=first.hops + 1)))
    chained_anew(case, *case.chance.choice(found))


def receipt_forged(case: Case) -> int:
    """The same with a receipt, where no checkpoint and no snapshot stands: its seal tells."""
    case.run("DELETE FROM checkpoint")
    case.run("DELETE FROM snapshot")
    found = []
    for frame in case.journal.read(WORLD):
        first = open_frame(frame.body)[3][0]
        if isinstance(first, ReceiptSettled):
            found.append((frame, first._replace(ended_ns=first.ended_ns + 1)))
    target, forged = case.chance.choice(found)
    chained_anew(case, target, forged)
    return target.seq


def blob_changed(case: Case) -> None:
    rows = case.run("SELECT hash, body FROM blob WHERE body IS NOT NULL ORDER BY hash")
    digest, body = case.chance.choice(rows)
    case.run("UPDATE blob SET body=? WHERE hash=?", case.flip(body), digest)


def blob_deleted(case: Case) -> None:
    (digest,) = case.chance.choice(case.run("SELECT hash FROM blob ORDER BY hash"))
    case.run("DELETE FROM blob WHERE hash=?", digest)


def node_changed(case: Case) -> None:
    number, body = case.chance.choice(case.run("SELECT id, body FROM node ORDER BY id"))
    case.run("UPDATE node SET body=? WHERE id=?", case.flip(body), number)


def node_deleted(case: Case) -> None:
    """A node that the newest snapshot reads; nobody misses the others."""
    newest = case.run("SELECT max(seq) FROM snapshot")[0][0]
    begun = case.run("SELECT max(added_seq) FROM node WHERE added_seq<=?", newest)[0][0]
    rows = case.run("SELECT id FROM node WHERE added_seq=? ORDER BY id", begun)
    (number,) = case.chance.choice(rows)
    case.run("DELETE FROM node WHERE id=?", number)


def snapshot_changed(case: Case) -> None:
    seq, root = case.chance.choice(case.run("SELECT seq, root FROM snapshot"))
    case.run("UPDATE snapshot SET root=? WHERE seq=?", case.flip(root), seq)


def snapshots_swapped(case: Case) -> None:
    (one, first), (other, second) = case.run("SELECT seq, blob FROM snapshot ORDER BY seq")
    case.run("UPDATE snapshot SET blob=? WHERE seq=?", second, one)
    case.run("UPDATE snapshot SET blob=? WHERE seq=?", first, other)


def checkpoint_changed(case: Case) -> None:
    seq, head, seal = case.chance.choice(case.run("SELECT seq, head, seal FROM checkpoint"))
    if case.chance.random() < 0.5:
        case.run("UPDATE checkpoint SET head=? WHERE seq=?", case.flip(head), seq)
    else:
        case.run("UPDATE checkpoint SET seal=? WHERE seq=?", case.flip(seal), seq)


DAMAGES: tuple[Damage, ...] = (
    body_changed,
    hash_changed,
    body_cut,
    frame_deleted,
    frames_swapped,
    number_changed,
    tail_cut,
    rolled_back,
    head_changed,
    rewritten,
    receipt_forged,
    blob_changed,
    blob_deleted,
    node_changed,
    node_deleted,
    snapshot_changed,
    snapshots_swapped,
    checkpoint_changed,
)
