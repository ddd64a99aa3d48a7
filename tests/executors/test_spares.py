"""Sandboxes that stand ready: they serve one program, and nothing of another reaches it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import Failed, Ok
from tallystick.executors.isolate import Bounds, Program
from tallystick.executors.isolate_spares import Spares
from tallystick.executors.isolate_watch import Surroundings
from tallystick.executors.python import RUN, PythonExecutor
from tests.executors.attempts import job_of, no_report
from tests.executors.sandboxes import need_walls, ports

PYTHON = Program(argv=("python",), answer=True, code="pass")
SHELL = Program(argv=("true",))
WHO = """
import os
def main():
    open(f"/tmp/{os.getpid()}", "w").close()
    return [os.readlink("/proc/self/ns/pid"), sorted(os.listdir("/tmp")), os.getuid()]
"""


@pytest.fixture(autouse=True)
def walls() -> None:
    need_walls()


@asynccontextmanager
async def pythons(folder: Path) -> AsyncIterator[PythonExecutor]:
    executor = PythonExecutor(Bounds(), ports(folder))
    try:
        yield executor
    finally:
        await executor.close()


async def results(executor: PythonExecutor, codes: Sequence[str], **job: Any) -> list[Any]:
    """What the codes answer, one after the other."""
    found = []
    for code in codes:
        outcome = await executor.perform(
            job_of(RUN, {"code": code, "args": None}, **job), no_report
        )
        assert isinstance(outcome, Ok), outcome
        found.append(outcome.value["result"])
    return found


def spare_of(executor: PythonExecutor) -> int:
    """The process of the only spare."""
    (found,) = executor._jobs._spares._ready[False]  # the test is about them
    return found.process.pid


def kill(pid: int) -> None:
    """Kill a spare, and wait until it is dead; whoever started it still hears how it ended."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def space_of(pid: int) -> str:
    """The process space of a process."""
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def around(folder: Path) -> Surroundings:
    return Surroundings(folder / ".tally", 30, lambda: False)


def test_programs_that_follow_each_other_share_nothing(tmp_path: Path):
    """Each has a process space and a `/tmp` of its own, whether its sandbox stood ready or not."""

    async def main() -> None:
        async with pythons(tmp_path) as executor:
            rows = await results(executor, [WHO] * 3)
        spaces, files, _ = zip(*rows, strict=True)
        assert len(set(spaces)) == 3
        assert [len(each) for each in files] == [1, 1, 1]

    asyncio.run(main())


def test_the_next_program_takes_the_sandbox_that_was_started_meanwhile(tmp_path: Path):
    """A spare is used, once: the one after it is another."""

    async def main() -> None:
        async with pythons(tmp_path) as executor:
            await results(executor, [WHO])
            first = spare_of(executor)
            space = space_of(_inmost(first))
            ((taken, _, _),) = await results(executor, [WHO])
            assert taken == space
            assert spare_of(executor) != first

    asyncio.run(main())


def _inmost(pid: int) -> int:
    """The launcher that waits behind the walls: the youngest child."""
    while True:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
        if not below:
            return pid
        pid = int(below[-1])


def test_a_spare_that_died_serves_nobody(tmp_path: Path):
    """The next program runs in a new sandbox."""

    async def main() -> None:
        async with pythons(tmp_path) as executor:
            await results(executor, [WHO])
            kill(spare_of(executor))
            assert len(await results(executor, [WHO])) == 1

    asyncio.run(main())


def test_a_spare_without_the_network_serves_no_program_that_has_it(tmp_path: Path):
    """Which walls a program has is decided by its grant, not by what stands ready."""
    spaces = "import os\ndef main():\n    return os.readlink('/proc/self/ns/net')\n"
    ours = str(Path("/proc/self/ns/net").readlink())

    async def main() -> None:
        async with pythons(tmp_path) as executor:
            without = await results(executor, [spaces])
            within = await results(executor, [spaces] * 2, grant={"network": True})
            again = await results(executor, [spaces])
        assert ours not in (*without, *again)
        assert within == [ours, ours]

    asyncio.run(main())


def test_spares_end_when_nobody_wants_them(tmp_path: Path):
    """They are bounded in number, end when they are dropped, and none follows a close."""
    spares = Spares(Bounds())
    for _ in range(5):
        spares.stock(PYTHON, around(tmp_path))
    spares.stock(SHELL, around(tmp_path))
    held = [each.process for each in spares._ready[False]]  # as above
    assert len(held) == 2
    spares.drop()
    assert [process.returncode for process in held] == [0, 0]
    spares.close()
    spares.stock(PYTHON, around(tmp_path))
    assert not spares._ready[False]  # as above


def test_a_program_has_no_handle_but_its_own(tmp_path: Path):
    """What the launcher heard and said through is closed: only input, outputs and answer stay."""
    code = """
import os
def main():
    open_ones = []
    for name in os.listdir("/proc/self/fd"):
        try:
            open_ones.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass  # the handle of the listing itself
    return open_ones
"""

    async def main() -> None:
        async with pythons(tmp_path) as executor:
            (found,) = await results(executor, [code])
        assert len(found) == 4, found

    asyncio.run(main())


def test_a_program_has_no_rights_of_the_launcher(tmp_path: Path):
    """A node of root lets the launcher become somebody else; the code itself may not any more."""
    code = """
def main():
    with open("/proc/self/status") as file:
        lines = dict(line.rstrip().split(":", 1) for line in file)
    return [int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapAmb")]
"""

    async def main() -> None:
        async with pythons(tmp_path) as executor:
            assert await results(executor, [code] * 2) == [[0, 0, 0]] * 2

    asyncio.run(main())


def test_installed_packages_are_found_when_one_is_wanted(tmp_path: Path):
    """Their places come with the first name that the standard library has not."""
    code = """
import sys
def main():
    before = any("site-packages" in place or "dist-packages" in place for place in sys.path)
    try:
        import no_such_package_anywhere
    except ModuleNotFoundError:
        pass
    after = any("site-packages" in place or "dist-packages" in place for place in sys.path)
    return [before, after, callable(exit)]
"""

    async def main() -> None:
        async with pythons(tmp_path) as executor:
            assert await results(executor, [code]) == [[False, True, True]]
            with_network = await results(executor, [code], grant={"network": True})
            assert with_network == [[True, True, True]]

    asyncio.run(main())


def test_a_closed_pipe_is_an_error_of_the_code(tmp_path: Path):
    """Code finds the signals as an interpreter sets them: writing to nobody raises."""
    code = """
import os
def main():
    read, write = os.pipe()
    os.close(read)
    os.write(write, b"x")
"""

    async def main() -> None:
        async with pythons(tmp_path) as executor:
            outcome = await executor.perform(job_of(RUN, {"code": code, "args": None}), no_report)
        assert isinstance(outcome, Failed)
        assert outcome.message.startswith("BrokenPipeError")

    asyncio.run(main())
