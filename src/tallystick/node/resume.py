"""Resuming: open intents of a world that was just opened are attempted again, not all at once.

Whether the outside was touched before the node stopped cannot be known, so each attempt is
journaled before it starts; an executor whose `on_restart` says `fail` settles them instead, as
`outcome_unknown`.
The pace is bounded and free slots are waited for: a restart is no storm (04 section 1).
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from itertools import islice
from typing import Final

from tallystick.executors.base import Failed
from tallystick.kernel.inputs import Operate
from tallystick.kernel.world import World
from tallystick.node.driver import Deferred, Published, Ticket, kernel_owned
from tallystick.node.hosted import Hosted
from tallystick.node.node import Node
from tallystick.node.receipts import Ended

_BEAT_S: Final = 0.05
PAGE: Final = 500
UNKNOWN: Final = Failed(
    "outcome_unknown", "effect.outcome_unknown", "the node stopped while this was on its way"
)


class Resume:
    """Takes up open intents in the order they were opened."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._left: deque[Deferred] = deque()
        self._task: asyncio.Task[None] | None = None
        self._lists: dict[asyncio.Task[None], None] = {}

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
        """In small pages of the live world, so that nobody waits for a long one."""
        found: list[tuple[int, Deferred]] = []
        after: bytes | None = b""
        while after is not None:
            page, after = await self._node.look(world, partial(_page, after, head))
            found += page
        found.sort()
        self._left.extend(name for _, name in found)
        if self._left and self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Take up nothing more; what is left is open in the journal."""
        tasks = [*self._lists, *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self) -> None:
        node = self._node
        per_beat = max(1, int(node.config.dispatch.resume_rate * _BEAT_S))
        while self._left:
            room = node.config.dispatch.slots - len(node.dispatch.running)
            for _ in range(min(per_beat, max(room - node.dispatch.waiting_count(), 0))):
                if self._left:
                    self._take(self._left.popleft())
            await asyncio.sleep(_BEAT_S)
        self._task = None

    def _take(self, name: Deferred) -> None:
        node = self._node
        hosted = node.engine.worlds.get(name.world)
        if hosted is None:
            return
        if node.dispatch.is_diverted(name):
            node.outside.wanted([name])
            return
        if node.dispatch.fails_at_restart(name):
            node.engine.call(lambda: self._give_up(hosted, name.intent))
            return
        given = Operate(node.clock.sample(), "attempt", "node", "restart", intent=name.intent)
        ticket = Ticket(given)
        ticket.keep = True
        node.engine.offer(hosted, [ticket], ingress=False)

    def _give_up(self, hosted: Hosted, intent: bytes) -> None:
        """On the kernel's thread: nobody knows what became of it, and nobody may try again."""
        found = hosted.driver.world.intents.get(intent)
        if found is not None:
            job = hosted.driver.job(intent, found)
            self._node.loop.call_soon_threadsafe(self._unknown, job)

    def _unknown(self, job: Published) -> None:
        now_ns = self._node.clock.now_ns()
        self._node.outside.ended([Ended(job, UNKNOWN, now_ns, now_ns, {})])


def _page(after: bytes, head: int, world: World) -> tuple[list[tuple[int, Deferred]], bytes | None]:
    """Some open intents that an executor owes an outcome since before a sequence, and where next.

    What is opened behind it is published as it becomes durable; what settles meanwhile is gone.
    """
    found: list[tuple[int, Deferred]] = []
    for path, intent in islice(world.intents.entries(after), PAGE):
        after = path
        owed = not kernel_owned(intent) and intent.hold is None and intent.seq <= head
        if owed:
            record = intent.record
            found.append((intent.seq, Deferred(world.id, path, record.effect, record.executor)))
    more = next(iter(world.intents.entries(after)), None) is not None
    return found, after if more else None
