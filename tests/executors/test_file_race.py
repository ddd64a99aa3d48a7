"""File effects while a person writes, at every step of the protocol: no byte of theirs is lost."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import Failed, Job, Ok, Outcome
from tallystick.executors.file import DELETE, WRITE, FileExecutor, FileSettings
from tallystick.executors.file_beneath import Names, content_id
from tallystick.executors.file_change import STEPS
from tests.executors.attempts import KeptBlobs, job_of, no_report, outcome_of

OLD, NEW, USER = b"old\n", b"new\n", b"of a person\n"
EXPECTS = {
    "any": None,
    "absent": {"$tag": "absent"},
    "content": {"$tag": "content", "$value": content_id(OLD)},
}


def rewrite(target: Path) -> None:
    target.write_bytes(USER)


def swap_in(target: Path) -> None:
    aside = target.with_name("aside")
    aside.write_bytes(USER)
    aside.rename(target)


class Linking(Names):
    """A file system that knows hard links and no more."""

    def exchange(self, here: int, one: str, other: str) -> bool:
        return False

    def move(self, here: int, old: str, new: str) -> bool:
        return False


class Plain(Linking):
    """A file system that knows nothing but a plain rename."""

    def link(self, here: int, old: str, new: str) -> bool:
        return False


class Moving(Names):
    """A file system without hard links."""

    def link(self, here: int, old: str, new: str) -> bool:
        return False


def raced(root: Path, job: Job, step: str, edit: Callable[[Path], None], **other: Any) -> Outcome:
    """Perform the job; a person edits once, when it comes to the step."""
    left = [edit]

    def at(here: str) -> None:
        if here == step and left:
            left.pop()(root / "a.txt")

    executor = FileExecutor(FileSettings({"project": root}), at, **other)
    return asyncio.run(outcome_of(executor, job))


def job_for(effect: str, expect: str, blobs: KeptBlobs, **other: Any) -> Job:
    content = {"content": NEW} if effect == WRITE else {}
    params = {"workspace": "project", "path": "a.txt", "expect": EXPECTS[expect]}
    return job_of(effect, params | content | other, blobs=blobs)


def is_kept(root: Path, blobs: KeptBlobs, outcome: Outcome) -> bool:
    """True when the bytes of the person are there, kept, or told to be what was replaced."""
    target = root / "a.txt"
    if target.exists() and target.read_bytes() == USER:
        return True
    if content_id(USER) in blobs.bodies:
        return True
    return isinstance(outcome, Ok) and outcome.value["pre_id"] == content_id(USER)


@pytest.mark.clause("F-11")
@pytest.mark.parametrize("edit", [rewrite, swap_in])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("effect", [WRITE, DELETE])
def test_an_edit_at_any_step_is_not_lost(
    tmp_path: Path, effect: str, step: str, edit: Callable[[Path], None]
) -> None:
    """RX-07: new or present file, any expectation: the edit stays, is kept, or is the pre-image."""
    for before in (None, OLD):
        for expect in EXPECTS:
            root = tmp_path / f"{before is None}-{expect}"
            root.mkdir()
            if before is not None:
                (root / "a.txt").write_bytes(before)
            blobs = KeptBlobs()
            edited: list[Path] = []

            def once(target: Path, edited: list[Path] = edited) -> None:
                edited.append(target)
                edit(target)

            outcome = raced(root, job_for(effect, expect, blobs), step, once)
            assert not edited or is_kept(root, blobs, outcome), (before, expect, outcome)
            assert isinstance(outcome, Ok) or outcome.kind == "conflict"
            assert {p.name for p in root.iterdir()} <= {"a.txt"}


@pytest.mark.clause("F-11")
@pytest.mark.parametrize("expect", ["absent", "content"])
@pytest.mark.parametrize("step", ["begun", "created", "staged"])
def test_an_edit_before_the_act_is_a_conflict(tmp_path: Path, step: str, expect: str) -> None:
    """S29: what was not expected is never replaced, however late it came."""
    if expect == "content":
        (tmp_path / "a.txt").write_bytes(OLD)
    outcome = raced(tmp_path, job_for(WRITE, expect, KeptBlobs()), step, rewrite)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "conflict"
    assert (tmp_path / "a.txt").read_bytes() == USER


class Blind(Names):
    """A planted defect: a plain rename that pretends the expected bytes came out."""

    def exchange(self, here: int, one: str, other: str) -> bool:
        os.rename(one, other, src_dir_fd=here, dst_dir_fd=here)
        handle = os.open(one, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here)
        os.write(handle, OLD)
        os.close(handle)
        return True


def test_without_the_look_behind_the_exchange_the_edit_is_lost(tmp_path: Path) -> None:
    """RX-07 control: where what came out is not seen, the same edit is lost."""
    (tmp_path / "a.txt").write_bytes(OLD)
    blobs = KeptBlobs()
    outcome = raced(tmp_path, job_for(WRITE, "any", blobs), "staged", rewrite, names=Blind())
    assert not is_kept(tmp_path, blobs, outcome)


def link_in(target: Path) -> None:
    target.unlink(missing_ok=True)
    target.symlink_to("/etc/passwd")


@pytest.mark.clause("F-12")
@pytest.mark.parametrize("effect", [WRITE, DELETE])
@pytest.mark.parametrize("step", ["begun", "staged", "placed"])
def test_a_link_at_any_step_is_not_followed(tmp_path: Path, effect: str, step: str) -> None:
    """S21: a link that appears meanwhile is refused or left alone, and nothing goes through it."""
    (tmp_path / "a.txt").write_bytes(OLD)
    before = Path("/etc/passwd").read_bytes()
    outcome = raced(tmp_path, job_for(effect, "any", KeptBlobs()), step, link_in)
    assert isinstance(outcome, Ok) or outcome.kind == "scope"
    assert Path("/etc/passwd").read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} <= {"a.txt"}


@pytest.mark.parametrize("names", [Linking(), Moving(), Plain()], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("effect", [WRITE, DELETE])
def test_a_poorer_file_system_serves_too(tmp_path: Path, effect: str, names: Names) -> None:
    """08 section 10: without exchange support: look again, then rename; edits are seen."""
    for before in (None, OLD):
        root = tmp_path / str(before is None)
        root.mkdir()
        if before is not None:
            (root / "a.txt").write_bytes(before)
        outcome = raced(root, job_for(effect, "any", KeptBlobs()), "never", rewrite, names=names)
        assert isinstance(outcome, Ok)
        there = [p.read_bytes() for p in root.iterdir()]
        assert there == ([NEW] if effect == WRITE else [])
        (root / "a.txt").unlink(missing_ok=True)
        if before is not None:
            (root / "a.txt").write_bytes(before)
        blobs = KeptBlobs()
        outcome = raced(root, job_for(effect, "any", blobs), "staged", rewrite, names=names)
        if effect == WRITE:  # a delete has no stage to fill, so nobody edits then
            assert is_kept(root, blobs, outcome)
        assert {p.name for p in root.iterdir()} <= {"a.txt"}


@pytest.mark.parametrize("names", [Names(), Linking(), Plain()], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("taken", [False, True])
def test_a_displaced_file_gets_its_name_again(tmp_path: Path, names: Names, taken: bool) -> None:
    """RX-07: a delete that was killed over foreign bytes gives them back, or keeps a blob."""
    (tmp_path / ".a.txt.00010203.stage").write_bytes(USER)
    if taken:
        (tmp_path / "a.txt").write_bytes(NEW)
    blobs = KeptBlobs()
    outcome = raced(tmp_path, job_for(DELETE, "content", blobs), "never", rewrite, names=names)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "conflict"
    assert (tmp_path / "a.txt").read_bytes() == (NEW if taken else USER)
    assert (content_id(USER) in blobs.bodies) == taken
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (errno.ENOSPC, "limit", "file.disk_full"),
        (errno.EROFS, "auth", "file.refused"),
        (errno.ENAMETOOLONG, "client_error", "file.name"),
        (errno.EIO, "server_error", "file.io"),
    ],
)
def test_what_the_disk_refuses_leaves_no_trace(
    tmp_path: Path, number: int, kind: str, code: str
) -> None:
    """10 F3: a write that the disk refuses is told by whose fault, and nothing is half-written."""
    (tmp_path / "a.txt").write_bytes(OLD)

    def refuse(target: Path) -> None:
        raise OSError(number, "refused")

    outcome = raced(tmp_path, job_for(WRITE, "any", KeptBlobs()), "created", refuse)
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.code) == (kind, code)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [OLD]


def test_a_file_that_always_changes_is_given_up(tmp_path: Path) -> None:
    """08 W5: after many rounds the job ends as a conflict, and the file is as others left it."""
    target, turn = tmp_path / "a.txt", [0]

    def at(step: str) -> None:
        if step == "staged":
            turn[0] += 1
            target.write_bytes(b"%d" % turn[0])

    target.write_bytes(OLD)
    executor = FileExecutor(FileSettings({"project": tmp_path}), at)
    outcome = asyncio.run(outcome_of(executor, job_for(WRITE, "any", KeptBlobs())))
    assert isinstance(outcome, Failed)
    assert outcome.kind == "conflict"
    assert target.read_bytes() == b"%d" % turn[0]
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_job_cancelled_in_the_queue_does_not_begin(tmp_path: Path) -> None:
    """04 section 5: cancel is best effort: what has not begun does not begin."""
    (tmp_path / "a.txt").write_bytes(OLD)
    cancelled = threading.Event()

    def at(_step: str) -> None:
        assert cancelled.wait(60), "the only thread is held until the cancel was asked for"

    async def outcomes() -> list[Outcome]:
        executor = FileExecutor(FileSettings({"project": tmp_path}, slots=1), at)
        ahead = job_of(DELETE, {"workspace": "project", "path": "b.txt"}, intent=b"2" * 32)
        job = job_for(WRITE, "any", KeptBlobs())
        both = [asyncio.create_task(executor.perform(each, no_report)) for each in (ahead, job)]
        await asyncio.sleep(0)
        await executor.cancel(job)
        cancelled.set()
        ended = await asyncio.gather(*both)
        await executor.close()
        return ended

    _, outcome = asyncio.run(outcomes())
    assert isinstance(outcome, Failed)
    assert outcome.kind == "cancelled"
    assert (tmp_path / "a.txt").read_bytes() == OLD
