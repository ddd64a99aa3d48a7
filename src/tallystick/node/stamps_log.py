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
from tallystick.reactions.stamps import Stamp, Stamps, stamp_of
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
            stamp = _told(line, self._kept)
            if stamp is not None:
                into.add(stamp)
                found += 1
        return found


def _told(line: bytes, kept: Kept) -> Stamp | None:
    """The stamp of another world in a line; None for one that was torn, or that is no stamp.

    Whoever may write the directory may write anything there.
    """
    try:
        told = canon.decode(base64.b64decode(line, validate=True))
    except (binascii.Error, NotCanonical):
        return None
    match told:
        case {"$type": "announced@1", "world": str(world), "stamp": {**fields}}:
            return None if world == kept.world else _stamp(fields, kept, world)
        case _:
            return None


def _stamp(fields: dict[Any, Any], kept: Kept, world: str) -> Stamp | None:
    try:
        made = stamp_of(kept.workspace_id, fields, world)
    except (KeyError, TypeError, AttributeError, ValueError):
        return None
    words = (made.reaction, made.run_id, made.run_key, made.definition_hash, *made.lineage)
    maybe = (made.post_id, made.root_trigger_id)
    sound = all(isinstance(each, str) for each in (*words, *(m for m in maybe if m is not None)))
    return made if sound and isinstance(made.depth, int) else None
