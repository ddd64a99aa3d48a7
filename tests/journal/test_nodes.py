"""Nodes of the index in a journal: they lie at their places, and are what their names say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from tallystick.journal.base import Append, Head, Journal
from tallystick.journal.collect import thin
from tallystick.journal.export import export_bundle
from tallystick.journal.imports import import_world
from tallystick.journal.memory import MemoryJournal
from tallystick.journal.mend import mend
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import verify
from tallystick.kernel.index import PLACE, bare
from tallystick.kernel.roots import root
from tallystick.node.worlds import open_driver, world_at
from tests.journal.test_journal import JOURNALS
from tests.kernel.test_fork import child_rig
from tests.rig import WORLD, Rig
from tests.sweeps import sweep
from tests.worlds import CREATED, FUNCTIONS, created, order_documents


@pytest.fixture(params=sorted(JOURNALS))
def any_rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made = rig_on(JOURNALS[request.param](tmp_path / "data"))
    yield made
    made.journal.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = rig_on(SqliteJournal(tmp_path / "data"))
    yield made
    made.journal.close()


def rig_on(journal: Journal) -> Rig:
    """A world with forty orders and a snapshot of them."""
    rig = Rig(order_documents(), FUNCTIONS, journal=journal)  # type: ignore[arg-type]
    ordered(rig, "o", 40)
    return rig


def ordered(rig: Rig, name: str, count: int = 6) -> None:
    for number in range(count):
        rig.send(CREATED, created(f"{name}-{number}"))
    rig.driver.snapshot()


def nodes(journal: Journal, world: str = WORLD) -> list[bytes]:
    return [name for name, _ in journal.blobs(world) if name[32:]]


def store(rig: Rig) -> SqliteJournal:
    assert isinstance(rig.journal, SqliteJournal)
    return rig.journal


def places(names: list[bytes]) -> list[int]:
    return sorted(int.from_bytes(name[32:], "big") for name in names)


@pytest.mark.clause("K-38")
def test_nodes_lie_in_the_order_in_which_they_were_made(any_rig: Rig) -> None:
    """ADR 0037: each has a place of its own, later ones lie behind, and none is a blob, too."""
    first = nodes(any_rig.journal)
    assert len(first) > 100
    assert len(set(places(first))) == len(first)
    assert places(first)[-1] < any_rig.journal.room(WORLD)
    ordered(any_rig, "later")
    later = set(nodes(any_rig.journal)) - set(first)
    assert min(places(list(later))) > places(first)[-1]
    for name in later:
        assert any_rig.journal.blob(WORLD, name) is not None
        assert any_rig.journal.blob(WORLD, name[:32]) is None
        assert any_rig.journal.added(WORLD, name) > 0
    assert any_rig.journal.room("0b7e4f7a-6b3c-4a57-9f0e-000000000099") == 1


@pytest.mark.clause("K-43")
def test_a_new_start_goes_on_behind_all_that_lies_there(any_rig: Rig) -> None:
    """ADR 0037: places are never given twice, whether a snapshot names what lies there or not."""
    before = nodes(any_rig.journal)
    again = any_rig.reopened()
    ordered(again, "again")
    fresh = set(nodes(any_rig.journal)) - set(before)
    assert min(places(list(fresh))) > places(before)[-1]
    assert root(world_at(any_rig.journal, WORLD, again.runner)) == again.root()


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I7")
def test_a_fork_and_its_parent_give_the_same_places(any_rig: Rig) -> None:
    """I7: behind the fork point both use the same numbers for other nodes, and each reads its own;
    what they had in common is read from the parent.
    """
    child = child_rig(any_rig, 1, None)
    ordered(child, "child", 30)
    ordered(any_rig, "parent", 30)
    ours, theirs = nodes(any_rig.journal), nodes(any_rig.journal, child.world.id)
    assert set(places(ours)) & set(places(theirs)), "they met"
    for each in (any_rig, child):
        name = each.world.id
        assert root(world_at(each.journal, name, each.runner)) == each.root()
        assert each.world.cell_count == 70
        verdict = verify(each.journal, name)
        assert verdict.ok, verdict.first_bad


def as_before(journal: SqliteJournal) -> None:
    """The file as a release of format 1 would have left it: nodes are blobs."""
    for name in nodes(journal):
        data = journal.blob(WORLD, name)
        assert data is not None
        row = (1, name[:32], len(data), bare(data), 0)
        journal._db.execute("INSERT INTO blob VALUES(?, ?, ?, ?, ?)", row)
    journal._db.execute("DELETE FROM node")


def exported(journal: SqliteJournal, folder: Path) -> SqliteJournal:
    """A journal that took the world in from an export."""
    folder.mkdir(exist_ok=True)
    path = folder / "world.tally"
    with path.open("wb") as out:
        export_bundle(journal, WORLD, out)
    taken = SqliteJournal(folder / "other")
    import_world(path, taken)
    return taken


def as_exported(rig: Rig, folder: Path) -> SqliteJournal:
    return exported(store(rig), folder)


def as_upgraded(rig: Rig, _folder: Path) -> SqliteJournal:
    as_before(store(rig))
    return store(rig)


@pytest.mark.clause("K-44", "X-08")
@pytest.mark.invariant("I2", "I21")
@pytest.mark.parametrize("way", [as_exported, as_upgraded])
def test_nodes_without_places_are_found_and_replaced(
    rig: Rig, tmp_path: Path, way: Callable[[Rig, Path], SqliteJournal]
) -> None:
    """AT-40, ADR 0037: a world whose nodes are blobs opens, goes on with places, is swept and
    verified, and has the root that it would have had.
    """
    live = rig.root()
    journal = way(rig, tmp_path)
    assert not nodes(journal)
    assert root(world_at(journal, WORLD, rig.runner)) == live
    assert verify(journal, WORLD).ok
    # A sweep keeps what a snapshot names by places that mean nothing here.
    sweep(journal, WORLD, 2**62)
    assert root(world_at(journal, WORLD, rig.runner)) == live
    rig.journal = journal  # type: ignore[assignment]
    rig.driver = open_driver(rig.ports(), WORLD, rig.runner)
    ordered(rig, "more", 30)
    assert nodes(journal)
    wanted = rig.root()
    thin(journal, WORLD, 1)
    swept = sweep(journal, WORLD, 2**62)
    assert swept.blobs > 0, "blobs that were replaced by nodes"
    verdict = verify(journal, WORLD)
    assert verdict.ok, verdict.first_bad
    assert root(world_at(journal, WORLD, rig.runner)) == wanted
    again = exported(journal, tmp_path / "twice")
    assert root(world_at(again, WORLD, rig.runner)) == wanted
    again.close()


def test_nothing_is_put_over_a_node(rig: Rig) -> None:
    """ADR 0037: a commit that would is not made, whole."""
    taken = nodes(rig.journal)[0]
    other = bytes(32) + taken[32:]
    before = rig.journal.head(WORLD)
    with pytest.raises(apsw.ConstraintError):
        store(rig).append(Append(WORLD, [], rig.driver.head, {other: b"x", bytes(32): b"y"}))
    assert rig.journal.head(WORLD) == before
    assert rig.journal.blob(WORLD, bytes(32)) is None
    (outcome,) = store(rig).append(Append(WORLD, [], rig.driver.head, {}))
    assert isinstance(outcome, Head), "the journal goes on"


def test_a_world_that_goes_takes_its_nodes_along(rig: Rig) -> None:
    """04 section 3: and those of its neighbours stay."""
    child = child_rig(rig, 1, None)
    ordered(child, "child")
    assert nodes(rig.journal, child.world.id)
    left = nodes(rig.journal)
    store(rig).drop_world(child.world.id)
    ((count,),) = store(rig)._db.execute("SELECT count(*) FROM node")
    assert count == len(left) == len(nodes(rig.journal))


def _branch(journal: SqliteJournal) -> bytes:
    """The name of some branch in the middle."""
    rows = [name for name in nodes(journal) if b"branch@1" in (journal.blob(WORLD, name) or b"")]
    return rows[len(rows) // 2]


def test_a_branch_without_places_mends_none(rig: Rig) -> None:
    """F4: bytes with the right digest that do not tell where the children lie are no copy."""
    journal = store(rig)
    name = _branch(journal)
    sound = journal.blob(WORLD, name)
    assert sound is not None
    assert bare(sound) != sound
    journal._db.execute("UPDATE node SET body=x'00' WHERE hash=?", (name[:32],))
    found = mend(journal, WORLD, lambda _name: bare(sound))
    assert not found.verdict.ok
    assert mend(journal, WORLD, {name: sound}.get).verdict.ok


def test_a_lost_node_goes_back_to_whose_it_was(rig: Rig) -> None:
    """F4: a fork misses a node of its parent, where the fork has one of its own at that place."""
    journal = store(rig)
    name = _branch(journal)
    child = child_rig(rig, 1, None)
    ordered(child, "child", 40)
    theirs = nodes(journal, child.world.id)
    assert name[32:] in {other[32:] for other in theirs}
    copies = {each: journal.blob(WORLD, each) for each in nodes(journal)}
    journal._db.execute("DELETE FROM node WHERE hash=?", (name[:32],))
    assert not verify(journal, child.world.id).ok
    assert mend(journal, child.world.id, copies.get).verdict.ok
    assert verify(journal, WORLD).ok
    assert nodes(journal, child.world.id) == theirs


def test_memory_gives_places_as_a_file_does() -> None:
    """ST-12: the room of a world is behind its last node, whatever its digest is."""
    journal = MemoryJournal()
    rig = rig_on(journal)
    last = max(name[32:] for name in nodes(journal))
    assert journal.room(WORLD) == int.from_bytes(last, "big") + 1
    assert len(last) == PLACE
    assert root(world_at(journal, WORLD, rig.runner)) == rig.root()
