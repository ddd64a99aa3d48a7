"""Answers that are kept: what a request with an Idempotency-Key was told (04 section 10).

A row is reserved before the request is carried out and filled when it was.
Between the two the node may die; the row then holds the entropy that was reserved for the input,
and a record that carries it says that the request happened.
The file is derived from nothing and proves nothing: losing it loses the memory of keys only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from tallystick.errors import DiskFull

FILE: Final = "answers.db"
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS answer(
  world TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL, entropy BLOB NOT NULL,
  after_seq INTEGER NOT NULL, at_ns INTEGER NOT NULL, status INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY(world, key)) WITHOUT ROWID
"""


class Kept(NamedTuple):
    """What is known of a key; status 0 means reserved, and no answer yet."""

    digest: bytes
    entropy: bytes
    after_seq: int
    at_ns: int
    status: int = 0
    body: bytes = b""


class Answers:
    """The kept answers of one node; each call is one durable transaction."""

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        path.touch(mode=0o600)
        # Bodies of answers stand here: a file of an older release is narrowed, and its helpers
        # get the same mode.
        path.chmod(0o600)
        with _told():
            self._db = apsw.Connection(str(path))
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(_TABLE)

    def get(self, world: str, key: str) -> Kept | None:
        """What is kept for a key of a world."""
        query = (
            "SELECT digest, entropy, after_seq, at_ns, status, body FROM answer"
            " WHERE world=? AND key=?"
        )
        found = self._db.execute(query, (world, key)).fetchone()
        return None if found is None else Kept(*found)

    def put(self, world: str, key: str, kept: Kept) -> None:
        """Reserve a key, or fill its answer in."""
        with _told():
            self._db.execute(
                "INSERT OR REPLACE INTO answer VALUES(?,?,?,?,?,?,?,?)", (world, key, *kept)
            )

    def drop(self, world: str, key: str) -> None:
        """Forget a key: its request was refused and changed nothing."""
        with _told():
            self._db.execute("DELETE FROM answer WHERE world=? AND key=?", (world, key))

    def expire(self, before_ns: int) -> None:
        """Forget what is older than every window."""
        with _told():
            self._db.execute("DELETE FROM answer WHERE at_ns < ?", (before_ns,))

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


@contextmanager
def _told() -> Iterator[None]:
    """Says in our own words that there is no room for an answer."""
    try:
        yield
    except apsw.FullError as why:
        raise DiskFull("the disk is full; the answer to a key cannot be kept") from why
