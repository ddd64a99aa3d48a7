"""Re-runs: recorded histories are run again beside the node's work.

They take as long as the history is, so they have threads of their own: no world waits for its turn
because of one, and no reader for a thread.
Each is bounded in time, also when one tick of it never ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tallystick.errors import DiskFull, Rejected, Unavailable
from tallystick.journal.base import UNFINISHED, Reader
from tallystick.journal.staged import StagedBlobs
from tallystick.node.node import Node
from tallystick.node.watchdog import TickStopped, Watchdog
from tallystick.node.whatif import SECONDS, Drawn, Watch, before, drawn, written
from tallystick.node.worlds import ForkOrder, world_at

T = TypeVar("T")
AT_ONCE: Final = 2


@dataclass
class UnderWay:
    """A re-run that is not over: what it is for, and how far it came.

    `of` is how much there is to do, None as long as nobody knows.
    """

    kind: str
    world: str
    begun_ns: int
    done: int = 0
    of: int | None = None

    def row(self) -> dict[str, Any]:
        """As callers are shown it."""
        return {"kind": self.kind, "begun_ns": self.begun_ns, "done": self.done, "of": self.of}


class Reruns:
    """The re-runs of a node; used on the io thread."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.under_way: list[UnderWay] = []
        self.standing: list[str] = []  # worlds whose snapshots and frames somebody works on
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tally-rerun")

    @contextmanager
    def told(self, kind: str, world: str) -> Iterator[UnderWay]:
        """Let callers see how far something came: a `what-if`, a `shadow` or a `prove`."""
        mine = UnderWay(kind, world, self._node.clock.now_ns())
        self.under_way.append(mine)
        try:
            with self.stands(world):
                yield mine
        finally:
            self.under_way.remove(mine)

    @contextmanager
    def stands(self, world: str) -> Iterator[None]:
        """Let nobody thin out or trim the history of a world meanwhile."""
        self.standing.append(world)
        try:
            yield
        finally:
            self.standing.remove(world)

    async def run(self, ask: Callable[[Reader, Callable[[], bool]], T], limit_s: float) -> T:
        """Run something over a reader of its own; it is handed a word that says when to stop.

        Refuses what has not ended by the limit; nothing of it is kept then.
        """
        gone = threading.Event()

        def stop() -> bool:
            return gone.is_set() or self._node.stopping

        def act() -> T:
            if stop():
                raise Unavailable("the node is stopping", code="node.stopping")
            reader = self._node.journal.reader()
            try:
                return _guarded(lambda: ask(reader, stop), limit_s)
            finally:
                reader.close()

        try:
            return await self._node.loop.run_in_executor(self._threads, act)
        except asyncio.CancelledError:
            gone.set()  # who asked has gone: the thread is free for the next
            raise

    async def what_if(self, order: ForkOrder) -> None:
        """Make the world that an order with edits asks for, and host it."""
        with self.told("what-if", order.parent) as mine:
            await self._what_if(order, mine)

    # tidy: run it, write it, name it; one story, told in order.
    async def _what_if(self, order: ForkOrder, mine: UnderWay) -> None:
        node = self._node
        settings, ports = node.hosting.settings, node.hosting.ports

        def news(inputs: int, of: int, ticks: int) -> None:
            mine.done, mine.of = inputs, of
            said = {"world": order.parent, "inputs": inputs, "of": of, "ticks": ticks}
            node.log.say("info", "whatif.running", "recorded inputs are run again", **said)

        def draw(reader: Reader, stop: Callable[[], bool]) -> Drawn:
            runner = node.modules(StagedBlobs(reader, order.parent))
            seq = before(reader, order)
            start = world_at(reader, order.parent, runner, seq=seq, settings=settings)
            return drawn(reader, order, start, Watch(stop, news))

        made = await self.run(draw, SECONDS)
        pages = written(ports, order, made)
        head = await node.on_kernel(lambda: next(pages))
        try:
            await node.write(lambda journal: journal.set_state(order.child, UNFINISHED))
            while (at := await node.on_kernel(lambda: next(pages, None))) is not None:
                head = at
            await node.write(lambda journal: journal.alias(order.name, order.child))
            # From here on it is whole; a node that died before drops it when it starts again.
            await node.write(lambda journal: journal.set_state(order.child, "open"))
            await node.host(order.child, lambda: node.hosting.adopt(order, made, head))
        except (DiskFull, asyncio.CancelledError):
            await node.on_kernel(lambda: None)  # a page may be on its way yet
            if order.child not in node.lanes:
                await node.write(lambda journal: journal.drop_world(order.child))
            raise

    def close(self) -> None:
        """Wait for what runs; it was told to stop."""
        self._threads.shutdown(cancel_futures=True)


def _guarded(act: Callable[[], T], limit_s: float) -> T:
    watchdog = Watchdog(limit_s)
    watchdog.start(threading.current_thread())
    try:
        with watchdog:
            return act()
    except TickStopped:
        raise Rejected(
            f"running it again takes more than {limit_s:g} s",
            code="rerun.too_long",
            hint="begin nearer to the head: a later edit, or a shorter --tail",
        ) from None
    finally:
        watchdog.stop()
