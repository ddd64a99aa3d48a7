"""What every journal refuses, in one wording."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

import apsw

from tallystick.errors import (
    Conflict,
    DiskFull,
    JournalCorrupt,
    Rejected,
    TallyError,
    UnknownName,
)
from tallystick.values import canon

BLOB_DAMAGED: Final = "journal.blob_damaged"


def unknown_world(name: str) -> UnknownName:
    """Nobody began a world of this name or id."""
    return UnknownName(
        f"no world {name} in this journal", code="world.unknown", where={"world": name}
    )


def world_exists(world: str) -> Conflict:
    """A fork would replace a history."""
    return Conflict(
        f"there is a world {world} already",
        code="world.exists",
        where={"world": world},
        hint="fork under a new id",
    )


def world_has_forks(world: str, forks: list[str]) -> Conflict:
    """Forks read their parent's frames and blobs."""
    return Conflict(
        f"world {world} has {len(forks)} forks that read its frames",
        code="world.has_forks",
        where={"world": world, "forks": forks[:10]},
        hint="remove the forks first",
    )


def no_snapshot(world: str, seq: int) -> UnknownName:
    """Only a snapshot can be pinned."""
    return UnknownName(
        f"world {world} has no snapshot at seq {seq}",
        code="journal.no_snapshot",
        where={"world": world, "seq": seq},
        hint="list the snapshots and take one of their sequences",
    )


def trimmed(world: str, base: int) -> UnknownName:
    """What was below the floor is in the archive."""
    return UnknownName(
        f"the journal of world {world} begins behind seq {base}",
        code="journal.trimmed",
        where={"world": world, "base_seq": base},
        hint="read from the floor on, or look into the archive that the trim made",
    )


def damaged_blob(digest: bytes, why: str) -> JournalCorrupt:
    """Bytes that are not what their name says are never given out."""
    return JournalCorrupt(
        f"blob {digest.hex()} is damaged: {why}",
        code=BLOB_DAMAGED,
        where={"blob": canon.text_of(digest)},
        hint="put the same bytes back: PUT W/blobs from a backup",
    )


def unwritable(path: Path, why: Exception, code: str) -> TallyError:
    """A place that somebody named, where this process cannot write or where there is no room."""
    if isinstance(why, apsw.FullError) or getattr(why, "errno", 0) in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no room for {path}", where={"path": str(path)})
    return Rejected(
        f"cannot write to {path}: {getattr(why, 'strerror', None) or why}",
        code=code,
        where={"path": str(path)},
        hint="name a place on the node's machine where the node may write",
    )
