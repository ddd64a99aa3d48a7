"""What takes its time while somebody trims, collects or takes a snapshot of the same world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest

from tallystick.errors import TallyError
from tallystick.journal.base import Append, Head
from tallystick.journal.collect import Trim, thin
from tallystick.journal.export import export_bundle
from tallystick.journal.grace import begun_anew
from tallystick.journal.imports import verify_export
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.journal.verify import verify
from tests.journal.damage import SPILL, grown
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import NODE, WORLD, Rig
from tests.sweeps import sweep, trim
from tests.worlds import CREATED, created


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = grown(tmp_path / "data")
    yield made
    made.journal.close()


def store(rig: Rig) -> SqliteJournal:
    assert isinstance(rig.journal, SqliteJournal)
    return rig.journal


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I7")
def test_nothing_is_forked_below_a_floor(rig: Rig, tmp_path: Path) -> None:
    """06 section 11: a what-if was run on a past that was trimmed meanwhile; its world was written
    all the same, could not be read, and no node came up on the folder any more.
    """
    at = next(f for f in store(rig).read(WORLD, 9))
    trim(store(rig), Trim(WORLD, rig.world.seq, tmp_path / "archive", NODE, 1))
    with pytest.raises(TallyError) as refused:
        store(rig).fork(WORLD, Head(at.last, at.hash, 0), child_id(1))
    assert refused.value.code == "journal.trimmed"
    assert [row.world for row in store(rig).worlds()] == [WORLD]


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I7")
def test_a_blob_that_is_brought_again_stays_with_the_forks(rig: Rig) -> None:
    """Putting a blob that is there already began its grace anew, and took it away from every fork
    that was made before.
    """
    child = child_rig(rig, 1, None)
    digest = next(digest for digest, _ in store(rig).blobs(WORLD))
    rig.send(CREATED, created("later"))
    assert store(rig).blob(child.world.id, digest) is not None
    begun_anew(store(rig), WORLD, digest)
    assert store(rig).added(WORLD, digest) == rig.world.seq
    store(rig)._lines.clear()
    assert store(rig).blob(child.world.id, digest) is not None
    assert verify(store(rig), child.world.id).ok


@pytest.mark.invariant("I10")
def test_a_trim_of_a_fork_leaves_no_gap_for_who_reads_it(rig: Rig, tmp_path: Path) -> None:
    """A reader was at the frames of the parent when the fork was trimmed: it went on behind the new
    floor without a word, and what it read was taken for damage.
    """
    child = child_rig(rig, 1, None)
    for n in range(4):
        child.send(CREATED, created(f"only here {n}"))
    child.driver.snapshot()
    child.send(CREATED, created("and later"))
    reader = store(rig).reader()
    frames = reader.read(child.world.id)
    next(frames)
    trim(store(rig), Trim(child.world.id, child.world.seq, tmp_path / "archive", NODE, 1))
    with pytest.raises(TallyError) as refused:
        list(frames)
    assert refused.value.code == "journal.trimmed"
    reader.close()


class Interrupted(BytesIO):
    """A file; somebody does something when the first item of a kind is written."""

    def __init__(self, kind: bytes, act: Callable[[], object]) -> None:
        super().__init__()
        self._kind = kind
        self._act: Callable[[], object] | None = act

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if data.startswith(self._kind) and self._act is not None:
            act, self._act = self._act, None
            act()
        return super().write(data)


@pytest.mark.clause("K-44")
@pytest.mark.parametrize("deed", ["snapshot", "thin"])
def test_an_export_beside_snapshots_is_whole(rig: Rig, tmp_path: Path, deed: str) -> None:
    """04 section 9: a snapshot that was taken, or thinned out, while an export was written stood in
    it without its blobs: the file could not be imported, and a trim said that the journal is
    damaged.
    """

    def act() -> None:
        if deed == "snapshot":
            rig.driver.snapshot()
        else:
            thin(store(rig), WORLD, 1)
            sweep(store(rig), WORLD, 2**62)

    path = tmp_path / "export"
    reader = store(rig).reader()
    out = Interrupted(b"F" if deed == "snapshot" else b"B", act)
    export_bundle(reader, WORLD, out)
    path.write_bytes(out.getvalue())
    reader.close()
    assert verify_export(path).first_bad is None


class Slow(SqliteReader):
    """A reader beside which somebody does something once it has read a blob."""

    act: Callable[[], object] | None = None

    def contents(self, world: str) -> Iterator[tuple[bytes, bytes | None]]:
        for found in super().contents(world):
            yield found
            act, self.act = self.act, None
            if act is not None:
                act()


@pytest.mark.clause("K-44")
@pytest.mark.parametrize("deed", ["thin", "orphans", "trim"])
def test_who_verifies_takes_no_collection_for_damage(rig: Rig, tmp_path: Path, deed: str) -> None:
    """04 section 13: `verify` beside `gc` said that the journal is damaged, and ended with 1."""
    for n in range(9):
        data = bytes([n]) * (2 * SPILL)
        digest = sha256(data).digest()
        store(rig).append(Append(WORLD, [], rig.driver.head, {digest: data}))
    rig.send(CREATED, created("and time passes"))

    def act() -> None:
        if deed == "trim":
            trim(store(rig), Trim(WORLD, rig.world.seq, tmp_path / "archive", NODE, 1))
        else:
            thin(store(rig), WORLD, 1 if deed == "thin" else 9)
            sweep(store(rig), WORLD, 2**62)

    reader = Slow(store(rig).folder)
    reader.act = act
    verdict = verify(reader, WORLD)
    assert verdict.ok, verdict.first_bad
    assert verdict.root == rig.root()
    reader.close()
