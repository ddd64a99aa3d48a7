"""Settling what an attempt left that was killed in the middle of a change."""

from __future__ import annotations

from tallystick.executors.file_beneath import PathError
from tallystick.executors.file_change import (
    CONFLICT,
    Change,
    Placed,
    id_of,
    move_back,
    remove_stage,
    swap_back,
)


def recover(change: Change) -> Placed | None:
    """Settle what an earlier attempt left; not None when it had done the whole act."""
    left = change.content(change.stage)
    if left is None:
        return None
    if change.wanted is None:
        return _recover_delete(change, left)
    done = change.content(change.name) == change.wanted
    found = None if left == change.wanted else id_of(left)
    foreign = not change.overwrite and not change.expect.allows(found)
    # The beginning of our own bytes may be a torn stage file, which must never be put in place.
    if done and foreign and not change.wanted.startswith(left):
        swap_back(change)
        raise PathError("conflict", CONFLICT, "the file held bytes that were not expected")
    if not change.expect.names(found) and not change.wanted.startswith(left):
        change.blobs.put(left)
    remove_stage(change)
    return Placed(found, "recovered") if done else None


def _recover_delete(change: Change, left: bytes) -> Placed:
    """The target was moved away and not yet removed: the delete took place, if it was allowed."""
    found = id_of(left)
    if not change.expect.allows(found) and not change.overwrite:
        move_back(change)
        raise PathError("conflict", CONFLICT, "the file held bytes that were not expected")
    if not change.expect.names(found):
        change.blobs.put(left)
    remove_stage(change)
    return Placed(found, "recovered")
