"""Mending: what may be made again is, a damaged journal stops its world."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tallystick.journal.mend import mend
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import verify
from tallystick.kernel.roots import root
from tallystick.node.worlds import world_at
from tallystick.values import canon
from tests.journal.damage import (
    DAMAGES,
    Case,
    blob_changed,
    blob_deleted,
    grown,
    node_changed,
    node_deleted,
    snapshot_changed,
)
from tests.rig import WORLD, Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = grown(tmp_path / "data")
    yield made
    made.journal.close()


def store(rig: Rig) -> SqliteJournal:
    assert isinstance(rig.journal, SqliteJournal)
    return rig.journal


def sound_copy(rig: Rig) -> dict[bytes, bytes]:
    found = {d: store(rig).blob(WORLD, d) for d, _ in store(rig).blobs(WORLD)}
    return {digest: data for digest, data in found.items() if data is not None}


@pytest.mark.parametrize("damage", [blob_changed, blob_deleted, node_changed, node_deleted])
def test_a_blob_is_restored_by_its_hash(rig: Rig, damage: object) -> None:
    """04 section 13, F4: quarantined and taken from a backup; without one it is only named."""
    copies = sound_copy(rig)
    wanted = rig.root()
    for turn in range(4):
        damage(Case(store(rig), Random(turn)))  # type: ignore[operator]
        assert not verify(store(rig), WORLD).ok
        left = mend(store(rig), WORLD)
        assert not left.broken
        assert not left.verdict.ok
        assert "no sound copy" in left.notices[0]
        lying = mend(store(rig), WORLD, lambda _digest: b"something else")
        assert not lying.verdict.ok
        done = mend(store(rig), WORLD, copies.get)
        assert done.verdict.ok, done.verdict.first_bad
        assert not done.broken
    assert root(world_at(store(rig), WORLD, rig.runner)) == wanted
    assert store(rig).worlds()[0].state == "open"


def test_a_definition_that_is_lost_is_only_named(rig: Rig) -> None:
    """04 section 13: a manifest misses its definition; with a copy all is whole, none is shut."""
    copies = sound_copy(rig)
    kept = {digest: data for digest, data in copies.items() if b"defeffect" in data}
    digest, data = min(kept.items())
    case = Case(store(rig), Random(1))
    case.run("UPDATE blob SET body=? WHERE hash=?", case.flip(data), digest)
    left = mend(store(rig), WORLD)
    assert not left.verdict.ok
    assert not left.broken
    assert any(found.where == "manifest" for found in left.verdict.findings)
    assert mend(store(rig), WORLD, copies.get).verdict.ok
    snapshots = store(rig).snapshots(WORLD)
    case.run("DELETE FROM blob WHERE hash=?", digest)
    left = mend(store(rig), WORLD)
    assert "no sound copy" in left.notices[0]
    assert not left.broken
    assert mend(store(rig), WORLD, copies.get).verdict.ok
    assert store(rig).snapshots(WORLD) == snapshots, "they were sound, but for the definition"
    assert store(rig).worlds()[0].state == "open"


def test_a_damaged_blob_file_is_set_aside(rig: Rig) -> None:
    """04 section 13: the damaged bytes stay for whoever wants to know, beside the sound file."""
    copies = sound_copy(rig)
    path = next(p for p in sorted(store(rig).files.folder.rglob("*")) if p.is_file())
    path.write_bytes(b"damaged")
    done = mend(store(rig), WORLD, copies.get)
    assert done.verdict.ok
    assert path.with_name(path.name + ".bad").read_bytes() == b"damaged"
    assert canon.digest_of(path.read_bytes()).hex() == path.name


def test_a_damaged_snapshot_is_dropped(rig: Rig) -> None:
    """04 section 13: a snapshot can be taken again, so it goes, with a notice; the root is kept."""
    snapshot_changed(Case(store(rig), Random(1)))
    done = mend(store(rig), WORLD)
    assert done.verdict.ok
    assert not done.broken
    assert len(store(rig).snapshots(WORLD)) == 1
    assert "was dropped" in done.notices[0]
    assert root(world_at(store(rig), WORLD, rig.runner)) == rig.root()


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("damage", DAMAGES[:7], ids=lambda damage: damage.__name__)
def test_a_damaged_middle_is_told_and_left(rig: Rig, damage: object) -> None:
    """AT-18, RL-18: it is said where, and not one frame more is gone than before."""
    damage(Case(store(rig), Random(3)))  # type: ignore[operator]
    left = store(rig)._db.execute("SELECT count(*), sum(length(body)) FROM frame").fetchall()
    done = mend(store(rig), WORLD, sound_copy(rig).get)
    assert done.broken
    assert not done.verdict.ok
    assert "the journal is damaged at seq" in done.notices[-1]
    again = store(rig)._db.execute("SELECT count(*), sum(length(body)) FROM frame").fetchall()
    assert again == left
