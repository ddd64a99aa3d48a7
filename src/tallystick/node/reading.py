"""Reads of history: each over a connection of its own, which a stop can break off."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from tallystick.journal.base import Reader
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import SqliteReader

T = TypeVar("T")


class Reading:
    """The readers that are at work now, on threads of the node."""

    def __init__(self, journal: SqliteJournal, threads: Executor) -> None:
        self._journal = journal
        self._threads = threads
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._lock = threading.Lock()
        self._open: dict[int, SqliteReader] = {}

    async def ask(self, question: Callable[[Reader], T]) -> T:
        """Ask the journal in a worker thread."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, self._ask, question)
        self._pending[future] = None
        try:
            return await future
        finally:
            del self._pending[future]

    def _ask(self, question: Callable[[Reader], T]) -> T:
        reader = self._journal.reader()
        with self._lock:
            self._open[id(reader)] = reader
        try:
            return question(reader)
        finally:
            with self._lock:
                del self._open[id(reader)]
            reader.close()

    async def give_up(self, until_s: float) -> None:
        """Wait for the readers until a time of the loop, then break them off."""
        left_s = max(until_s - asyncio.get_running_loop().time(), 0)
        if self._pending:
            await asyncio.wait(self._pending, timeout=left_s)
        with self._lock:
            for reader in self._open.values():
                reader.interrupt()
