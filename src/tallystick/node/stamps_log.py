"""The stamps of a directory that several worlds write: `DIR/.tally/stamps.log` (08 section 3).

Each write is announced there before it happens, so that each world recognises the other's bytes.
A line is one canonical document in base64; a torn last line ends at the next one's beginning.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

from tallystick.errors import NotCanonical
from tallystick.node.workspaces import STAMPS, STATE, Kept
from tallystick.reactions.stamps import Stamps, stamp_of
from tallystick.values import canon


class StampsLog:
    """Reads what other worlds announced, going on where it stopped."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._path = Path(kept.folder) / STATE / STAMPS
        self._offset = 0

    def read(self, into: Stamps) -> int:
        """Put foreign stamps that are new into a projection; how many there were."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole, _, _ = data.rpartition(b"\n")
        self._offset += len(whole) + 1 if whole else 0
        found = 0
        for line in whole.split(b"\n"):
            told = _told(line)
            if told is not None and told["world"] != self._kept.world:
                into.add(stamp_of(self._kept.workspace_id, told["stamp"], told["world"]))
                found += 1
        return found


def _told(line: bytes) -> dict[str, Any] | None:
    """What a line says; None for one that was torn."""
    try:
        told = canon.decode(base64.b64decode(line, validate=True))
    except (binascii.Error, NotCanonical):
        return None
    return told if isinstance(told, dict) and told.get("$type") == "announced@1" else None
