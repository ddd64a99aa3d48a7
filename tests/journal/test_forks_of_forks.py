"""Forks of forks: each shares the frames of the world that wrote them, however it was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.errors import Conflict
from tallystick.journal.backup import backup, check_backup
from tallystick.journal.collect import Trim
from tallystick.journal.imports import verify_export
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.journal.verify import verify
from tallystick.model.records import ReceiptSettled
from tallystick.node.rollback import settled_since
from tallystick.views.journal import entries
from tests.journal.damage import grown
from tests.journal.test_export import export_of
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import NODE, WORLD, Rig
from tests.sweeps import trim
from tests.worlds import CREATED, created


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = grown(tmp_path / "data")
    yield made
    made.journal.close()


def store(rig: Rig) -> SqliteJournal:
    assert isinstance(rig.journal, SqliteJournal)
    return rig.journal


def settled(rig: Rig, since: int) -> list[int]:
    """Where receipts settled in a world behind a sequence."""
    found = entries(rig.journal.read(rig.world.id, since))
    return [each.seq for each in found if isinstance(each.record, ReceiptSettled)]


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I7", "I10")
@pytest.mark.parametrize("before", [0, 6])
def test_a_fork_of_a_fork_at_what_its_parent_inherited(
    rig: Rig, tmp_path: Path, before: int
) -> None:
    """06 section 11: a fork of a fork, at or before the point where that one was forked: it is
    sound, alone in a file and in a backup too.
    """
    child = child_rig(rig, 1, 20)
    child.send(CREATED, created("only-here"))
    child.settle(child.jobs.all[-1], {"ref": "only-here"})
    at = next(f.last for f in store(rig).read(WORLD) if f.last >= 20) - before
    late = child_rig(child, 2, at)
    late.send(CREATED, created("only there"))
    for world in (WORLD, child_id(1), child_id(2)):
        verdict = verify(store(rig), world)
        assert verdict.ok, (world, verdict.first_bad)
    assert verify(store(rig), child_id(2)).root == late.root()
    told = settled_since(store(rig), child_id(1), child_id(2))
    assert [row["seq"] for row in told] == settled(child, at)
    assert verify_export(export_of(late, tmp_path / "late.tally")).ok
    reader = SqliteReader(store(rig).folder)
    backup(reader, tmp_path / "kept")
    reader.close()
    assert len(check_backup(tmp_path / "kept").worlds) == 3


@pytest.mark.invariant("I7", "I21")
def test_a_trim_sees_the_forks_of_its_forks(rig: Rig, tmp_path: Path) -> None:
    """K-44: frames that a fork of a fork reads are not cut off below it."""
    first, second = [row.seq for row in store(rig).snapshots(WORLD)]
    child = child_rig(rig, 1, second + 1)
    late = child_rig(child, 2, first - 3)
    late.send(CREATED, created("only there"))
    wanted = late.root()
    with pytest.raises(Conflict) as caught:
        trim(store(rig), Trim(WORLD, second, tmp_path / "archive", NODE, 77))
    assert (caught.value.code, caught.value.where["forks"]) == ("trim.pinned", [child_id(2)])
    assert verify(store(rig), child_id(2)).root == wanted


@pytest.mark.invariant("I10")
def test_what_a_parent_has_got_since_is_not_there_for_its_fork(rig: Rig) -> None:
    """ND-23: a blob that a fork has lost is missing, whatever its parent holds behind the fork: the
    fork does not see that.
    """
    child = child_rig(rig, 1, 20)
    for each in (child, rig):
        each.send(CREATED, created("o" * 9_000))
    both = dict(store(rig).blobs(child_id(1))).keys() & dict(store(rig).blobs(WORLD)).keys()
    assert both
    assert verify(store(rig), child_id(1)).ok
    store(rig)._db.execute("DELETE FROM blob WHERE world=2")
    found = verify(store(rig), child_id(1))
    assert found.blobs["missing"] == len(both)
    assert verify(store(rig), WORLD).ok
