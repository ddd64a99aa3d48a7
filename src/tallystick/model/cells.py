"""Cells: their identity, their leaf in the index, and the chance that is derived for them.

A cell is one instance of a workflow.
Its key is the canonical document of its key value.
An unkeyed workflow has one cell, with the empty key.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

from tallystick.values import canon

RUNNING: Final = "running"
WAITING: Final = "waiting"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
SUSPENDED: Final = "suspended"
RESTING: Final = "resting"
"""What an entity between two events is shown as; it is derived and never recorded (D5)."""

TERMINAL: Final = frozenset({COMPLETED, FAILED})


class CellId(NamedTuple):
    """Which cell: workflow name and key bytes (empty for an unkeyed workflow)."""

    workflow: str
    key: bytes


# The preimage of child entropy is hashed for every tick: its fixed parts are encoded once.
_HEAD: Final = canon.PREFIX + canon.head(5, 6)
_KEY: Final = canon.put_key("key")
_SEQ: Final = canon.put_key("seq")
_TYPE: Final = canon.put_key("$type") + canon.put_text("stamp@1")
_INDEX: Final = canon.put_key("index")
_PARENT: Final = canon.put_key("parent")
_WORKFLOW: Final = canon.put_key("workflow")


def child_entropy(parent: bytes, cell: CellId, seq: int, index: int) -> bytes:
    """64 bytes for one delivery, a function of its parent's, its cell and its position (D4)."""
    seed = sha256(
        b"".join(
            (
                _HEAD,
                _KEY,
                canon.put_bytes(cell.key),
                _SEQ,
                canon.put_int(seq),
                _TYPE,
                _INDEX,
                canon.put_int(index),
                _PARENT,
                canon.put_bytes(parent),
                _WORKFLOW,
                canon.put_key(cell.workflow),
            )
        )
    ).digest()
    return sha256(seed + b"\x00").digest() + sha256(seed + b"\x01").digest()
