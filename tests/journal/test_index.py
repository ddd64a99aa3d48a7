"""The derived index: following equals rebuilding, deleting it costs nothing, and it is right."""

from __future__ import annotations

from pathlib import Path
from random import Random

import apsw
import pytest

from tallystick.errors import DiskFull
from tallystick.journal.base import Append
from tallystick.journal.index import FILE, Index
from tallystick.journal.memory import MemoryJournal
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_tables import one
from tallystick.kernel.roots import root
from tallystick.model.frames import open_frame
from tallystick.model.records import KIND_OF
from tallystick.node.worlds import world_at
from tests.journal.damage import grown
from tests.journal.test_journal import Writer
from tests.kernel import mixed
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import WORLD, Rig


@pytest.fixture(scope="module")
def rig() -> Rig:
    made = mixed.mixed_rig()
    mixed.play(made)
    return made


def followed(rig: Rig, folder: Path, world: str = WORLD) -> Index:
    index = Index(folder)
    assert index.follow(rig.journal, world) == rig.journal.head(world).seq
    return index


def recorded(rig: Rig) -> list[tuple[int, object]]:
    """Every record with its sequence, straight from the frames."""
    found: list[tuple[int, object]] = []
    for frame in rig.journal.read(WORLD):
        found += enumerate(open_frame(frame.body)[3], frame.seq)
    return found


@pytest.mark.clause("K-43")
@pytest.mark.parametrize("seed", range(8))
def test_following_equals_rebuilding(rig: Rig, tmp_path: Path, seed: int) -> None:
    """ND-24: by any steps, with the index closed and opened between them, the same rows come."""
    frames = list(rig.journal.read(WORLD))
    chance = Random(seed)
    copy = MemoryJournal()
    head = Writer(copy).head
    (tmp_path / "steps").mkdir()
    (tmp_path / "whole").mkdir()
    index = Index(tmp_path / "steps")
    while frames:
        size = chance.choice((1, 2, 7, 40))
        part, frames = frames[:size], frames[size:]
        (head,) = copy.append(Append(WORLD, part, head, {}))  # type: ignore[assignment]
        if chance.random() < 0.7:
            index.follow(copy, WORLD)
        if chance.random() < 0.2:
            index.close()
            index = Index(tmp_path / "steps")
    index.follow(copy, WORLD)
    whole = followed(rig, tmp_path / "whole")
    assert index.dump() == whole.dump()
    index.close()
    whole.close()


def test_rows_are_what_the_frames_say(rig: Rig, tmp_path: Path) -> None:
    """04 section 3: pages by kind, by intent and by cell hold exactly the records about them."""
    index = followed(rig, tmp_path)
    records = recorded(rig)
    rows = index.records(WORLD, limit=10_000)
    assert [(row.seq, row.kind) for row in rows] == [(s, KIND_OF[type(r)]) for s, r in records]
    for kind in ("event", "tick", "receipt", "dropped"):
        wanted = [seq for seq, record in records if KIND_OF[type(record)] == kind]
        assert wanted
        assert [row.seq for row in index.records(WORLD, limit=10_000, kind=kind)] == wanted
    intent = next(record.intent for _, record in records if hasattr(record, "judged"))  # type: ignore[attr-defined]
    about = [seq for seq, record in records if getattr(record, "intent", None) == intent]
    assert [row.seq for row in index.records(WORLD, intent=intent)] == about
    pages: list[int] = []
    while page := index.records(WORLD, after=pages[-1] if pages else 0, limit=7):
        pages += [row.seq for row in page]
    assert pages == [seq for seq, _ in records]
    index.close()


def test_intents_and_cells_are_the_worlds(rig: Rig, tmp_path: Path) -> None:
    """04 section 3: what is open, held or tried again, and every cell with its state, agrees with
    the folded world.
    """
    index = followed(rig, tmp_path)
    world = rig.world
    open_ = {row.intent: row for row in index.intents(WORLD, limit=10_000, status="open")}
    assert open_.keys() == {path for path, _ in world.intents.entries()}
    for path, intent in world.intents.entries():
        row = open_[path]
        assert (row.effect, row.attempts) == (intent.record.effect, intent.attempt)
        assert row.hold == (None if intent.hold is None else intent.hold["kind"])
    cells = {(row.workflow, row.key): row for row in index.cells(WORLD, limit=10_000)}
    there = {(c.id.workflow, c.id.key): c for s in world.cells.values() for _, c in s.entries()}
    assert there
    for ident, cell in there.items():
        if cell.state_hash is not None:
            row_of = cells[ident]
            assert row_of.state_hash == cell.state_hash
            assert row_of.inflight == len(cell.inflight)
    gone = [ident for ident in cells if ident not in there]
    assert gone == []
    first = index.cells(WORLD, limit=2)
    rest = index.cells(WORLD, after=(first[-1].workflow, first[-1].key_hash), limit=10_000)
    assert first + rest == index.cells(WORLD, limit=10_000)
    index.close()


def test_an_idempotency_key_is_found(rig: Rig, tmp_path: Path) -> None:
    """K-09: the key of an event leads to its sequence and the digest of what came with it."""
    index = followed(rig, tmp_path)
    keyed = [(s, r.idem_key) for s, r in recorded(rig) if getattr(r, "idem_key", None)]  # type: ignore[attr-defined]
    assert keyed
    for seq, idem in keyed:
        assert index.ingress(WORLD, idem.key) == (idem.digest, seq)
    assert index.ingress(WORLD, b"never sent") is None
    index.close()


@pytest.mark.clause("K-43")
@pytest.mark.invariant("I2")
def test_deleting_what_is_derived_changes_no_root(tmp_path: Path) -> None:
    """ND-24: without index and snapshots the world opens to the same root; the index comes back."""
    rig = grown(tmp_path)
    wanted = rig.root()
    journal = rig.journal
    assert isinstance(journal, SqliteJournal)
    before = followed(rig, tmp_path)
    rows = before.dump()
    before.close()
    for path in tmp_path.glob(FILE + "*"):
        path.unlink()
    journal._db.execute("DELETE FROM snapshot")
    assert root(world_at(journal, WORLD, rig.runner)) == wanted
    again = followed(rig, tmp_path)
    assert again.dump() == rows
    again.close()
    journal.close()


def test_a_damaged_index_is_made_again(rig: Rig, tmp_path: Path) -> None:
    """04 section 13: garbage, another version, a damaged page: rebuilt, with a notice."""
    index = followed(rig, tmp_path)
    rows = index.dump()
    assert not index.rebuilt
    index.close()
    path = tmp_path / FILE
    whole = path.read_bytes()
    other = apsw.Connection(str(path))
    other.execute("PRAGMA user_version=99")
    other.close()
    pages = bytearray(whole)
    pages[4096:] = bytes(len(pages) - 4096)
    for damaged in (b"garbage" * 1000, path.read_bytes(), bytes(pages)):
        path.write_bytes(damaged)
        again = followed(rig, tmp_path)
        assert again.rebuilt
        assert again.dump() == rows
        again.close()


def test_another_history_is_forgotten(rig: Rig, tmp_path: Path) -> None:
    """04 section 3: an index that stands at a frame which is not in the journal begins again."""
    index = followed(rig, tmp_path)
    journal = MemoryJournal()
    Writer(journal).write(1, 2, 1)
    assert index.follow(journal, WORLD) == 4
    assert [row.seq for row in index.records(WORLD)] == [1, 2, 3, 4]
    assert {row.kind for row in index.records(WORLD)} == {"note"}
    assert index.intents(WORLD) == index.cells(WORLD) == []
    index.close()


@pytest.mark.clause("X-08")
def test_a_fork_has_its_prefix_in_the_index(tmp_path: Path) -> None:
    """X-08: rows of a fork are its parent's up to the fork point, then its own."""
    rig = mixed.mixed_rig()
    mixed.play(rig)
    child = child_rig(rig, 1, None)
    index = followed(rig, tmp_path)
    assert index.follow(rig.journal, child_id(1)) == child.world.seq
    parents = index.records(WORLD, limit=10_000)
    own = index.records(child_id(1), limit=10_000)
    assert own[: len(parents)] == parents
    assert own[len(parents)].kind == "lifecycle"
    held = {path: i.hold for path, i in child.world.intents.entries()}
    rows = {row.intent: row.hold for row in index.intents(child_id(1), limit=10_000, status="open")}
    assert rows == {path: None if hold is None else hold["kind"] for path, hold in held.items()}
    assert any(rows.values())
    index.forget(child_id(1))
    assert index.applied(child_id(1)) == 0
    assert index.records(WORLD, limit=10_000) == parents
    index.close()


def test_an_index_without_room_is_told_as_such(tmp_path: Path, rig: Rig) -> None:
    """F3: the journal is whole; who asks is told why there is no answer, and asks again later."""
    index = Index(tmp_path)
    (pages,) = one(index._db, "PRAGMA page_count")
    index._db.execute(f"PRAGMA max_page_count={pages}").fetchall()
    with pytest.raises(DiskFull):
        index.follow(rig.journal, WORLD)
    index._db.execute("PRAGMA max_page_count=100000").fetchall()
    assert index.follow(rig.journal, WORLD) == rig.world.seq
    index.close()
