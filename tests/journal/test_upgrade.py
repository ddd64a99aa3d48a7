"""Folders of other releases: older ones open and are upgraded whole, newer ones are left alone."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import apsw
import pytest

from tallystick.errors import Rejected
from tallystick.journal import sqlite_tables
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.kernel.roots import root, state_root
from tallystick.modules.runners import Library, Runners
from tallystick.node.worlds import world_at
from tests.golden.folders import build
from tests.simulation.planted.swap import swapped


@pytest.mark.clause("K-19")
@pytest.mark.invariant("I2", "I28")
@pytest.mark.parametrize("name", build.names())
def test_a_golden_folder_opens_to_its_roots(name: str, tmp_path: Path) -> None:
    """AT-40, ST-13: every world of a folder that an older release left has its pinned roots."""
    pinned = build.unpack(name, tmp_path)
    SqliteJournal(tmp_path).close()
    reader = SqliteReader(tmp_path)
    try:
        for alias, wanted in pinned.items():
            world = world_at(reader, reader.resolve(alias), Runners(None, library=Library()))  # type: ignore[arg-type]
            found = (f"sha256:{root(world).hex()}", f"sha256:{state_root(world).hex()}")
            assert (world.seq, *found) == (wanted["seq"], wanted["root"], wanted["state_root"])
    finally:
        reader.close()


NOW = sqlite_tables.FORMAT


def release(upgrades: dict[int, str]) -> AbstractContextManager[None]:
    """Let this be a release of the next format, for a while."""
    number = sqlite_tables.FORMAT + 1
    return swapped((sqlite_tables, "FORMAT", number), (sqlite_tables, "UPGRADES", upgrades))


def _tables(folder: Path) -> tuple[int, bool]:
    """The format that a file says it has, and whether the new table is there."""
    db = apsw.Connection(str(folder / "tally.db"))
    try:
        (version,) = db.execute("SELECT value FROM meta WHERE key='format'").fetchone()  # type: ignore[misc]
        (there,) = db.execute("SELECT count(*) FROM sqlite_master WHERE name='next'").fetchone()  # type: ignore[misc]
    finally:
        db.close()
    return version, bool(there)


def test_an_upgrade_is_whole_or_not_at_all(tmp_path: Path) -> None:
    """AT-40: broken off in the middle it is the old file; tried again, it is the new one.

    `scripts/accept 40 --full` does it with kills.
    """
    build.unpack("format-1", tmp_path)
    SqliteJournal(tmp_path).close()
    assert _tables(tmp_path) == (NOW, False)
    broken = {NOW: "CREATE TABLE next(n); INSERT INTO nowhere VALUES (1);"}
    with release(broken), pytest.raises(Exception, match="nowhere"):
        SqliteJournal(tmp_path)
    assert _tables(tmp_path) == (NOW, False)
    SqliteJournal(tmp_path).close()
    with release({NOW: "CREATE TABLE next(n);"}):
        with pytest.raises(Rejected) as refused:
            SqliteReader(tmp_path)
        assert (refused.value.code, refused.value.exit_code) == ("journal.format", 2)
        SqliteJournal(tmp_path).close()
        assert _tables(tmp_path) == (NOW + 1, True)
        SqliteReader(tmp_path).close()
        SqliteJournal(tmp_path).close()


def test_a_release_without_a_way_from_a_format_refuses_it(tmp_path: Path) -> None:
    """AT-40, control: no step from a format, no opening; the file is as it was."""
    build.unpack("format-1", tmp_path)
    before = (tmp_path / "tally.db").read_bytes()
    with release({}), pytest.raises(Rejected) as refused:
        SqliteJournal(tmp_path)
    assert refused.value.code == "journal.format"
    assert (tmp_path / "tally.db").read_bytes() == before
