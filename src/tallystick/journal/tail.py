"""Tails: durable frames as they come, for whoever follows a world from another thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Final

from tallystick.journal.base import Reader
from tallystick.model.frames import Sealed

PAGE: Final = 256


class Bell:
    """Rung by the thread that writes, heard by every event loop that follows.

    Each change is one operation on a dict, which threads may share.
    """

    __slots__ = ("_ears",)

    def __init__(self) -> None:
        self._ears: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def ring(self) -> None:
        """Something became durable."""
        for ear, loop in list(self._ears.items()):
            loop.call_soon_threadsafe(ear.set)

    def listen(self) -> asyncio.Event:
        """An event of the running loop that is set whenever the bell rings."""
        ear = asyncio.Event()
        self._ears[ear] = asyncio.get_running_loop()
        return ear

    def leave(self, ear: asyncio.Event) -> None:
        """Hear no more."""
        self._ears.pop(ear, None)


async def follow(
    open_reader: Callable[[], Reader], bell: Bell, world: str, after: int
) -> AsyncIterator[Sealed]:
    """Frames behind a sequence, then new ones; reading happens off the event loop."""
    reader = open_reader()
    ear = bell.listen()
    try:
        while True:
            # Cleared before reading: a frame that comes while we read rings again.
            ear.clear()
            page = await asyncio.to_thread(_page, reader, world, after)
            for frame in page:
                yield frame
                after = frame.last
            if not page:
                await ear.wait()
    finally:
        bell.leave(ear)
        reader.close()


def _page(reader: Reader, world: str, after: int) -> list[Sealed]:
    return list(islice(reader.read(world, after), PAGE))
