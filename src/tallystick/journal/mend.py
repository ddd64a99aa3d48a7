"""Mending: what may be made again is, what may not stops the world (04 section 13, F4).

A damaged blob is set aside and taken by its hash from a backup.
A damaged snapshot is dropped, unless the journal begins there; the node takes another.
Of a damaged journal nothing is ever cut off: the node that opens it stops that world.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tallystick.errors import TallyError
from tallystick.journal.chain import Finding
from tallystick.journal.lineage import floor_of, reaches
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import Verdict, verify
from tallystick.values import canon

Source = Callable[[bytes], bytes | None]
"""Where sound copies of blobs may be found by their hash: a backup."""


class Mended(NamedTuple):
    """What was done, for people, and how the journal stands now."""

    notices: tuple[str, ...]
    verdict: Verdict
    broken: bool
    """True when something is left that no sound copy of a blob would mend."""


def mend(journal: SqliteJournal, world: str, source: Source | None = None) -> Mended:
    """Repair what can be repaired, and say what cannot."""
    verdict = verify(journal, world)
    damaged = [canon.raw_of(found.where[5:]) for found in _of(verdict, "blob ")]
    notices = [_mend_blob(journal, world, digest, source) for digest in damaged]
    verdict = verify(journal, world) if notices else verdict
    floor = floor_of(journal.lineage(world)).seq
    for found in _of(verdict, "snapshot "):
        seq = int(found.where[9:])
        if seq == floor:
            continue  # what stands below it was trimmed: it cannot be made again
        journal.drop_snapshots(world, seq)
        notices.append(f"{found.where} was dropped ({found.what}); the node takes another")
    verdict = verify(journal, world) if notices else verdict
    lost = [found.where.removeprefix("blob sha256:") for found in _of(verdict, "blob ")]
    # What only says that a blob is missing to it is whole again with that blob.
    left = [
        found
        for found in verdict.findings
        if not (found.where.startswith("blob ") or any(name in found.what for name in lost))
    ]
    if left:
        first = min(left)
        notices.append(f"the journal is damaged at seq {first.seq} ({first.what})")
    return Mended(tuple(notices), verdict, bool(left))


def _of(verdict: Verdict, begin: str) -> list[Finding]:
    """One finding of each place that begins so."""
    found = {f.where: f for f in reversed(verdict.findings) if f.where.startswith(begin)}
    return sorted(found.values())


def _mend_blob(journal: SqliteJournal, world: str, digest: bytes, source: Source | None) -> str:
    name = canon.text_of(digest)
    data = None if source is None else source(digest)
    if data is None or canon.digest_of(data) != digest:
        return f"blob {name} is damaged and no sound copy was found; name a backup"
    reach = reaches(journal.lineage(world))
    owner = next((w for w, upto in reach if 0 <= journal.added(w, digest) <= upto), world)
    try:
        whole = journal.blob(owner, digest) is not None
    except TallyError:
        whole = False
    if not whole:
        journal.mend_blob(owner, digest, data)
    return f"blob {name} was restored by its hash"
