"""Collecting and trimming: nothing that is needed goes, and what goes can be proven."""

# tidy: collecting and trimming are told over one history.
from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tallystick.errors import Conflict, Rejected, UnknownName
from tallystick.journal.base import Append, Head
from tallystick.journal.collect import Trim, archived, marks_of, move_floor, thin
from tallystick.journal.export import export_jsonl
from tallystick.journal.imports import import_world, verify_export
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import verify
from tallystick.kernel.roots import root
from tallystick.node.worlds import world_at
from tests.journal.damage import grown
from tests.journal.test_export import export_of
from tests.journal.test_journal import blob
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import NODE, WORLD, Rig
from tests.sweeps import keep_only, sweep, trim
from tests.worlds import CREATED, created


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = grown(tmp_path / "data")
    yield made
    made.journal.close()


def store(rig: Rig) -> SqliteJournal:
    assert isinstance(rig.journal, SqliteJournal)
    return rig.journal


def orphan(rig: Rig, text: str) -> bytes:
    """A blob that nothing names."""
    data = blob(text)
    (head,) = store(rig).append(Append(WORLD, [], rig.driver.head, data))
    assert isinstance(head, Head)
    return next(iter(data))


# ---- collecting -------------------------------------------------------------------------------


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_only_orphans_go(rig: Rig) -> None:
    """ND-26: after a sweep the world verifies, and every past and every snapshot still opens."""
    gone = orphan(rig, "nobody wants me")
    rig.send(CREATED, created("and time passes"))
    before = {digest for digest, _ in store(rig).blobs(WORLD)}
    pasts = {seq: root(world_at(store(rig), WORLD, rig.runner, seq=seq)) for seq in (5, 20, 40)}
    swept = sweep(store(rig), WORLD, 2**62)
    assert swept.blobs >= 1
    left = {digest for digest, _ in store(rig).blobs(WORLD)}
    assert gone in before - left
    assert verify(store(rig), WORLD).ok
    assert root(world_at(store(rig), WORLD, rig.runner)) == rig.root()
    for seq, wanted in pasts.items():
        assert root(world_at(store(rig), WORLD, rig.runner, seq=seq)) == wanted
    assert sweep(store(rig), WORLD, 2**62) == (0, 0)


@pytest.mark.clause("K-44")
def test_young_orphans_stay(rig: Rig) -> None:
    """04 section 13: what was added after the grace began is not touched."""
    young = orphan(rig, "just uploaded")
    assert sweep(store(rig), WORLD, 1).blobs == 0
    assert young in dict(store(rig).blobs(WORLD))


def test_marking_too_little_is_found(rig: Rig) -> None:
    """ND-26, control: a sweep that keeps one blob or one node too few is found by verify."""
    keep = sorted(marks_of(store(rig), WORLD) & {d for d, _ in store(rig).blobs(WORLD)})
    for placed in (False, True):
        documents = {row.document for row in store(rig).snapshots(WORLD)}
        gone = next(name for name in keep if name not in documents and bool(name[32:]) == placed)
        data = store(rig).blob(WORLD, gone)
        assert data is not None
        keep_only(store(rig), WORLD, frozenset(keep) - {gone})
        assert not verify(store(rig), WORLD).ok
        store(rig).mend_blob(WORLD, gone, data)
        assert verify(store(rig), WORLD).ok


@pytest.mark.invariant("I7", "I21")
def test_a_fork_pins_what_it_reads(rig: Rig) -> None:
    """ND-26: sweeping the parent leaves every fork whole."""
    child = child_rig(rig, 1, 20)
    child.send(CREATED, created("only-here"))
    child.driver.snapshot()
    wanted = child.root()
    sweep(store(rig), WORLD, 2**62)
    sweep(store(rig), child_id(1), 2**62)
    assert verify(store(rig), child_id(1)).ok
    assert root(world_at(store(rig), child_id(1), rig.runner)) == wanted


def test_old_snapshots_are_thinned(rig: Rig) -> None:
    """04 section 8: the newest stay, and those that are pinned."""
    rig.driver.snapshot()
    first, second, third = [row.seq for row in store(rig).snapshots(WORLD)]
    store(rig).pin(WORLD, first)
    assert thin(store(rig), WORLD, 1) == 1
    assert [row.seq for row in store(rig).snapshots(WORLD)] == [first, third]
    sweep(store(rig), WORLD, 2**62)
    assert verify(store(rig), WORLD).ok
    assert second not in [row.seq for row in store(rig).snapshots(WORLD)]


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I7", "I21")
@pytest.mark.parametrize("seed", range(4))
def test_nothing_needed_goes_whatever_happens(rig: Rig, tmp_path: Path, seed: int) -> None:
    """ND-26: work, snapshots, pins, forks, thinning, sweeps and trims in any order: after each the
    world and its fork verify, with the live root.
    """
    chance = Random(seed)
    worlds = [rig]
    for step in range(14):
        deed = chance.choice(("send", "settle", "snapshot", "pin", "fork", "thin", "sweep", "trim"))
        if deed == "fork" and len(worlds) == 1:
            worlds.append(child_rig(rig, seed, None))
        else:
            do(rig, deed, chance, tmp_path / f"archive-{step}")
        for each in worlds:
            verdict = verify(store(rig), each.world.id)
            assert verdict.ok, (step, deed, verdict.first_bad)
            assert verdict.root == each.root()


def do(rig: Rig, deed: str, chance: Random, archive: Path) -> None:
    """One deed of the property above; a trim that is refused leaves everything as it was."""
    if deed == "send":
        rig.send(CREATED, created(archive.name))
    elif deed == "settle":
        open_ = [job for job in rig.jobs.all if rig.world.intents.get(job.intent) is not None]
        rig.settle(chance.choice(open_), {"ref": "r"})
    elif deed == "snapshot":
        rig.driver.snapshot()
    elif deed == "pin":
        store(rig).pin(WORLD, store(rig).snapshots(WORLD)[-1].seq)
    elif deed == "thin":
        thin(store(rig), WORLD, 1)
    elif deed == "sweep":
        sweep(store(rig), WORLD, 2**62)
    elif deed == "trim":
        with suppress(Conflict, UnknownName):
            trim(store(rig), Trim(WORLD, rig.world.seq, archive, NODE, 77))


# ---- trimming ---------------------------------------------------------------------------------


def order(rig: Rig, tmp_path: Path, before: int | None = None, name: str = "archive") -> Trim:
    return Trim(WORLD, before or rig.world.seq, tmp_path / name, NODE, 77)


def test_an_archive_that_cannot_be_written_is_refused(rig: Rig, tmp_path: Path) -> None:
    """04 section 13: the caller named it, so it is no failure of the node; nothing is cut."""
    records = rig.world.seq
    with pytest.raises(Rejected) as caught:
        trim(store(rig), order(rig, tmp_path / "nowhere"))
    assert caught.value.code == "trim.unwritable"
    assert verify(store(rig), WORLD).records == records


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I10")
def test_a_trim_leaves_a_verifiable_floor(rig: Rig, tmp_path: Path) -> None:
    """ND-26: below the floor everything is in an archive that verifies; above it the journal does,
    and the world goes on.
    """
    wanted, records = rig.root(), rig.world.seq
    at = store(rig).snapshots(WORLD)[-1].seq
    trimmed = trim(store(rig), order(rig, tmp_path))
    assert trimmed.base.seq == at
    assert trimmed.swept.blobs > 0
    verdict = verify(store(rig), WORLD)
    assert verdict.ok, verdict.first_bad
    assert verdict.records == records - at
    assert verdict.root == wanted
    assert root(world_at(store(rig), WORLD, rig.runner)) == wanted
    archived = verify_export(tmp_path / "archive")
    assert (archived.ok, archived.records, archived.root) == (True, records, wanted)
    with pytest.raises(UnknownName) as caught:
        list(store(rig).read(WORLD))
    assert caught.value.code == "journal.trimmed"
    rig.send(CREATED, created("after the trim"))
    rig.settle(rig.jobs.all[7], {"ref": "opened before the floor"})
    verdict = verify(store(rig), WORLD)
    assert verdict.ok, verdict.first_bad
    assert verdict.receipts == {"sealed": 1, "bad": 0}
    assert root(rig.reopened().world) == rig.root()


def test_a_floor_that_nobody_signed_is_found(rig: Rig, tmp_path: Path) -> None:
    """ND-26, control: frames cut off below without a signed floor, or behind another one."""
    trim(store(rig), order(rig, tmp_path))
    db = store(rig)._db
    for change in (
        "DELETE FROM checkpoint",
        "UPDATE world SET base_hash=zeroblob(32)",
        "UPDATE world SET base_seq=base_seq-1",
    ):
        db.execute("BEGIN")
        db.execute(change)
        assert not verify(store(rig), WORLD).ok, change
        db.execute("ROLLBACK")
    assert verify(store(rig), WORLD).ok


def test_a_trim_is_refused_where_something_needs_the_past(rig: Rig, tmp_path: Path) -> None:
    """ND-26: no snapshot, a pin, a fork, an archive that exists: refused, and nothing is gone."""
    first, second = [row.seq for row in store(rig).snapshots(WORLD)]
    with pytest.raises(UnknownName) as unknown:
        trim(store(rig), order(rig, tmp_path, before=first))
    assert unknown.value.code == "trim.no_snapshot"
    store(rig).pin(WORLD, first)
    with pytest.raises(Conflict) as caught:
        trim(store(rig), order(rig, tmp_path))
    assert caught.value.where["snapshots"] == [first]
    store(rig).pin(WORLD, first, pinned=False)
    child_rig(rig, 1, second - 9)
    with pytest.raises(Conflict) as caught:
        trim(store(rig), order(rig, tmp_path))
    assert (caught.value.code, caught.value.where["forks"]) == ("trim.pinned", [child_id(1)])
    store(rig).drop_world(child_id(1))
    (tmp_path / "archive").write_text("mine")
    with pytest.raises(Conflict) as caught:
        trim(store(rig), order(rig, tmp_path))
    assert caught.value.code == "trim.archive_exists"
    assert (tmp_path / "archive").read_text() == "mine"
    assert verify(store(rig), WORLD).records == rig.world.seq


def test_a_trimmed_world_travels(rig: Rig, tmp_path: Path) -> None:
    """04 section 9: an export of a trimmed world begins at its floor and verifies alone."""
    trim(store(rig), order(rig, tmp_path))
    path = export_of(rig, tmp_path / "short.tally")
    verdict = verify_export(path)
    assert verdict.ok, verdict.first_bad
    journal = SqliteJournal(tmp_path / "other")
    import_world(path, journal)
    assert root(world_at(journal, WORLD, rig.runner)) == rig.root()
    journal.close()


def test_lines_of_a_trimmed_world_begin_at_its_floor(rig: Rig, tmp_path: Path) -> None:
    """04 section 9: what is there is exported, and the head line says what that is."""
    base = trim(store(rig), order(rig, tmp_path)).base
    lines = [json.loads(line) for line in export_jsonl(store(rig), WORLD)]
    assert (lines[0]["from"], lines[0]["to"]) == (base.seq + 1, rig.world.seq)
    assert [line["seq"] for line in lines[1:-1]] == list(range(base.seq + 1, rig.world.seq + 1))
    with pytest.raises(UnknownName) as caught:
        list(export_jsonl(store(rig), WORLD, 1))
    assert caught.value.code == "journal.trimmed"


def test_a_fork_of_a_trimmed_world_stands_on_its_floor(rig: Rig, tmp_path: Path) -> None:
    """04 section 13: what signs the parent's floor signs where the fork's history begins, also in
    an export.
    """
    trim(store(rig), order(rig, tmp_path))
    child = child_rig(rig, 1, None)
    child.send(CREATED, created("only-here"))
    assert verify(store(rig), child_id(1)).ok
    path = export_of(child, tmp_path / "fork.tally")
    verdict = verify_export(path)
    assert verdict.ok, verdict.first_bad
    assert verdict.root == child.root()
    store(rig)._db.execute("DELETE FROM checkpoint")
    found = verify(store(rig), child_id(1)).first_bad
    assert found is not None
    assert found.where == "floor"


def test_a_trimmed_fork_travels_without_its_parent(rig: Rig, tmp_path: Path) -> None:
    """04 section 13: behind its own floor a fork needs its parent no more."""
    child = child_rig(rig, 1, 20)
    child.send(CREATED, created("only-here"))
    child.driver.snapshot()
    child.send(CREATED, created("behind the floor"))
    trimmed = trim(store(rig), Trim(child_id(1), child.world.seq, tmp_path / "old", NODE, 7))
    assert verify(store(rig), child_id(1)).ok
    path = export_of(child, tmp_path / "fork.tally")
    assert verify_export(path).ok
    journal = SqliteJournal(tmp_path / "other")
    import_world(path, journal)
    assert [(row.world, row.base.seq) for row in journal.worlds()] == [
        (child_id(1), trimmed.base.seq)
    ]
    assert root(world_at(journal, child_id(1), rig.runner)) == child.root()
    journal.close()


@pytest.mark.invariant("I10")
def test_nothing_is_cut_off_that_is_not_in_the_archive(rig: Rig, tmp_path: Path) -> None:
    """04 section 13: a node goes on while its journal is archived; a snapshot that it takes
    meanwhile is no floor, for what stands below it is not all in the archive.
    """
    at, records = store(rig).snapshots(WORLD)[-1].seq, rig.world.seq
    given = archived(store(rig), order(rig, tmp_path, before=10_000))
    rig.send(CREATED, created("behind the archive"))
    rig.driver.snapshot()
    base = move_floor(store(rig), given)
    assert base.seq == at
    held = verify_export(tmp_path / "archive")
    assert (held.ok, held.records) == (True, records)
    verdict = verify(store(rig), WORLD)
    assert verdict.ok, verdict.first_bad
    assert verdict.records == rig.world.seq - at
