"""The feed: durable frames for readers, without a gap and without a repeat (K-45).

The node keeps the newest frames of each world; a reader that is further behind reads the journal.
So a slow reader costs no memory, and one that comes back goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from tallystick.journal.base import Head
from tallystick.model.frames import Sealed

RECENT_FRAMES: Final = 1_024
PAGE_FRAMES: Final = 512
HEAD_EVERY_S: Final = 5.0


class FeedItem(NamedTuple):
    """Something for a reader: `frame` and `head` are durable, `progress` is not."""

    kind: str
    seq: int
    body: Any = None


class _Channel:
    """What the feed knows of one world."""

    __slots__ = ("head", "progress", "recent", "waiters")

    def __init__(self, head: int) -> None:
        self.head = head
        self.recent: deque[Sealed] = deque(maxlen=RECENT_FRAMES)
        self.waiters: list[asyncio.Future[bool]] = []
        self.progress: list[deque[Any]] = []

    def wake(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(True)
        self.waiters.clear()


class _Sleep:
    """How one reader waits: until something comes, or long enough to be told where the head is.

    A commit may come every millisecond, so one timer serves many waits: when it rings, it looks
    how long nothing has come, and waits for the rest.
    """

    __slots__ = ("_loop", "_since", "_timer", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[bool] | None = None

    async def until(self, channel: _Channel) -> bool:
        """Wait; False when it is time to say where the head is."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiter = waiter
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(HEAD_EVERY_S, self._ring)
        channel.waiters.append(waiter)
        came = False
        try:
            came = await waiter
        finally:  # who leaves in the middle waits no more either
            if not came and waiter in channel.waiters:
                channel.waiters.remove(waiter)
        return came

    def _ring(self) -> None:
        left_s = self._since + HEAD_EVERY_S - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._ring)
            return
        self._timer = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(False)

    def end(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()


Read = Callable[[str, int, int], Awaitable[list[Sealed]]]


class Feed:
    """Readers of all worlds of a node; everything here runs on the io thread."""

    def __init__(self, read: Read, buffer: int) -> None:
        self._read = read
        self._buffer = buffer
        self._channels: dict[str, _Channel] = {}
        self._closed = False
        self._readers: dict[int, tuple[str, int]] = {}

    def begin(self, world: str, head: int) -> None:
        """A world is open here, and durable up to a sequence."""
        self._channels[world] = _Channel(head)

    def end(self, world: str) -> None:
        """A world is no longer here; its readers end."""
        channel = self._channels.pop(world, None)
        if channel is not None:
            channel.wake()

    def close(self) -> None:
        """All readers end."""
        self._closed = True
        for world in list(self._channels):
            self.end(world)

    def durable(self, world: str, frames: Sequence[Sealed], head: Head) -> None:
        """New frames may be read."""
        channel = self._channels.get(world)
        if channel is not None:
            channel.recent.extend(frames)
            channel.head = head.seq
            if channel.waiters:
                channel.wake()

    def progress(self, world: str, body: Any) -> None:
        """A progress frame, for those who read now; nobody waits for it."""
        channel = self._channels.get(world)
        if channel is not None and channel.progress:
            for queue in channel.progress:
                queue.append(body)
            channel.wake()

    def head(self, world: str) -> int:
        """The last durable sequence of a world."""
        channel = self._channels.get(world)
        return 0 if channel is None else channel.head

    def lag(self) -> int:
        """How many records the slowest reader is behind."""
        behind = (self.head(world) - after for world, after in self._readers.values())
        return max(behind, default=0)

    async def subscribe(self, world: str, after: int) -> AsyncIterator[FeedItem]:
        """Everything after a sequence, then whatever comes; ends when the reader is too slow."""
        channel = self._channels.get(world)
        if channel is None:
            return
        live: deque[Any] = deque(maxlen=64)
        channel.progress.append(live)
        self._readers[id(live)] = (world, after)
        sleep = _Sleep()
        try:
            caught_up = False
            while self._channels.get(world) is channel:
                while live:
                    yield FeedItem("progress", after, live.popleft())
                if channel.head <= after:
                    caught_up = True
                    if not await sleep.until(channel):
                        yield FeedItem("head", channel.head)
                    continue
                if caught_up and channel.head - after > self._buffer:
                    yield FeedItem("behind", after, {"head": channel.head})
                    return
                for frame in await self._page(world, channel, after):
                    after = frame.last
                    self._readers[id(live)] = (world, after)
                    yield FeedItem("frame", after, frame)
        finally:
            sleep.end()
            channel.progress.remove(live)
            del self._readers[id(live)]

    async def _page(self, world: str, channel: _Channel, after: int) -> list[Sealed]:
        recent = channel.recent
        if recent and recent[0].seq <= after + 1:
            # From the newest back: who has kept up is a commit behind, not a thousand frames.
            found = list(takewhile(lambda frame: frame.last > after, reversed(recent)))
            return found[::-1]
        pages = await self._read(world, after, after + PAGE_FRAMES)
        return [frame for frame in pages if frame.last <= channel.head]
