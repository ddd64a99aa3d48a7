"""`tally journal tail`: the newest records, of one kind too, and above a floor (K-44, K-45)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runs import Ran, hello, tally

GREET = "demo/Greet@1"


class Folder:
    """A folder with a world of forty guests that no node serves."""

    def __init__(self, base: Path) -> None:
        self.base = hello(base)
        self.run("world", "create", "main", "--bundle", str(self.base / "app.py"))
        guests = "".join(f'{{"name": "n{number}"}}\n' for number in range(40))
        where = ("--data", str(self.base / ".tally"), "--json")
        assert tally("send", GREET, "-", *where, stdin=guests).value["sent"] == 40

    def run(self, *words: str) -> Ran:
        done = tally(*words, "--data", str(self.base / ".tally"), "--json")
        assert done.code == 0, (words, done.err)
        return done

    def tail(self, *words: str) -> list[int]:
        """The sequences that are shown."""
        return [row["seq"] for row in self.run("journal", "tail", *words).value["items"]]


@pytest.fixture
def here(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "app")


def test_the_newest_of_a_kind_are_found_however_far_back(here: Folder) -> None:
    """04 section 9: forty events came in one commit, and their ticks stand behind them all."""
    every = here.tail("--kind", "event", "--limit", "1000")
    assert len(every) == 40
    assert here.tail("--kind", "event", "--limit", "3") == every[-3:]
    assert here.tail("--kind", "governance") == [3]
    assert here.tail("--kind", "denied") == []


@pytest.mark.clause("K-44")
def test_what_is_above_the_floor_is_shown(here: Folder, tmp_path: Path) -> None:
    """04 section 13: after a trim the newest records are there, and each can be looked at."""
    floor = here.run("world", "snapshot").value["seq"]
    here.run("send", GREET, '{"name": "after"}')
    archive = str(tmp_path / "archive")
    here.run("gc", "--trim-before", "100000", "--archive", archive)
    head = here.run("journal", "head").value["seq"]
    assert here.tail() == list(range(floor + 1, head + 1))
    assert here.tail("--limit", "1") == [head]
    assert here.tail("--kind", "event") == [here.run("journal", "show", str(head - 1)).value["seq"]]


def test_the_newest_are_shown_however_large_they_are(here: Folder) -> None:
    """04 section 9: a page of the API ends before it would grow too large: the tail is behind."""
    where = ("--data", str(here.base / ".tally"), "--json")
    large = "".join(f'{{"name": "{"n" * 8_000}{number}"}}\n' for number in range(60))
    assert tally("send", GREET, "-", *where, stdin=large).value["sent"] == 60
    head = here.run("journal", "head").value["seq"]
    assert here.tail("--limit", "150") == list(range(head - 149, head + 1))


def test_a_trimmed_world_as_files(here: Folder, tmp_path: Path) -> None:
    """09: a site of a trimmed world holds what stands above its floor."""
    floor = here.run("world", "snapshot").value["seq"]
    here.run("send", GREET, '{"name": "after"}')
    here.run("gc", "--trim-before", "100000", "--archive", str(tmp_path / "archive"))
    head = here.run("journal", "head").value["seq"]
    site = str(tmp_path / "site")
    assert here.run("world", "export", "--site", "-o", site).value["records"] == head - floor
