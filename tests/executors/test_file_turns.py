"""Two file effects of one name at the same moment: one is done, and the other is told."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from time import monotonic

import pytest

from tallystick.executors.base import Failed, Ok, Outcome
from tallystick.executors.file import WRITE, FileExecutor, FileSettings
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
