"""Two file effects of one name at the same moment: one is done, and the other is told."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from time import monotonic

import pytest

from tallystick.executors.base import ExecutorPorts, Failed, Ok, Outcome
from tallystick.executors.file import WRITE, FileExecutor, FileSettings, make
from tallystick.executors.file_beneath import Names, content_id
from tests.executors.attempts import job_of, no_report
from tests.executors.test_file_race import EXPECTS, OLD, Linking, Moving, Plain

PARAMS = {"workspace": "project", "path": "a.txt", "expect": EXPECTS["content"]}


def two_at_once(root: Path, names: Names, *, apart: bool = False) -> list[Outcome]:
    """Two writes that expect the same bytes, both brought to one step if they can be there."""
    (root / "a.txt").write_bytes(OLD)
    meet = threading.Barrier(2)

    def at(here: str) -> None:
        if here == "staged":
            with contextlib.suppress(threading.BrokenBarrierError):
                meet.wait(20 if apart else 0.3)  # alone is how it should be

    async def both() -> list[Outcome]:
        one = FileExecutor(FileSettings({"project": root}), at, names)
        other = FileExecutor(FileSettings({"project": root}), at, names) if apart else one
        acts = []
        for executor, text in ((one, b"one\n"), (other, b"two\n")):
            key = content_id(text).encode()[-32:]
            job = job_of(WRITE, PARAMS | {"content": text}, intent=key, dispatch_key=key)
            acts.append(executor.perform(job, no_report))
        found = await asyncio.gather(*acts)
        await asyncio.gather(one.close(), other.close())
        return list(found)

    return asyncio.run(both())


@pytest.mark.parametrize("names", [Names, Linking, Plain, Moving])
def test_writes_of_one_name_take_turns(tmp_path: Path, names: type[Names]) -> None:
    """I39: of two writes that expect the same bytes one is done, and the other is told."""
    found = two_at_once(tmp_path, names())
    done = [outcome for outcome in found if isinstance(outcome, Ok)]
    told = [outcome.code for outcome in found if isinstance(outcome, Failed)]
    assert (len(done), told) == (1, ["file.conflict"])


def test_writes_without_turns_are_found_out(tmp_path: Path) -> None:
    """I39 control: two executors know nothing of each other's turns, and soon both say done."""
    until = monotonic() + 120  # one of the first few, if the two ever run together
    while monotonic() < until:
        found = two_at_once(tmp_path, Plain(), apart=True)
        if all(isinstance(outcome, Ok) for outcome in found):
            return
    pytest.fail("the race was never lost")


def met(root: Path, pairs: list[tuple[FileExecutor, str, str]]) -> list[Outcome]:
    """Writes of one file, whoever makes them and whatever they call it, brought to one step."""
    (root / "a.txt").write_bytes(OLD)
    meet = threading.Barrier(2)

    def at(here: str) -> None:
        if here == "staged":
            with contextlib.suppress(threading.BrokenBarrierError):
                meet.wait(0.3)

    async def both() -> list[Outcome]:
        acts = []
        for number, (executor, workspace, path) in enumerate(pairs):
            executor._at, executor._names = at, Plain()
            text = b"%d\n" % number
            key = content_id(text).encode()[-32:]
            params = PARAMS | {"workspace": workspace, "path": path, "content": text}
            acts.append(executor.perform(job_of(WRITE, params, dispatch_key=key), no_report))
        found = await asyncio.gather(*acts)
        for executor, _, _ in pairs:
            await executor.close()
        return list(found)

    return asyncio.run(both())


def one_is_told(found: list[Outcome]) -> None:
    told = [outcome.code for outcome in found if isinstance(outcome, Failed)]
    assert (len(found), told) == (2, ["file.conflict"])


def test_all_executors_of_a_process_take_turns(tmp_path: Path) -> None:
    """I39: the tool of a playbook and the effect of a workflow write by executors of their own."""
    ports = ExecutorPorts(tmp_path / ".tally", None, lambda: 0)
    pairs = [(make({}, ports), "project", "a.txt") for _ in range(2)]
    one_is_told(met(tmp_path, pairs))


def test_a_file_of_two_workspaces_has_one_turn(tmp_path: Path) -> None:
    """I39: a workspace may lie in another one, or behind a link, and its files have two names."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "link").symlink_to(inner)
    executor = FileExecutor(FileSettings({"outer": tmp_path, "inner": tmp_path / "link"}))
    one_is_told(met(inner, [(executor, "outer", "inner/a.txt"), (executor, "inner", "a.txt")]))
