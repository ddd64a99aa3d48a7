"""Controls of the watcher's scenarios: with its guard taken out, each scenario fails (RX-01)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tallystick.reactions.ignore import Ignore
from tallystick.reactions.scan import Entry, Scanned
from tallystick.reactions.watch import Watcher
from tests.reactions import test_watch
from tests.reactions.watched import Trouble, Watched


class Hasty(Watcher):
    """Does not wait for version control."""

    def _busy(self, now_ns: int) -> bool:
        return False


class Trusting(Watcher):
    """Believes that everything vanished."""

    def _is_missing(self, scanned: Scanned) -> bool:
        return False


class Deaf(Watcher):
    """Forgets that hints were lost."""

    def lost(self, flag: str = "overflow") -> None:
        del flag


class Open(Watcher):
    """Ignores nothing."""

    def _rules(self) -> Ignore:
        return Ignore(())


class Torn(Trouble):
    """Takes the hash of a file that moved while it was read."""

    def content(self, path: bytes, entry: Entry) -> bytes | None:
        if self.moving.pop(path, 0):
            return b"\0" * 32
        return super().content(path, entry)


def planted(folder: Path, watcher: type[Watcher], disk: type[Trouble] = Trouble) -> Watched:
    """The fixture of the scenarios, with a defect."""
    made = Watched(folder)
    made.write("a.txt", "one")
    made.write("src/b.py", "two")
    made.disk = disk(str(folder))
    made.watcher = watcher(made.disk, made.clock, made.settings)
    made.begin()
    return made


CASES: list[tuple[Callable[[Watched], None], type[Watcher], type[Trouble]]] = [
    (test_watch.test_s10_an_editor_that_renames_is_one_modification, Watcher, Trouble),
    (test_watch.test_s13_lost_hints_lose_no_change, Watcher, Trouble),
    (test_watch.test_s18_a_checkout_is_one_batch, Watcher, Trouble),
    (test_watch.test_s20_a_file_that_grows_is_never_told_half, Watcher, Trouble),
    (test_watch.test_changed_rules_fire_nothing_by_themselves, Watcher, Trouble),
]
DEFECTS: list[tuple[Callable[[Watched], None], type[Watcher], type[Trouble]]] = [
    (test_watch.test_s13_lost_hints_lose_no_change, Deaf, Trouble),
    (test_watch.test_s18_a_checkout_is_one_batch, Hasty, Trouble),
    (test_watch.test_s20_a_file_that_grows_is_never_told_half, Watcher, Torn),
    (test_watch.test_changed_rules_fire_nothing_by_themselves, Open, Trouble),
]


@pytest.mark.parametrize(("scenario", "watcher", "disk"), CASES)
def test_without_a_defect_the_scenario_holds(
    scenario: Callable[[Watched], None],
    watcher: type[Watcher],
    disk: type[Trouble],
    tmp_path: Path,
) -> None:
    """The rig of the controls is sound: it passes what is whole."""
    scenario(planted(tmp_path, watcher, disk))


@pytest.mark.parametrize(("scenario", "watcher", "disk"), DEFECTS)
def test_with_a_defect_the_scenario_fails(
    scenario: Callable[[Watched], None],
    watcher: type[Watcher],
    disk: type[Trouble],
    tmp_path: Path,
) -> None:
    """RX-01: the same assertions catch the planted defect."""
    with pytest.raises((AssertionError, ValueError)):
        scenario(planted(tmp_path, watcher, disk))


def test_s26_without_its_guard_removals_storm(tmp_path: Path) -> None:
    """RX-01: a watcher without the guard tells 21 removals at once."""
    here = Watched(tmp_path)
    here.watcher = Trusting(here.disk, here.clock, here.settings)
    for at in range(40):
        here.write(f"f{at}", str(at))
    here.begin()
    for at in range(21):
        (tmp_path / f"f{at}").unlink()
        here.hint(f"f{at}")
    (batch,) = here.settle()
    assert batch.held is None
    assert len(test_watch.changes(batch)) == 21
