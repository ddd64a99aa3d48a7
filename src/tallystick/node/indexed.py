"""The derived index, kept by one thread and brought up to date before each question.

It finds where something stands in a journal without reading the journal; what stands there is then
read from the journal itself, so a wrong or missing index can cost time and never truth (K-43).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw

from tallystick.errors import Rejected, Unavailable
from tallystick.journal.base import Reader
from tallystick.journal.index import DAMAGED, FILE, Index, IntentRow
from tallystick.node.log import Log

T = TypeVar("T")


class Indexed:
    """`index.db` of a node."""

    def __init__(self, folder: Path, reader: Callable[[], Reader], log: Log) -> None:
        self._folder = folder
        self._reader = reader
        self._log = log
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tally-index")
        self._index: Index | None = None

    async def ask(self, world: str, question: Callable[[Index], T]) -> T:
        """Follow the journal of a world, then ask."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._ask, world, question)

    def _ask(self, world: str, question: Callable[[Index], T]) -> T:
        return self._both(world, lambda index, _reader: question(index))

    async def ask_beside(self, world: str, question: Callable[[Index, Reader], T]) -> T:
        """Follow the journal of a world, then ask; with a reader of the journal at hand."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._both, world, question)

    def _both(self, world: str, question: Callable[[Index, Reader], T]) -> T:
        try:
            try:
                return self._answer(world, question)
            except DAMAGED:
                # Met by a question and not on the way there: it is asked of a new file.
                if self._index is not None:
                    self._index.renew()
                return self._answer(world, question)
        except (apsw.IOError, apsw.CantOpenError) as why:
            raise Unavailable(
                f"{FILE} cannot be read: {why}",
                code="index.unreadable",
                where={"file": str(self._folder / FILE)},
                hint="look at the disk; the file may be deleted while no node runs: it is derived",
            ) from why

    def _answer(self, world: str, question: Callable[[Index, Reader], T]) -> T:
        if self._index is None:
            self._index = Index(self._folder)
        reader = self._reader()
        try:
            self._index.follow(reader, world)
            if self._index.rebuilt:
                self._index.rebuilt = False
                self._log.say(
                    "warning", "index.rebuilt", "index.db was damaged or older; made again"
                )
            return question(self._index, reader)
        finally:
            reader.close()

    async def forget(self, world: str) -> None:
        """Remove all that is known of a world that is gone."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._forget, world)

    def _forget(self, world: str) -> None:
        with suppress(apsw.Error):  # damaged or without room: nobody asks it about this world again
            if self._index is None:
                self._index = Index(self._folder)
            self._index.forget(world)

    async def seq_of(self, world: str, digits: str) -> int | None:
        """Where an event was admitted first, or an intent was asked for; by its first digits.

        Refuses digits that more than one begins with.
        """
        found = await self.ask(world, lambda index: index.begins(world, digits))
        if len(found) > 1:
            raise Rejected(
                "more than one event or intent begins so",
                code="intent.ambiguous",
                where={"begins": digits},
                hint="give more digits",
            )
        return found[0][1] if found else None

    async def intent(self, world: str, digest: bytes) -> IntentRow | None:
        """An intent, open or settled."""

        def find(index: Index) -> IntentRow | None:
            rows = index.intents(world, limit=1, intent=digest)
            return rows[0] if rows else None

        return await self.ask(world, find)

    def close(self) -> None:
        """Let go of the file."""
        if self._index is not None:
            self._thread.submit(self._index.close).result()
        self._thread.shutdown()
