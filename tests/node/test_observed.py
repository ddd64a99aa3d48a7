"""What an observation says besides triggers: the commit of a repository, portions, and holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.node.observed import PART_BYTES, PART_TRIGGERS, git_commit, held_outcome, parts
from tallystick.node.watch_disk import Disk
from tallystick.reactions.observation import Derived
from tallystick.reactions.tree import EMPTY
from tallystick.reactions.watch import MISSING, NO_CHANGE, VCS_BUSY, Difference

COMMIT = "c0ffee" + "0" * 34
REF = "refs/heads/main"


def commit_of(folder: Path, **files: str) -> str | None:
    """The commit that a repository of these files stands at."""
    for name, text in files.items():
        place = folder / ".git" / name.replace("__", "/").replace("packed_refs", "packed-refs")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    return git_commit(Disk(str(folder)))


def test_a_folder_without_a_repository_has_no_commit(tmp_path: Path) -> None:
    """08 section 6: an observation outside of a repository names no commit."""
    assert commit_of(tmp_path) is None


@pytest.mark.parametrize("commit", [COMMIT, "ab" * 32])
def test_a_detached_head_is_its_commit(tmp_path: Path, commit: str) -> None:
    """08 section 6: HEAD may hold the commit itself, by either hash that git has."""
    assert commit_of(tmp_path, HEAD=f"{commit}\n") == commit


@pytest.mark.parametrize("text", ["", "half of a com", "ref: ../../secret\n"])
def test_a_head_that_names_nothing_of_the_repository_is_no_commit(
    tmp_path: Path, text: str
) -> None:
    """08 section 6: a torn HEAD, and one that leads out of `.git`, are left alone."""
    (tmp_path.parent / "secret").write_text(COMMIT, "utf-8")
    assert commit_of(tmp_path, HEAD=text) is None


def test_a_branch_is_found_in_its_own_file_before_the_packed_ones(tmp_path: Path) -> None:
    """08 section 6: git writes the file of a branch last, so it is the newer word."""
    packed = f"# pack-refs with: peeled\n{'1' * 40} refs/tags/v1\n{'2' * 40} {REF}\n"
    head = f"ref: {REF}\n"
    assert commit_of(tmp_path, HEAD=head) is None, "a branch without a commit"
    assert commit_of(tmp_path, packed_refs=packed) == "2" * 40
    assert commit_of(tmp_path, refs__heads__main=f"{COMMIT}\n") == COMMIT


def row(number: int, padding: int = 0) -> dict[str, Any]:
    return {"n": number, "padding": "x" * padding}


def test_many_triggers_go_in_portions_that_fit_an_event() -> None:
    """08 section 6: nothing is lost or moved between portions, and none is too long or large."""
    triggers = [row(n) for n in range(PART_TRIGGERS + 1)]
    outcomes = [row(n, PART_BYTES // 2) for n in range(3)]
    found = parts(Derived(triggers, outcomes, []))
    assert [len(first) for first, _ in found] == [PART_TRIGGERS, 1, 0, 0]
    assert [len(second) for _, second in found] == [0, 1, 1, 1]
    assert [each for first, _ in found for each in first] == triggers
    assert [each for _, second in found for each in second] == outcomes
    assert parts(Derived([], [], [])) == [([], [])]


def difference(held: str | None) -> Difference:
    return Difference(EMPTY, EMPTY, {}, held=held)


@pytest.mark.parametrize(
    ("held", "outcome", "code"),
    [
        (NO_CHANGE, "no_change", None),
        (VCS_BUSY, "deferred", VCS_BUSY),
        (MISSING, "deferred", MISSING),
    ],
)
def test_what_is_held_back_says_why(held: str, outcome: str, code: str | None) -> None:
    """08 section 6: a look that brings nothing leaves one record of the reason, by the watch."""
    (told,) = held_outcome("ws-1", difference(held))
    assert (told["outcome"], told["code"], told["guard"]) == (outcome, code, "watch")
    assert told["workspace_id"] == "ws-1"


def test_what_comes_through_needs_no_reason() -> None:
    """08 section 6: a batch that is not held back has no record about that."""
    assert held_outcome("ws-1", difference(None)) == []
