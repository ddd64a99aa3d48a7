"""Pieces that the hot encoders share: heads and keys, encoded beforehand."""

from __future__ import annotations

from typing import Final

from tallystick.values import canon

MAPS: Final = tuple(canon.head(5, n) for n in range(24))
DIGEST: Final = b"\x58\x20"  # the head of a digest
KEY: Final = canon.put_key("key")
KIND: Final = canon.put_key("kind")
SIZE: Final = canon.put_key("size")
STATUS: Final = canon.put_key("status")
TICK_SEQ: Final = canon.put_key("tick_seq")
TO_NONE: Final = canon.put_key("to") + canon.head(4, 0)
WORKFLOW: Final = canon.put_key("workflow")
WORKFLOW_HASH: Final = canon.put_key("workflow_hash") + DIGEST


def type_of(name: str) -> bytes:
    """The key of a record's type, and its name."""
    return canon.put_key("record") + canon.put_text(name)
