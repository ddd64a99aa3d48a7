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
from tallystick.journal.present import named
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import Verdict, verify
from tallystick.kernel.index import Leaf, bare, parse_node
from tallystick.values import canon

Source = Callable[[bytes], bytes | None]
"""Where sound copies of blobs and nodes may be found by their names: a backup."""


class Mended(NamedTuple):
    """What was done, for people, and how the journal stands now."""

    notices: tuple[str, ...]
    verdict: Verdict
    broken: bool
    """True when something is left that no sound copy of a blob would mend."""


def mend(journal: SqliteJournal, world: str, source: Source | None = None) -> Mended:
    """Repair what can be repaired, and say what cannot."""
    verdict = verify(journal, world)
    damaged = [named(found.where[5:]) for found in _of(verdict, "blob ")]
    notices = [_mend_blob(journal, world, name, source) for name in damaged]
    verdict = verify(journal, world) if notices else verdict
    floor = floor_of(journal.lineage(world)).seq
    undefined = {found.what for found in verdict.findings if found.where == "manifest"}
    for found in _of(verdict, "snapshot "):
        seq = int(found.where[9:])
        if seq == floor or found.what in undefined:
            # What stands below a floor was trimmed, and without a definition none can be made.
            continue
        journal.drop_snapshots(world, seq)
        notices.append(f"{found.where} was dropped ({found.what}); the node takes another")
    verdict = verify(journal, world) if notices else verdict
    lost = [named(found.where[5:])[:32].hex() for found in _of(verdict, "blob ")]
    # What only says that a blob is missing to it is whole again with that blob.
    left = [
        found
        for found in verdict.findings
        if not (found.where.startswith("blob ") or any(text in found.what for text in lost))
    ]
    if left:
        first = min(left)
        notices.append(f"the journal is damaged at seq {first.seq} ({first.what})")
    return Mended(tuple(notices), verdict, bool(left))


def _of(verdict: Verdict, begin: str) -> list[Finding]:
    """One finding of each place that begins so."""
    found = {f.where: f for f in reversed(verdict.findings) if f.where.startswith(begin)}
    return sorted(found.values())


def _mend_blob(journal: SqliteJournal, world: str, name: bytes, source: Source | None) -> str:
    said = canon.text_of(name[:32])
    data = None if source is None else source(name)
    if data is None or not _fits(name, data):
        return f"blob {said} is damaged and no sound copy was found; name a backup"
    reach = reaches(journal.lineage(world))
    owners = [w for w, upto in reach if 0 <= journal.added(w, name) <= upto]
    # Nobody knows whose a node was that is gone; where another lies it was not.
    line = [w for w, _ in reversed(reach)] if name[32:] else [world]
    for owner in owners[:1] or line:
        if not _is_sound(journal, owner, name):
            journal.mend_blob(owner, name, data)
        if _is_sound(journal, world, name):
            break
    return f"blob {said} was restored by its hash"


def _is_sound(journal: SqliteJournal, world: str, name: bytes) -> bool:
    try:
        return journal.blob(world, name) is not None
    except TallyError:
        return False


def _fits(name: bytes, data: bytes) -> bool:
    """True for the bytes of a name; a branch without the places of its children is no copy here."""
    covered = bare(data) if name[32:] else data
    if canon.digest_of(covered) != name[:32]:
        return False
    return not name[32:] or covered != data or isinstance(parse_node(data), Leaf)
