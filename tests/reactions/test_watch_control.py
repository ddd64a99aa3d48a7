"""Controls of the watcher's scenarios: with its guard taken out, each scenario fails (RX-01)."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tallystick.reactions import cell_workspace, decide, tree
from tallystick.reactions.ignore import Ignore
from tallystick.reactions.scan import Entry, Scanned
from tallystick.reactions.tree import Tree
from tallystick.reactions.watch import Difference, Watcher
from tallystick.values.expr import compile_expression
from tests.reactions import test_policy, test_runs, test_tree, test_watch, watched
from tests.reactions.scenario import planted as plant
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


class Nothing(Ignore):
    """Rules that hide nothing at all."""

    def entry(self, path: bytes, *, directory: bool) -> str | None:
        del path, directory
        return None


class Bare(Watcher):
    """Does not even ignore the runtime's own places."""

    def _rules(self) -> Ignore:
        return Nothing(())


class Torn(Trouble):
    """Takes the hash of a file that moved while it was read."""

    def content(self, path: bytes, entry: Entry) -> bytes | None:
        if self.moving.pop(path, 0):
            return b"\0" * 32
        return super().content(path, entry)


class Restless(Watcher):
    """Tells a change whatever the bytes are."""

    def _by_people(self, after: Tree, *, asked: bool) -> Difference | None:
        del asked
        self._flags.clear()
        return self._keep(after, ())


class Silent(Watcher):
    """Takes no hint: what is not told is found a minute later."""

    def hint(self, path: bytes) -> None:
        del path


class Shallow(Trouble):
    """Shows a link as a plain file."""

    def entries(self, path: bytes) -> list[Entry] | None:
        found = super().entries(path) or []
        plain = stat.S_IFREG | 0o644
        return [each._replace(mode=plain) if stat.S_ISLNK(each.mode) else each for each in found]


class Textual(Trouble):
    """Knows no names but text."""

    def entries(self, path: bytes) -> list[Entry] | None:
        return [each for each in super().entries(path) or [] if each.name.isascii()]


def planted(folder: Path, watcher: type[Watcher], disk: type[Trouble] = Trouble) -> Watched:
    """The fixture of the scenarios, with a defect."""
    folder.mkdir(exist_ok=True)
    made = Watched(folder)
    made.write("a.txt", "one")
    made.write("src/b.py", "two")
    made.disk = disk(str(folder))
    made.watcher = watcher(made.disk, made.clock, made.settings)
    made.begin()
    return made


def s14_every_leaf(here: Watched) -> None:
    """S14 with a hint for every leaf."""
    test_watch.test_s14_nested_directories_are_found_whole(here, "every leaf")


def s11(here: Watched, factory: pytest.TempPathFactory) -> None:
    """S11 beside the edit that it is compared with."""
    test_watch.test_s11_the_dance_of_vim_is_the_same_change(here, factory)


CASES: list[tuple[Callable[[Watched], None], type[Watcher], type[Trouble]]] = [
    (test_watch.test_s10_an_editor_that_renames_is_one_modification, Watcher, Trouble),
    (test_watch.test_s13_lost_hints_lose_no_change, Watcher, Trouble),
    (test_watch.test_s18_a_checkout_is_one_batch, Watcher, Trouble),
    (test_watch.test_s20_a_file_that_grows_is_never_told_half, Watcher, Trouble),
    (test_watch.test_changed_rules_fire_nothing_by_themselves, Watcher, Trouble),
]
DEFECTS: list[tuple[Callable[[Watched], None], type[Watcher], type[Trouble]]] = [
    (test_watch.test_s08_the_runtime_s_own_places_are_never_seen, Bare, Trouble),
    (test_watch.test_s09_the_same_bytes_are_no_change, Restless, Trouble),
    (test_watch.test_s10_an_editor_that_renames_is_one_modification, Open, Trouble),
    (test_watch.test_s12_a_storm_is_few_batches_and_loses_nothing, Silent, Trouble),
    (test_watch.test_s13_lost_hints_lose_no_change, Deaf, Trouble),
    (s14_every_leaf, Silent, Trouble),
    (test_watch.test_s18_a_checkout_is_one_batch, Hasty, Trouble),
    (test_watch.test_s19_created_and_deleted_before_the_look, Restless, Trouble),
    (test_watch.test_s20_a_file_that_grows_is_never_told_half, Watcher, Torn),
    (test_watch.test_s21_links_are_leaves, Watcher, Shallow),
    (test_watch.test_s22_a_name_that_is_no_text, Watcher, Textual),
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


def test_s11_without_ignore_rules_the_probe_shows(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """RX-01: a watcher that ignores nothing tells of the probe and of the backup."""
    s11(planted(tmp_path / "good", Watcher), tmp_path_factory)
    with pytest.raises(AssertionError):
        s11(planted(tmp_path / "bad", Open), tmp_path_factory)


class Eager(Trouble):
    """Shows whatever is special as a plain file."""

    def entries(self, path: bytes) -> list[Entry] | None:
        found = super().entries(path) or []
        plain = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
        return [
            each
            if any(is_kind(each.mode) for is_kind in plain)
            else each._replace(mode=stat.S_IFREG | 0o644)
            for each in found
        ]


class Small(Trouble):
    """Says of no file how large it is."""

    def entries(self, path: bytes) -> list[Entry] | None:
        return [each._replace(size=min(each.size, 9)) for each in super().entries(path) or []]


class Hiding(Trouble):
    """Takes what is closed for what is not there."""

    def content(self, path: bytes, entry: Entry) -> bytes | None:
        return None if path in self.closed else super().content(path, entry)


@pytest.mark.parametrize("disk", [Eager, Small, Hiding])
def test_s25_a_disk_that_does_not_tell_kinds_apart_is_found_out(
    tmp_path: Path, disk: type[Trouble]
) -> None:
    """RX-01: special files read as plain, giants read at all, closed files lost: S25 fails."""
    with plant(watched, "Trouble", disk), pytest.raises((AssertionError, ValueError)):
        test_watch.test_s25_special_files_never_block(tmp_path)


def test_s24_without_folding_no_risk_is_named() -> None:
    """RX-01: names that are compared as they stand collide with none."""
    test_tree.test_s24_names_that_differ_by_normalisation_are_two()
    with plant(tree, "fold", lambda path: path), pytest.raises(AssertionError):
        test_tree.test_s24_names_that_differ_by_normalisation_are_two()


def test_s43_without_strictness_a_missing_fact_is_none(tmp_path: Path) -> None:
    """RX-01: where an unknown name is empty, the denial does not say what is missing."""

    def lax(source: str) -> object:
        return compile_expression(source, strict=False)

    with plant(decide, "_compiled", lax), pytest.raises(AssertionError):
        test_policy.test_s43_a_missing_fact_is_a_denial(tmp_path)


def test_s45_without_the_switch_the_queue_stays(tmp_path: Path) -> None:
    """RX-01: where nothing is given up, the queue runs on."""
    with plant(cell_workspace, "_give_up", lambda *_: None), pytest.raises(AssertionError):
        test_runs.test_s45_the_kill_switch(tmp_path)
