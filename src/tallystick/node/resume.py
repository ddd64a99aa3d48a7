"""Resuming: open intents of a world that was just opened are attempted again, not all at once.

Whether the outside was touched before the node stopped cannot be known, so each attempt is
journaled before it starts; an executor whose `on_restart` says `fail` settles them instead, as
`outcome_unknown`.
The pace is bounded and free slots are waited for: a restart is no storm (04 section 1).
Each executor has a queue of its own, so one that hangs holds up nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from tallystick.errors import JournalCorrupt
from tallystick.executors.base import Failed
from tallystick.kernel.inputs import Operate
from tallystick.kernel.world import World
from tallystick.node.dispatch import Lane
from tallystick.node.driver import Deferred, Ticket, kernel_owned
from tallystick.node.hosted import Hosted
from tallystick.node.jobs import Published, job_of
from tallystick.node.node import Node
from tallystick.node.receipts import Ended

_BEAT_S: Final = 0.05
_LOST_S: Final = 0.2  # between two looks at what the disk has lost
T = TypeVar("T")
PAGE: Final = 64  # a few milliseconds of the kernel's thread
UNKNOWN: Final = Failed(
    "outcome_unknown", "effect.outcome_unknown", "the node stopped while this was on its way"
)


class Resume:
    """Takes up open intents in the order they were opened."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._left: dict[Lane | None, deque[Deferred]] = {}
        self._task: asyncio.Task[None] | None = None
        self._lists: dict[asyncio.Task[None], None] = {}
        self._stopped = False

    @property
    def works(self) -> bool:
        """True while something that was open at the start has not been taken up yet."""
        return bool(self._left or self._lists)

    def begin(self, world: str, head: int) -> None:
        """Take up what was open at a sequence; it is listed beside service, which does not wait."""
        task = asyncio.create_task(self._list(world, head))
        self._lists[task] = None
        task.add_done_callback(lambda done: self._lists.pop(done, None))

    async def _list(self, world: str, head: int) -> None:
        """What is in memory at once, the rest in small pages, so that nobody waits for long."""
        found = await self._look(world, partial(_recent, head))
        known = {name.intent for _, name in found}
        after: bytes | None = b""
        while after is not None:
            page, after = await self._look(world, partial(_page, after, head))
            # What a snapshot wrote meanwhile is in the index now, and was in memory before.
            found += [each for each in page if each[1].intent not in known]
        found.sort()
        self._enqueue([name for _, name in found])

    async def _look(self, world: str, ask: Callable[[World], T]) -> T:
        """What a world answers; what the disk has lost of it is waited for."""
        while True:
            try:
                return await self._node.look(world, ask)
            except JournalCorrupt:
                await asyncio.sleep(_LOST_S)

    def _enqueue(self, names: list[Deferred]) -> None:
        for name in names:
            self._left.setdefault(self._node.dispatch.lane_of(name), deque()).append(name)
        if self._left and self._task is None and not self._stopped:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Take up nothing more; what is left is open in the journal."""
        self._stopped = True
        tasks = [*self._lists, *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self) -> None:
        per_beat = max(1, int(self._node.config.dispatch.resume_rate * _BEAT_S))
        while self._left:
            self._take(self._next(per_beat))
            if self._left:
                await asyncio.sleep(_BEAT_S)
        self._task = None

    def _next(self, most: int) -> list[Deferred]:
        """The next ones, as far as their executors have room; the queues take turns."""
        found: list[Deferred] = []
        for lane in list(self._left):
            if len(found) == most:
                break
            names = self._left.pop(lane)
            free = len(names) if lane is None else min(lane.room, len(names))
            found += [names.popleft() for _ in range(min(free, most - len(found)))]
            if names:
                self._left[lane] = names  # behind the others
        return found

    def _take(self, names: list[Deferred]) -> None:
        """Attempt these again: those of a world go to the engine together."""
        node = self._node
        groups: dict[str, list[Ticket]] = {}
        diverted: list[Deferred] = []
        for name in names:
            hosted = node.engine.worlds.get(name.world)
            if hosted is None:
                continue
            if node.dispatch.is_diverted(name):
                diverted.append(name)
            elif node.dispatch.fails_at_restart(name):
                node.engine.call(partial(self._give_up, hosted, name))
            else:
                given = (node.clock.sample(), "attempt", "node", "restart")
                ticket = Ticket(Operate(*given, intent=name.intent))
                ticket.keep = True
                groups.setdefault(name.world, []).append(ticket)
        if diverted:
            node.outside.wanted(diverted)
        for world, tickets in groups.items():
            node.engine.offer(node.engine.worlds[world], tickets, ingress=False)

    def _give_up(self, hosted: Hosted, name: Deferred) -> None:
        """On the kernel's thread: nobody knows what became of it, and nobody may try again."""
        driver, loop = hosted.driver, self._node.loop
        try:
            found = driver.world.intents.get(name.intent)
            if found is not None:
                job = job_of(driver.world, driver.blobs, name.intent, found)
                loop.call_soon_threadsafe(self._unknown, job)
        except JournalCorrupt as why:
            driver.stop(why)
            self._node.engine.let_out()
            loop.call_soon_threadsafe(loop.call_later, _LOST_S, self._enqueue, [name])

    def _unknown(self, job: Published) -> None:
        now_ns = self._node.clock.now_ns()
        self._node.outside.ended([Ended(job, UNKNOWN, now_ns, now_ns, {})])


Named = tuple[int, Deferred]


def _recent(head: int, world: World) -> list[Named]:
    """The open intents since before a sequence that no snapshot holds yet."""
    paths = list(world.intents.delta)
    return [named for path in paths if (named := _owed(path, head, world)) is not None]


def _page(after: bytes, head: int, world: World) -> tuple[list[Named], bytes | None]:
    """Some open intents that a snapshot holds, since before a sequence, and where to go on.

    What is opened behind it is published as it becomes durable; what settles meanwhile is gone.
    """
    paths = world.intents.paths_after(after, PAGE)
    found = [named for path in paths if (named := _owed(path, head, world)) is not None]
    return found, paths[-1] if len(paths) == PAGE else None


def _owed(path: bytes, head: int, world: World) -> Named | None:
    """An open intent by its name, when an executor owes it an outcome since before a sequence."""
    intent = world.intents.get(path)
    if intent is None or kernel_owned(intent) or intent.hold is not None or intent.seq > head:
        return None
    record = intent.record
    return intent.seq, Deferred(world.id, path, record.effect, record.executor)
