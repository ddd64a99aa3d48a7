"""The processes of a proof, as the node sees them: asked in turn, and missed when they die."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from tallystick.errors import Unavailable
from tallystick.node import proving

_SAID_MAX: Final = 4096  # bytes of what a process said last


class Hand:
    """One process that has loaded what it needs and waits for orders."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.news: Callable[[int], None] = lambda _records: None
        self._said = b""
        self._listening = asyncio.create_task(self._listen())

    async def ready(self) -> None:
        """Wait until it has loaded; refuses one that did not come so far."""
        assert self.process.stdout is not None, "it is a pipe"
        if await self.process.stdout.read(len(proving.READY)) != proving.READY:
            raise await self._lost()

    async def open(self, case: bytes) -> None:
        """Say what is proved; the process answers when it is asked about it."""
        await self._put(case)

    async def ask(self, order: bytes) -> list[proving.Row]:
        """The rows of an answer; refuses with `gov.proof_failed` when the process ends before.

        On the way `news` is told how many more records were run.
        """
        await self._put(order)
        assert self.process.stdout is not None, "it is a pipe"
        rows: list[proving.Row] = []
        try:
            while size := await self.process.stdout.readexactly(proving.SIZE):
                length = int.from_bytes(size, "big")
                if not length:
                    break
                page: Any = proving.read_message(await self.process.stdout.readexactly(length))
                if isinstance(page, int):
                    self.news(page)
                else:
                    rows += page
        except asyncio.IncompleteReadError:
            raise await self._lost() from None
        return rows

    async def close(self) -> None:
        """End it: it has told its verdicts, or nobody waits for them any more."""
        assert self.process.stdin is not None, "it is a pipe"
        with suppress(ProcessLookupError):
            self.process.kill()
        await self._listening
        await self.process.wait()
        self.process.stdin.close()
        # An order that it did not take would else be told again, as an exception nobody asked for.
        with suppress(ConnectionError):
            await self.process.stdin.wait_closed()

    async def _put(self, order: bytes) -> None:
        assert self.process.stdin is not None, "it is a pipe"
        try:
            self.process.stdin.write(order)
            await self.process.stdin.drain()
        except ConnectionError:
            raise await self._lost() from None

    async def _listen(self) -> None:
        """Keep the end of what it says, so that it never waits for a reader."""
        assert self.process.stderr is not None, "it is a pipe"
        while said := await self.process.stderr.read(_SAID_MAX):
            self._said = (self._said + said)[-_SAID_MAX:]

    async def _lost(self) -> Unavailable:
        await self._listening
        code = await self.process.wait()
        words = self._said.decode(errors="replace").strip().splitlines()
        return Unavailable(
            f"a proof ended before its verdicts: {words[-1] if words else f'exit {code}'}",
            code="gov.proof_failed",
            hint="nothing was changed: try again",
        )


@asynccontextmanager
async def at_hand() -> AsyncIterator[Hand]:
    """A process that has loaded what it needs and waits for its orders."""
    words = (sys.executable, "-m", proving.__name__)
    child = Hand(await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE, stderr=PIPE))
    try:
        await child.ready()
        yield child
    finally:
        await child.close()


@asynccontextmanager
async def several(count: int) -> AsyncIterator[list[Hand]]:
    """So many of them; they load at the same time."""
    async with AsyncExitStack() as stack:
        waiting = [at_hand() for _ in range(count)]
        yield list(await asyncio.gather(*map(stack.enter_async_context, waiting)))
