"""The watchdog: stops a tick that runs for too long (04 section 1).

A tick only decides and changes nothing, so it can be broken off at any point and leaves no trace.
The exception is raised in the kernel's thread, and only while that thread is inside the guarded
block: leaving the block and firing exclude each other by a lock.
WASM code does not return to the interpreter, so it is interrupted besides.
An exception that a finaliser or a wide `except` swallows is raised again, until the block ends; a
block that ends all the same is stopped at its end: nothing of a tick that ran too long is kept.
What a tick waits for and has no part in, such as the start of a worker process, is `uncounted`.
Other code that never returns cannot be stopped this way; the fuel of its lane is what bounds it.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Final

from tallystick.modules.wasm_door import interrupt_wasm

TICK_SECONDS_MAX: Final = 5.0
_LOOK_S: Final = 0.25
_AGAIN: Final = 0.2  # of the limit: so long after one that did not end the tick comes the next
_DRAIN: Final = 1000  # steps of the interpreter, any of which takes what is on its way


class TickStopped(BaseException):
    """Raised inside a tick that ran for too long; module code must not swallow it."""


class Watchdog:
    """Guards a block of one thread: `with watchdog: ...`."""

    def __init__(
        self, limit_s: float = TICK_SECONDS_MAX, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._lock = threading.Lock()
        self._begun = 0.0
        self._fired = 0  # how many are or were on their way to the block that is guarded now
        self._fired_s = 0.0  # when the last of them was sent
        self._over = threading.Event()
        self._guarded: threading.Thread | None = None
        self._thread = threading.Thread(target=self._watch, name="tally-watchdog", daemon=True)

    def start(self, guarded: threading.Thread) -> None:
        """Watch a thread."""
        self._guarded = guarded
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._over.set()
        self._thread.join()

    def __enter__(self) -> None:
        # Plain stores: the watcher needs no more than to see them within its look.
        # This order: one that fired and arrived late must not fire again on the old beginning.
        self._begun = self._clock()
        self._fired = 0
        _GUARD.set(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        why: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        arrived = kind is TickStopped
        while self._begun:
            try:
                with self._lock:
                    self._begun = 0.0  # from here on nobody fires
            except TickStopped:
                arrived = True  # on the way out
        if not self._fired:
            return
        # The only one there was has arrived; of several, the last may still be on its way.
        if self._fired > 1 or not arrived:
            _take_arrival()
        if kind is not TickStopped:
            raise TickStopped

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Time stands still for the block that is guarded now."""
        with self._lock:
            # One that has fired already arrives here, or at the end of the guarded block.
            begun, self._begun = self._begun, 0.0
        since = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._begun = begun and begun + self._clock() - since

    def _watch(self) -> None:
        while not self._over.wait(min(_LOOK_S, self._limit_s / 4)):
            with self._lock:
                now = self._clock()
                begun = self._begun
                if begun and now - begun > self._limit_s and self._may_fire(now):
                    self._fired, self._fired_s = self._fired + 1, now
                    self._raise()

    def _may_fire(self, now: float) -> bool:
        return not self._fired or now - self._fired_s > self._limit_s * _AGAIN

    def _raise(self) -> None:
        assert self._guarded is not None, "a started watchdog guards a thread"
        ident = ctypes.c_ulong(self._guarded.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(TickStopped))
        interrupt_wasm()  # after the exception is on its way, or the lane would run the tick again


_GUARD: ContextVar[Watchdog | None] = ContextVar("guard", default=None)
"""Who watches the thread; each thread has a context of its own."""


@contextmanager
def uncounted() -> Iterator[None]:
    """A block that counts against no tick: what it waits for is no doing of module code.

    It must end by itself, because nobody watches it.
    """
    guard = _GUARD.get()
    if guard is None:
        yield
        return
    with guard.apart():
        yield


def _take_arrival() -> None:
    """What is on its way arrives here and not in the code that follows, or is there already."""
    with suppress(TickStopped):
        for _ in range(_DRAIN):
            time.sleep(0)
