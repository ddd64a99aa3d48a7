"""Many who append to one file at the same moment: each of them is done, none is told to stop."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tallystick.executors.base import Failed, Ok, Outcome
from tallystick.executors.file import FileExecutor, FileSettings
from tallystick.executors.playbook_files import WRITE, Appends
from tests.executors.attempts import job_of, no_report

MANY = 60


def appended(root: Path, turns: list[Appends]) -> list[Outcome]:
    """One append for each of the given turns, all at once."""

    async def all_at_once() -> list[Outcome]:
        executor = FileExecutor(FileSettings({"project": root}))
        acts = []
        for number, own in enumerate(turns):
            key = number.to_bytes(32, "big")
            params = {"workspace": "project", "path": "log", "content": f"<{number}>".encode()}
            job = job_of(WRITE, params, intent=key, dispatch_key=key)
            acts.append(own.append(executor, job, no_report))
        found = await asyncio.gather(*acts)
        await executor.close()
        return list(found)

    return asyncio.run(all_at_once())


def test_however_many_append_each_is_done(tmp_path: Path) -> None:
    """More than there are tries: a turn is waited for, so nobody is the loser of every round."""
    found = appended(tmp_path, [Appends()] * MANY)
    assert all(isinstance(outcome, Ok) for outcome in found), found
    lines = (tmp_path / "log").read_text().replace("><", "> <").split()
    assert sorted(lines) == sorted(f"<{number}>" for number in range(MANY))


def test_without_turns_some_are_told_to_stop(tmp_path: Path) -> None:
    """Control: who knows nothing of the others' turns loses ten rounds; no line is half there."""
    found = appended(tmp_path, [Appends() for _ in range(MANY)])
    lost = [outcome.code for outcome in found if isinstance(outcome, Failed)]
    assert set(lost) == {"file.conflict"}
    lines = (tmp_path / "log").read_text().replace("><", "> <").split()
    assert len(lines) == len(set(lines)) == MANY - len(lost)
