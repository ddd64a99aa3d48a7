"""A node for measuring: a real one, in this process, with an executor that does nothing.

The journal is SQLite with every commit synced, receipts are sealed, and the workflows run from
their bundle in the metered lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tallystick.cli.here import modules_of
from tallystick.cli.sources import bundle_at
from tallystick.errors import TallyError
from tallystick.executors.base import Job, Ok, Outcome, Repeat, Report
from tallystick.kernel.inputs import Submit
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node

APP: Final = Path(__file__).parent / "app"
WORLD: Final = "main"
SLOTS: Final = 100_000
_DONE: Final = b"completed"


class Noop:
    """Performs a step by saying that it did; `act` may wait first."""

    name = "bench"
    effects = frozenset({"bench/step@1"})
    repeat: Repeat = "same"
    slots = SLOTS

    def __init__(self, act: Callable[[Job], Awaitable[None]] | None = None) -> None:
        self._act = act
        self.done = 0

    def at_once(self, job: Job) -> Outcome | None:
        """Done, unless there is something to wait for."""
        return self._did(job) if self._act is None else None

    async def perform(self, job: Job, report: Report) -> Outcome:
        """Done."""
        del report
        if self._act is not None:
            await self._act(job)
        return self._did(job)

    def _did(self, job: Job) -> Outcome:
        self.done += 1
        return Ok({"at": job.params["at"]})

    async def cancel(self, job: Job) -> None:
        """Nothing to tell."""

    async def close(self) -> None:
        """Nothing to give back."""


@asynccontextmanager
async def node_in(
    folder: Path, executor: Noop | None = None, **sections: Mapping[str, Any]
) -> AsyncIterator[tuple[Node, str]]:
    """A node and its world; the world is made of the benchmark's bundle when it is not there."""
    settings: dict[str, Any] = {"dispatch": {"slots": SLOTS}, **sections}
    served = [] if executor is None else [executor]
    node = await open_node(config_of(folder, settings, {}), modules_of(), executors=served)
    try:
        world = node.names.get(WORLD) or await node.create(WORLD, bundle_at(APP))
        yield node, world
    finally:
        await close_node(node, 0)


async def send(node: Node, world: str, schema: str, **value: Any) -> int:
    """Send one event; its sequence, once it is durable."""
    (answer,) = await node.offer(world, Submit(node.clock.sample(), f"bench/{schema}@1", value))
    if isinstance(answer, Exception):
        raise answer
    return answer.seq


class Ends:
    """Counts cells that end, in durable frames, as any reader of the feed could.

    `told` is called for each of them.
    """

    def __init__(self, node: Node, world: str, told: Callable[[], None] | None = None) -> None:
        self._told = told
        self._feed = node.feed.subscribe(world, node.feed.head(world))
        self._changed = asyncio.Event()
        self._wanted = 0
        self.count = 0
        self.task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        async for item in self._feed:
            if item.kind == "frame" and _DONE in item.body.body:
                self.count += 1
                if self._told is not None:
                    self._told()
                if self.count >= self._wanted:
                    self._changed.set()
            elif item.kind == "behind":
                raise TallyError("the reader was too slow", code="bench.behind")

    async def reach(self, count: int, limit_s: float) -> None:
        """Wait until so many cells have ended; TimeoutError after some seconds."""
        async with asyncio.timeout(limit_s):
            self._wanted = count
            while self.count < count:
                self._changed.clear()
                waiting = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if self.task.done():
                    self.task.result()

    async def close(self) -> None:
        """Stop to read."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self._feed.aclose()  # type: ignore[attr-defined]  # an async generator has it
