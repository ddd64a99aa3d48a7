"""File effects at their edges: directories, files that never rest, and two edits in one act."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import BadDefinition
from tallystick.executors.base import ExecutorPorts, Failed, Job, Ok, Outcome
from tallystick.executors.file import DELETE, LIST, READ, WRITE, FileExecutor, FileSettings, make
from tallystick.executors.file_beneath import Names, content_id
from tallystick.executors.file_list import ENTRIES_MAX
from tests.executors.attempts import KeptBlobs, done, failed, job_of, no_report, outcome_of
from tests.executors.jobs import job
from tests.executors.test_file import asked, files, is_content

OLD, NEW, USER, MORE = b"old\n", b"new\n", b"of a person\n", b"of another\n"


def listing(root: Path, path: str) -> Outcome:
    """What a task of a playbook is told about a directory."""
    made = job(LIST, {"workspace": "project", "path": path})
    return asyncio.run(outcome_of(files(root), made))


def test_a_directory_is_listed_by_name(tmp_path: Path) -> None:
    """07 section 6: kind and size by name; a name that is no text is left out, none is an error."""
    (tmp_path / "d" / "sub").mkdir(parents=True)
    (tmp_path / "d" / "b.txt").write_bytes(OLD)
    (tmp_path / "d" / "a").symlink_to("b.txt")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/d/bad\xff")).write_bytes(OLD)
    found = listing(tmp_path, "d")
    assert isinstance(found, Ok)
    rows = [(row["name"], row["kind"], row["size"]) for row in found.value["entries"]]
    assert rows == [("a", "link", None), ("b.txt", "file", 4), ("sub", "directory", None)]
    whole = listing(tmp_path, ".")
    assert isinstance(whole, Ok)
    assert whole.value["count"] == 1
    absent = listing(tmp_path, "none")
    assert isinstance(absent, Failed)
    assert (absent.kind, absent.code) == ("not_found", "file.absent")


def test_a_directory_of_too_many_is_refused(tmp_path: Path) -> None:
    """10 section 6: over 10,000 entries nothing is told, and the number is said."""
    for n in range(ENTRIES_MAX + 1):
        os.mkfifo(tmp_path / str(n))
    found = listing(tmp_path, ".")
    assert isinstance(found, Failed)
    assert (found.kind, found.code) == ("limit", "file.too_many")
    assert str(ENTRIES_MAX + 1) in found.message


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a file that is never at rest")
def test_a_file_that_never_rests_is_not_read() -> None:
    """08 W5: bytes that do not fit the file's own size are half of something: tried again later."""
    executor = FileExecutor(FileSettings({"project": Path(f"/proc/{os.getpid()}")}))
    found = failed(executor, job_of(READ, asked("status")))
    assert (found.code, found.retryable) == ("file.moving", True)


def test_places_are_a_table_and_may_be_forgotten(tmp_path: Path) -> None:
    """04 section 6: settings that are none stop the start; a forgotten place serves nobody.

    One that a world was given serves that world alone.
    """
    ports = ExecutorPorts(tmp_path / ".tally", None, lambda: 0)
    with pytest.raises(BadDefinition) as refused:
        make({"workspaces": "here"}, ports)
    assert refused.value.code == "config.value"
    (tmp_path / "a.txt").write_bytes(OLD)

    async def outcomes() -> list[Outcome]:
        executor = files(tmp_path)
        executor.admit(("w", "ws-1"), tmp_path)
        read = job_of(READ, asked("a.txt") | {"workspace": "ws-1"})
        await executor.cancel(read)  # it does not wait for a thread, so nothing is kept from it
        before = await executor.perform(read, no_report)
        beside = await executor.perform(replace(read, world="other"), no_report)
        executor.forget(("w", "ws-1"))
        after = await executor.perform(read, no_report)
        await executor.close()
        return [before, beside, after]

    before, *refused_ones = asyncio.run(outcomes())
    assert isinstance(before, Ok)
    for each in refused_ones:
        assert isinstance(each, Failed)
        assert (each.kind, each.code) == ("not_found", "file.workspace_unknown")


def test_overwriting_what_is_not_there_keeps_nothing(tmp_path: Path) -> None:
    """08 section 10: bytes were expected and there are none: written, and no blob is made."""
    blobs = KeptBlobs()
    params = asked("a.txt", content=NEW, expect=is_content(OLD), mode="overwrite")
    told = done(files(tmp_path), job_of(WRITE, params, blobs=blobs))
    assert (told["pre_id"], told["status"]) == (None, "written")
    assert (tmp_path / "a.txt").read_bytes() == NEW
    assert blobs.bodies == {}


def edited(root: Path, made: Job, edits: dict[str, Callable[[Path], Any]], **other: Any) -> Outcome:
    """Perform the job while others edit, once at each of these steps."""

    def at(step: str) -> None:
        if step in edits:
            edits.pop(step)(root / "a.txt")

    executor = FileExecutor(FileSettings({"project": root}), at, **other)
    return asyncio.run(outcome_of(executor, made))


def test_two_edits_in_one_act_are_both_kept(tmp_path: Path) -> None:
    """RX-07: the file changed before the exchange and our bytes behind it; neither is lost."""
    (tmp_path / "a.txt").write_bytes(OLD)
    blobs = KeptBlobs()
    made = job_of(WRITE, asked("a.txt", content=NEW, expect=is_content(OLD)), blobs=blobs)
    edits: dict[str, Callable[[Path], Any]] = {
        "staged": lambda target: target.write_bytes(USER),
        "placed": lambda target: target.write_bytes(MORE),
    }
    outcome = edited(tmp_path, made, edits)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "conflict"
    assert (tmp_path / "a.txt").read_bytes() == USER
    assert set(blobs.bodies) == {content_id(MORE), content_id(NEW)}, "ours is a proposal now"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("expect", [None, {"$tag": "absent"}])
def test_a_file_that_goes_away_under_a_write_is_written(tmp_path: Path, expect: Any) -> None:
    """08 W5: gone between the look and the exchange: judged again, as a place that is empty."""
    (tmp_path / "a.txt").write_bytes(OLD)
    params = asked("a.txt", content=NEW, mode="overwrite") | {"expect": expect}
    outcome = edited(tmp_path, job_of(WRITE, params), {"staged": Path.unlink})
    assert isinstance(outcome, Ok)
    assert (outcome.value["pre_id"], outcome.value["status"]) == (None, "written")
    assert (tmp_path / "a.txt").read_bytes() == NEW


class Late(Names):
    """A disk on which somebody is a moment quicker than our move."""

    def __init__(self, target: Path, edit: Callable[[Path], Any]) -> None:
        self._left = [edit]
        self._target = target

    def move(self, here: int, old: str, new: str) -> bool:
        if self._left:
            self._left.pop()(self._target)
        return super().move(here, old, new)


def test_a_file_that_changes_before_its_delete_stays(tmp_path: Path) -> None:
    """RX-07: what was moved away is not what was judged: it has its name again, a conflict."""
    (tmp_path / "a.txt").write_bytes(OLD)
    names = Late(tmp_path / "a.txt", lambda target: target.write_bytes(USER))
    made = job_of(DELETE, asked("a.txt", expect=is_content(OLD)))
    outcome = edited(tmp_path, made, {}, names=names)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "conflict"
    assert (tmp_path / "a.txt").read_bytes() == USER
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_file_that_goes_before_its_delete_is_gone(tmp_path: Path) -> None:
    """08 W5: somebody else removed it first: the job is done, and says that nothing was there."""
    (tmp_path / "a.txt").write_bytes(OLD)
    names = Late(tmp_path / "a.txt", Path.unlink)
    outcome = edited(tmp_path, job_of(DELETE, asked("a.txt")), {}, names=names)
    assert isinstance(outcome, Ok)
    assert outcome.value["pre_id"] is None
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_place_of_what_is_deleted_comes_back(tmp_path: Path) -> None:
    """AT-26: a link that takes the name before the move is put back and never followed."""
    (tmp_path / "a.txt").write_bytes(OLD)
    (tmp_path / "other").write_bytes(USER)

    def link_in(target: Path) -> None:
        target.unlink()
        target.symlink_to("other")

    names = Late(tmp_path / "a.txt", link_in)
    outcome = edited(tmp_path, job_of(DELETE, asked("a.txt")), {}, names=names)
    assert isinstance(outcome, Failed)
    assert outcome.code == "file.link"
    assert (tmp_path / "a.txt").is_symlink()
    assert (tmp_path / "other").read_bytes() == USER


class Cut(BaseException):
    """The process ends here, for all that the executor can know."""


def test_a_delete_that_was_cut_is_found_again(tmp_path: Path) -> None:
    """08 W4: moved away and not yet removed: the next attempt ends it, and keeps no bytes that
    were expected."""
    (tmp_path / "a.txt").write_bytes(OLD)
    blobs = KeptBlobs()
    made = job_of(DELETE, asked("a.txt", expect=is_content(OLD)), blobs=blobs)

    def cut(_target: Path) -> None:
        raise Cut

    with pytest.raises(Cut):
        edited(tmp_path, made, {"placed": cut})
    assert not (tmp_path / "a.txt").exists()
    told = done(files(tmp_path), made)
    assert (told["pre_id"], told["status"]) == (content_id(OLD), "recovered")
    assert list(tmp_path.iterdir()) == []
    assert blobs.bodies == {}


def test_a_refused_write_makes_no_directory(tmp_path: Path) -> None:
    """08 section 10: of a conflict over a place that is not there, the empty folders stayed."""
    job = job_of(WRITE, asked("a/b/c.txt", content=NEW, expect=is_content(OLD)))
    assert failed(files(tmp_path), job).code == "file.conflict"
    assert list(tmp_path.iterdir()) == []
    over = job_of(WRITE, asked("a/c.txt", content=NEW, expect=is_content(OLD), mode="overwrite"))
    assert done(files(tmp_path), over)["status"] == "written"
