"""Imports: there whole or not at all, under a name that is free, with all that was in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tallystick.errors import Conflict, DiskFull
from tallystick.journal.base import Append, Full, Outcome
from tallystick.journal.collect import Trim
from tallystick.journal.imports import import_world
from tallystick.journal.lineage import is_unfinished
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import verify
from tallystick.kernel.roots import root
from tallystick.node.worlds import world_at
from tests.journal.damage import grown
from tests.journal.test_export import export_of
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import NODE, WORLD, Rig
from tests.sweeps import sweep, trim
from tests.worlds import CREATED, created


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = grown(tmp_path / "data")
    yield made
    made.journal.close()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    made = SqliteJournal(tmp_path / "other")
    yield made
    made.close()


# ---- whole or not at all ------------------------------------------------------------------------


class Short(SqliteJournal):
    """A journal that takes so many commits with frames, and has no room for more."""

    left = 0

    def append(self, *batch: Append) -> list[Outcome]:
        if any(each.frames for each in batch):
            self.left -= 1
        return super().append(*batch) if self.left >= 0 else [Full(each.expect) for each in batch]


def test_an_import_that_finds_no_room_leaves_nothing(rig: Rig, tmp_path: Path) -> None:
    """F3: half a world is no world; with room again the same import is taken."""
    child = child_rig(rig, 1, 20)
    child.send(CREATED, created("only-here"))
    path = export_of(child, tmp_path / "fork.tally")
    journal = Short(tmp_path / "short")
    journal.left = 1  # the parent's frames, and none of the fork's
    with pytest.raises(DiskFull):
        import_world(path, journal, "copy")
    assert journal.worlds() == []
    assert journal.aliases() == {}
    journal.left = 100
    assert import_world(path, journal, "copy") == child_id(1)
    assert [row.state for row in journal.worlds()] == ["open", "open"]
    assert root(world_at(journal, child_id(1), rig.runner)) == child.root()
    journal.close()


class Killed(BaseException):
    """The process ends here."""


class Mortal(Short):
    """A journal whose process is killed instead."""

    dead = False

    def append(self, *batch: Append) -> list[Outcome]:
        outcomes = super().append(*batch)
        if isinstance(outcomes[0], Full):
            self.dead = True
            raise Killed
        return outcomes

    def drop_world(self, world: str) -> None:
        if self.dead:
            raise Killed  # nobody tidies up behind a kill
        super().drop_world(world)


@pytest.mark.invariant("I1")
def test_an_import_that_was_killed_is_not_taken_for_a_world(rig: Rig, tmp_path: Path) -> None:
    """F1: what a kill left of an import is dropped by the next start, or by the next import; it is
    never opened.
    """
    child = child_rig(rig, 1, 20)
    child.send(CREATED, created("only-here"))
    path = export_of(child, tmp_path / "fork.tally")
    journal = Mortal(tmp_path / "mortal")
    journal.left = 1
    with pytest.raises(Killed):
        import_world(path, journal, "copy")
    rows = journal.worlds()
    assert rows
    assert all(is_unfinished(row) for row in rows)
    journal.close()
    again = SqliteJournal(tmp_path / "mortal")
    assert import_world(path, again, "copy") == child_id(1)
    assert root(world_at(again, child_id(1), rig.runner)) == child.root()
    again.close()


def test_a_name_that_is_taken_is_not_taken_away(
    rig: Rig, tmp_path: Path, journal: SqliteJournal
) -> None:
    """04 section 9: whoever has the name keeps it; the import is refused before it begins."""
    path = export_of(rig, tmp_path / "shop.tally")
    journal.acquire(child_id(7))
    journal.alias("main", child_id(7))
    with pytest.raises(Conflict) as caught:
        import_world(path, journal, "main")
    assert caught.value.code == "world.exists"
    assert journal.resolve("main") == child_id(7)
    assert [row.world for row in journal.worlds()] == [child_id(7)]


# ---- afterwards ---------------------------------------------------------------------------------


def seqs(journal: SqliteJournal, world: str) -> Sequence[tuple[int, bool]]:
    return [(row.seq, row.pinned) for row in journal.snapshots(world)]


@pytest.mark.invariant("I21")
def test_an_imported_fork_keeps_its_snapshots(
    rig: Rig, tmp_path: Path, journal: SqliteJournal
) -> None:
    """K-44: the documents of its snapshots came with the blobs of its oldest world; a collection
    takes none of them, least of all one that is pinned.
    """
    child = child_rig(rig, 1, 20)
    child.send(CREATED, created("only-here"))
    child.driver.snapshot()
    rig.journal.pin(child_id(1), child.world.seq - 1)
    import_world(export_of(child, tmp_path / "fork.tally"), journal)
    before = seqs(journal, child_id(1))
    assert (child.world.seq - 1, True) in before
    for world in (child_id(1), WORLD):
        sweep(journal, world, 2**62)
    assert seqs(journal, child_id(1)) == before
    assert verify(journal, child_id(1)).ok


def test_a_fork_comes_back_beside_a_parent_that_begins_there(rig: Rig, tmp_path: Path) -> None:
    """04 section 13: a trim up to the fork point leaves the parent that the fork was made from."""
    journal = rig.journal
    assert isinstance(journal, SqliteJournal)
    at = journal.snapshots(WORLD)[-1].seq
    child = child_rig(rig, 1, at)
    child.send(CREATED, created("only-here"))
    path = export_of(child, tmp_path / "fork.tally")
    journal.drop_world(child_id(1))
    trimmed = trim(journal, Trim(WORLD, rig.world.seq, tmp_path / "archive", NODE, 77))
    assert trimmed.base.seq == at
    assert import_world(path, journal) == child_id(1)
    verdict = verify(journal, child_id(1))
    assert (verdict.ok, verdict.root) == (True, child.root())
