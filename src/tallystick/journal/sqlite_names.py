"""Where the bytes behind a name lie in `tally.db`: blobs by their digests, nodes at their places.

A node of an index is put behind all that its world has put before, so that what is written together
lies together, and reading one needs no index of digests (ADR 0037).
Its number in the table is that of its world, shifted, and its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from tallystick.journal.refusals import damaged_blob
from tallystick.kernel.index import PLACE, bare

NODE_TABLE: Final = """
CREATE TABLE node(
  id INTEGER PRIMARY KEY, hash BLOB NOT NULL, body BLOB NOT NULL, added_seq INTEGER NOT NULL);
"""
PUT_BLOB: Final = "INSERT OR IGNORE INTO blob VALUES(?, ?, ?, ?, ?)"
PUT_NODE: Final = "INSERT INTO node VALUES(?, ?, ?, ?)"  # nothing lies there, or all of it fails
DROP_NODES: Final = "DELETE FROM node WHERE id BETWEEN ? AND ?"
LAST_NODE: Final = "SELECT max(id) FROM node WHERE id BETWEEN ? AND ?"
_BLOB: Final = "FROM blob WHERE world=? AND hash=?"
_NODE: Final = "FROM node WHERE id=? AND hash=?"
_MEND_BLOB: Final = (
    "INSERT INTO blob VALUES(?1, ?2, ?3, ?4, 0) ON CONFLICT DO UPDATE SET size=?3, body=?4"
)
# Where another node lies it is left alone.
_MEND_NODE: Final = (
    "INSERT INTO node VALUES(?1, ?2, ?3, 0) ON CONFLICT DO UPDATE SET body=?3 WHERE hash=?2"
)
_BITS: Final = 8 * PLACE

Query = tuple[str, tuple[Any, ...]]


def nodes_of(world: int) -> tuple[int, int]:
    """The first and the last number that a node of a world may have."""
    return world << _BITS, (world + 1 << _BITS) - 1


def place_of(number: int) -> bytes:
    """The place behind the number of a node."""
    return (number & (1 << _BITS) - 1).to_bytes(PLACE, "big")


def _number(world: int, name: bytes) -> int:
    return world << _BITS | int.from_bytes(name[32:], "big")


def at(world: int, name: bytes, what: str, more: str = "", *values: Any) -> Query:
    """A statement about what lies under a name in a world."""
    if name[32:]:
        return f"{what} {_NODE}{more}", (_number(world, name), name[:32], *values)
    return f"{what} {_BLOB}{more}", (world, name, *values)


def older(world: int, name: bytes, seq: int) -> Query:
    """The size of what lies under a name and was added before a sequence; is it a file?"""
    told = "length(body), 0" if name[32:] else "size, body IS NULL"
    return at(world, name, f"SELECT {told}", " AND added_seq<?", seq)


def blob_rows(
    world: int, blobs: Mapping[bytes, bytes], seq: int, spill: int
) -> Iterator[tuple[Any, ...]]:
    """The rows of what has no place; large ones are files."""
    for name, data in blobs.items():
        if not name[32:]:
            yield world, name, len(data), data if len(data) <= spill else None, seq


def node_rows(world: int, blobs: Mapping[bytes, bytes], seq: int) -> Iterator[tuple[Any, ...]]:
    """The rows of what has one."""
    for name, data in blobs.items():
        if name[32:]:
            yield _number(world, name), name[:32], data, seq


def mended(world: int, name: bytes, data: bytes, *, large: bool) -> Query:
    """A statement that puts sound bytes under a name."""
    if name[32:]:
        return _MEND_NODE, (_number(world, name), name[:32], data)
    return _MEND_BLOB, (world, name, len(data), None if large else data)


def whole(name: bytes, data: bytes) -> bytes:
    """The bytes of a node, which must be what its name says."""
    if not is_whole(name, data):
        raise damaged_blob(name[:32], "its bytes do not match its name")
    return data


def is_whole(name: bytes, data: bytes) -> bool:
    """True for the bytes that a name was given for."""
    return sha256(bare(data) if name[32:] else data).digest() == name[:32]
