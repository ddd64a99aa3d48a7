"""File effects while a person writes, at every step of the protocol: no byte of theirs is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import Failed, Job, Ok, Outcome
from tallystick.executors.file import DELETE, READ, WRITE, FileExecutor, FileSettings
from tallystick.executors.file_beneath import content_id, rename_flagged
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


def no_exchange(here: int, old: str, new: str, flag: int) -> bool:
    """A file system that knows no flags."""
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


def blind(here: int, old: str, new: str, flag: int) -> bool:
    """A planted defect: a plain rename that pretends the expected bytes came out."""
    os.rename(old, new, src_dir_fd=here, dst_dir_fd=here)
    handle = os.open(old, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here)
    os.write(handle, OLD)
    os.close(handle)
    return True


def test_without_the_look_behind_the_exchange_the_edit_is_lost(tmp_path: Path) -> None:
    """RX-07 control: where what came out is not seen, the same edit is lost."""
    (tmp_path / "a.txt").write_bytes(OLD)
    blobs = KeptBlobs()
    outcome = raced(tmp_path, job_for(WRITE, "any", blobs), "staged", rewrite, flagged=blind)
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


@pytest.mark.parametrize("effect", [WRITE, DELETE])
def test_a_file_system_without_exchange_serves_too(tmp_path: Path, effect: str) -> None:
    """08 section 10: without exchange support: look again, then rename."""
    for before in (None, OLD):
        root = tmp_path / str(before is None)
        root.mkdir()
        if before is not None:
            (root / "a.txt").write_bytes(before)
        job = job_for(effect, "any", KeptBlobs())
        outcome = raced(root, job, "never", rewrite, flagged=no_exchange)
        assert isinstance(outcome, Ok)
        there = [p.read_bytes() for p in root.iterdir()]
        assert there == ([NEW] if effect == WRITE else [])
    (tmp_path / "a.txt").write_bytes(OLD)
    job = job_for(WRITE, "content", KeptBlobs())
    late = raced(tmp_path, job, "staged", rewrite, flagged=no_exchange)
    assert isinstance(late, Failed)
    assert (tmp_path / "a.txt").read_bytes() == USER


def test_a_file_that_always_changes_is_given_up(tmp_path: Path) -> None:
    """08 W5: after many rounds the job ends as a conflict, and the file is as others left it."""
    target, turn = tmp_path / "a.txt", [0]

    def at(step: str) -> None:
        if step == "staged":
            turn[0] += 1
            target.write_bytes(b"%d" % turn[0])

    target.write_bytes(OLD)
    executor = FileExecutor(FileSettings({"project": tmp_path}), at, rename_flagged)
    outcome = asyncio.run(outcome_of(executor, job_for(WRITE, "any", KeptBlobs())))
    assert isinstance(outcome, Failed)
    assert outcome.kind == "conflict"
    assert target.read_bytes() == b"%d" % turn[0]
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_job_cancelled_in_the_queue_does_not_begin(tmp_path: Path) -> None:
    """04 section 5: cancel is best effort: what has not begun does not begin."""
    (tmp_path / "a.txt").write_bytes(OLD)

    async def cancelled() -> Outcome:
        executor = FileExecutor(FileSettings({"project": tmp_path}, slots=1), lambda step: None)
        job = job_for(WRITE, "any", KeptBlobs())
        first = job_of(READ, {"workspace": "project", "path": "a.txt"}, intent=b"2" * 32)
        ahead = [asyncio.create_task(executor.perform(first, no_report)) for _ in range(50)]
        running = asyncio.create_task(executor.perform(job, no_report))
        await asyncio.sleep(0)
        await executor.cancel(job)
        await asyncio.gather(*ahead)
        outcome = await running
        await executor.close()
        return outcome

    outcome = asyncio.run(cancelled())
    assert isinstance(outcome, Failed)
    assert outcome.kind == "cancelled"
    assert (tmp_path / "a.txt").read_bytes() == OLD
