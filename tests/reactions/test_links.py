"""Links in a workspace: leaves of the tree, and no way to write through (S21)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallystick.executors import file_beneath
from tests.reactions.scenario import at_desk, planted
from tests.reactions.test_runs import write


def s21(root: Path) -> None:
    """A link to `.` and one out of the workspace, and a reaction whose scope they stand in."""
    outside = root.parent / "outside"
    outside.mkdir(parents=True)
    for nth, path in enumerate(("loop/x", "away/x")):
        place = root / str(nth)
        place.mkdir(parents=True)
        (place / "loop").symlink_to(".")
        (place / "away").symlink_to(outside)
        with at_desk(place, write(path, path.replace("/x", "/**"))) as desk:
            desk.write("a.txt", "0")
            desk.begin()
            assert desk.tree is not None
            kinds = {name: desk.tree[name].kind for name in (b"loop", b"away")}
            assert set(kinds.values()) == {"l"}
            desk.write("a.txt", "1")
            desk.settle_down()
            (run,) = desk.runs()
            assert (run["outcome"], run["code"]) == ("failed", "scope_violation"), path
            assert sorted(each.name for each in place.iterdir()) == ["a.txt", "away", "loop"]
            assert list(outside.iterdir()) == []


@pytest.mark.clause("F-12")
def test_s21_a_write_through_a_link_is_refused(tmp_path: Path) -> None:
    """S21: a write through either link is a scope violation, and nothing is on disk."""
    s21(tmp_path / "w")


def test_s21_an_executor_that_follows_links_is_found_out(tmp_path: Path) -> None:
    """RX-01: where the walk to the parent follows links, S21 fails."""

    def follows(here: int, name: str, flags: int) -> int:
        return os.open(name, flags & ~os.O_NOFOLLOW, dir_fd=here)

    with planted(file_beneath, "_open_beneath", follows), pytest.raises(AssertionError):
        s21(tmp_path / "w")
