"""One history over every journal: what a world does never depends on where it is kept."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import tallystick.journal
from tallystick.journal.base import Journal
from tallystick.journal.memory import MemoryJournal
from tallystick.kernel.roots import root
from tallystick.node.worlds import world_at
from tests.journal.test_journal import JOURNALS
from tests.kernel import mixed
from tests.rig import Rig


def offered() -> set[str]:
    """The classes of the room that offer all that a journal must."""
    wanted = {name for name, _ in inspect.getmembers(Journal, callable) if name[0] != "_"}
    found: set[str] = set()
    for module in pkgutil.iter_modules(tallystick.journal.__path__):
        room = importlib.import_module(f"tallystick.journal.{module.name}")
        for name, kind in inspect.getmembers(room, inspect.isclass):
            whole = kind is not Journal and wanted <= set(dir(kind))
            if whole and kind.__module__ == room.__name__:
                found.add(name)
    return found


@pytest.mark.clause("X-11")
def test_every_journal_is_in_the_suite(tmp_path: Path) -> None:
    """ST-12: a journal that the room offers and the one suite does not run over is found."""
    run = set()
    for name, make in JOURNALS.items():
        journal = make(tmp_path / name)
        run.add(type(journal).__name__)
        journal.close()
    assert {"MemoryJournal", "SqliteJournal"} <= offered() == run


@pytest.mark.clause("X-11", "X-02")
@pytest.mark.invariant("I2")
@pytest.mark.parametrize("name", sorted(JOURNALS))
def test_one_history_has_one_journal(name: str, tmp_path: Path) -> None:
    """ST-12: the same inputs leave the same frames and roots in every journal, and open again."""
    plain = mixed.mixed_rig()
    mixed.play(plain)
    journal = JOURNALS[name](tmp_path / "data")
    rig = Rig(mixed.documents(), mixed.FUNCTIONS, journal=journal)  # type: ignore[arg-type]  # the port, whoever keeps it
    mixed.play(rig)
    world = rig.world.id
    assert [f.hash for f in journal.read(world)] == [f.hash for f in plain.journal.read(world)]
    assert rig.root() == plain.root()
    assert [row.root for row in journal.snapshots(world)] == [
        row.root for row in plain.journal.snapshots(world)
    ]
    assert root(world_at(journal, world, rig.runner)) == plain.root()
    assert isinstance(plain.journal, MemoryJournal)
    journal.close()
