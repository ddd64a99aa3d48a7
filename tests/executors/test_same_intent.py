"""Two worlds may ask for the same at the same place: their intents have one name, and are two."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tallystick.executors.base import ExecutorPorts, Ok
from tallystick.executors.isolate import Bounds
from tallystick.executors.shell import RUN, ShellExecutor
from tallystick.executors.sql import QUERY
from tests.executors.attempts import job_of, no_report
from tests.executors.test_sql import FOREVER, asked, sql

FIRST = {"world": "w1", "dispatch_key": b"\x01" * 32}
SECOND = {"world": "w2", "dispatch_key": b"\x02" * 32}


def test_a_program_outlives_that_of_another_world(tmp_path: Path) -> None:
    """I40: the end of a short program kills no other one, whatever the two intents are called."""

    async def both() -> Any:
        ports = ExecutorPorts(tmp_path / ".tally", None, lambda: 0)
        executor = ShellExecutor(Bounds("rlimits"), ports)
        long = asyncio.create_task(
            executor.perform(job_of(RUN, {"argv": ["sleep", "1.5"]}, **FIRST), no_report)
        )
        await asyncio.sleep(0)
        await executor.perform(job_of(RUN, {"argv": ["true"]}, **SECOND), no_report)
        assert not long.done()
        outcome = await long
        await executor.close()
        return outcome

    assert isinstance(asyncio.run(asyncio.wait_for(both(), 60)), Ok)


def test_a_statement_outlives_that_of_another_world(tmp_path: Path) -> None:
    """I40: a question that is answered interrupts nobody else's."""
    (tmp_path / "app.db").touch()

    async def both() -> bool:
        executor = sql(tmp_path)
        long = job_of(QUERY, asked(FOREVER), **FIRST)
        running = asyncio.create_task(executor.perform(long, no_report))
        await asyncio.sleep(0)
        await executor.perform(job_of(QUERY, asked("SELECT 1"), **SECOND), no_report)
        await asyncio.wait({running}, timeout=0.5)
        alone = not running.done()
        await executor.cancel(long)
        await running
        await executor.close()
        return alone

    assert asyncio.run(asyncio.wait_for(both(), 60))


def test_a_second_attempt_outlives_the_first(tmp_path: Path) -> None:
    """K-27: what an older attempt was told to stop for is no matter of the newer one."""
    (tmp_path / "app.db").touch()

    async def both() -> bool:
        executor = sql(tmp_path)
        first = asyncio.create_task(executor.perform(job_of(QUERY, asked(FOREVER)), no_report))
        await asyncio.sleep(0)
        again = job_of(QUERY, asked(FOREVER), attempt=2)
        second = asyncio.create_task(executor.perform(again, no_report))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({second}, timeout=0.5)
        alone = not second.done()
        await executor.cancel(again)
        await second
        await executor.close()
        return alone

    assert asyncio.run(asyncio.wait_for(both(), 60))
