"""Wrecks: a stopped node's files, changed as a disk, a person or a forger may change them."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple


class Wreck(NamedTuple):
    """A copy of a data folder, and the chance that picks the place."""

    data: Path
    chance: random.Random

    def run(self, query: str, *values: object) -> list[tuple]:
        """One statement on the journal's file, committed."""
        with closing(sqlite3.connect(self.data / "tally.db")) as db, db:
            return list(db.execute(query, values))

    def frame(self) -> tuple[int, bytes, bytes]:
        """A frame that is neither the first nor the last: its id, hash and body."""
        rows = self.run("SELECT id, hash, body FROM frame ORDER BY seq")
        found: tuple[int, bytes, bytes] = self.chance.choice(rows[1:-1])
        return found

    def flip(self, data: bytes) -> bytes:
        """The bytes with one bit changed."""
        at = self.chance.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self.chance.randrange(8)]) + data[at + 1 :]


def body_flipped(wreck: Wreck) -> None:
    ident, _, body = wreck.frame()
    wreck.run("UPDATE frame SET body=? WHERE id=?", wreck.flip(body), ident)


def hash_flipped(wreck: Wreck) -> None:
    ident, digest, _ = wreck.frame()
    wreck.run("UPDATE frame SET hash=? WHERE id=?", wreck.flip(digest), ident)


def frame_removed(wreck: Wreck) -> None:
    wreck.run("DELETE FROM frame WHERE id=?", wreck.frame()[0])


def frames_swapped(wreck: Wreck) -> None:
    (one, *first), (other, *second) = wreck.frame(), wreck.frame()
    if one == other:
        return body_flipped(wreck)
    wreck.run("UPDATE frame SET hash=?, body=? WHERE id=?", *second, one)
    wreck.run("UPDATE frame SET hash=?, body=? WHERE id=?", *first, other)
    return None


def tail_removed(wreck: Wreck) -> None:
    wreck.run("DELETE FROM frame WHERE id>=?", wreck.frame()[0])


def blob_flipped(wreck: Wreck) -> None:
    rows = wreck.run("SELECT hash, body FROM blob WHERE length(body) > 0 ORDER BY hash")
    digest, body = wreck.chance.choice(rows)
    wreck.run("UPDATE blob SET body=? WHERE hash=?", wreck.flip(body), digest)


def node_flipped(wreck: Wreck) -> None:
    number, body = wreck.chance.choice(wreck.run("SELECT id, body FROM node ORDER BY id"))
    wreck.run("UPDATE node SET body=? WHERE id=?", wreck.flip(body), number)


def snapshot_flipped(wreck: Wreck) -> None:
    seq, root = wreck.chance.choice(wreck.run("SELECT seq, root FROM snapshot"))
    wreck.run("UPDATE snapshot SET root=? WHERE seq=?", wreck.flip(root), seq)


def checkpoint_flipped(wreck: Wreck) -> None:
    seq, seal = wreck.chance.choice(wreck.run("SELECT seq, seal FROM checkpoint"))
    wreck.run("UPDATE checkpoint SET seal=? WHERE seq=?", wreck.flip(seal), seq)


def file_cut(wreck: Wreck) -> None:
    path = wreck.data / "tally.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(wreck.chance.randrange(4096, size - 4096))


def page_zeroed(wreck: Wreck) -> None:
    """A page that holds a part of a frame's body becomes zeros."""
    path = wreck.data / "tally.db"
    data = path.read_bytes()
    piece = wreck.frame()[2][:64]
    at = data.index(piece) // 4096 * 4096
    path.write_bytes(data[:at] + bytes(4096) + data[at + 4096 :])


def word_changed(wreck: Wreck) -> None:
    """The name of an order in its event: what is there is still well formed."""
    for ident, body in wreck.run("SELECT id, body FROM frame ORDER BY seq"):
        if b"bo5" in body:  # the length of a text of two bytes, then the text
            wreck.run("UPDATE frame SET body=? WHERE id=?", body.replace(b"bo5", b"bo6"), ident)
            return
    raise AssertionError("no frame names the order o5")


DAMAGES: Final[tuple[Callable[[Wreck], None], ...]] = (
    body_flipped,
    hash_flipped,
    frame_removed,
    frames_swapped,
    tail_removed,
    blob_flipped,
    node_flipped,
    snapshot_flipped,
    checkpoint_flipped,
    file_cut,
    page_zeroed,
)


def copied(data: Path, to: Path) -> Path:
    """A copy of a stopped node's data to be wrecked, without what only a running one needs."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(data, to, ignore=shutil.ignore_patterns("run", "reserve"))
    return to
