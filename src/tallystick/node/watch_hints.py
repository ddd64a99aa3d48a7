"""Hints by the library `watchfiles`, under supervision; where it is absent or dies, none.

It is known to lose files of directories that were just made, and one name that is no text ends it;
so it only says where to look first, and its end is told as a loss (08 section 6, W1).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Final

RETRY_S: Final = 2.0
_DEBOUNCE_MS: Final = 50
_STEP_MS: Final = 10
_LOOK_MS: Final = 250


class FileHints:
    """Calls `tell` on the loop with each path, and `lost` when hints may be missing."""

    def __init__(
        self, folder: str, tell: Callable[[bytes], None], lost: Callable[[bool], None]
    ) -> None:
        self._folder = os.path.realpath(folder)
        self._tell = tell
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; without the library nobody hints, which is told once."""
        try:
            import watchfiles  # noqa: F401, PLC0415 - an extra; its absence is an answer
        except ImportError:
            self._lost(False)
            return
        self._thread = threading.Thread(target=self._run, name="tally-hints")
        self._thread.start()

    async def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._watch()
            except Exception:  # noqa: BLE001 - whatever ends the library, the scan goes on
                self._call(self._lost, False)
                self._stop.wait(RETRY_S)

    def _watch(self) -> None:
        from watchfiles import watch  # noqa: PLC0415 - see above

        found = watch(
            self._folder,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            stop_event=self._stop,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        first = True
        for changes in found:
            if first:
                first = False
                self._call(self._lost, True)  # what happened before it listened is unknown
            for _, path in changes:
                relative = os.path.relpath(path, self._folder)
                self._call(self._tell, b"" if relative == "." else os.fsencode(relative))

    def _call(self, told: Callable[..., None], value: object) -> None:
        try:
            self._loop.call_soon_threadsafe(told, value)
        except RuntimeError:  # the loop is closed: nobody listens any more
            self._stop.set()
