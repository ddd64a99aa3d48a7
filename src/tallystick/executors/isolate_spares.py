"""Sandboxes that are started before there is a program for them.

Most of what a short program takes is the time until its walls stand and its interpreter runs.
Whoever runs one program will often run a like one soon, so a sandbox for it is started meanwhile.
A spare has heard nothing of any request; it takes on its user and its limits with its program.
It is used once; when nobody wants it for a while it is let end.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from tallystick.executors.isolate import Bounds, Program, start
from tallystick.executors.isolate_watch import Sandbox, Surroundings

_SPARES_MAX: Final = 2
IDLE_S: Final = 5.0


class Spares:
    """The spares of one executor, by whether they see the network; any thread may ask."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._lock = threading.Lock()
        self._ready: dict[bool, deque[Sandbox]] = {False: deque(), True: deque()}
        self._closed = False

    def take(self, program: Program, around: Surroundings) -> Sandbox:
        """A spare that lives still, the oldest one, or else a new sandbox."""
        while program.code is not None:
            with self._lock:
                if not self._ready[program.net]:
                    break
                found = self._ready[program.net].popleft()
            if found.process.poll() is None:
                return found
            found.discard()
        return start(program, self._bounds, around)

    def stock(self, program: Program, around: Surroundings) -> None:
        """Start a spare for the next program like this one, unless there are enough."""
        if program.code is None or not self._wanted(program.net):
            return
        try:
            made = start(program, self._bounds, around)
        except OSError:
            return  # the next program starts its own, or says why it cannot
        with self._lock:
            if not self._closed:
                self._ready[program.net].append(made)
                return
        made.discard()

    def drop(self) -> None:
        """Let all of them end; later ones may be started."""
        with self._lock:
            found = [each for ready in self._ready.values() for each in ready]
            for ready in self._ready.values():
                ready.clear()
        for each in found:
            each.discard()

    def close(self) -> None:
        """Let all of them end, and start no more."""
        with self._lock:
            self._closed = True
        self.drop()

    def _wanted(self, net: bool) -> bool:
        with self._lock:
            return not self._closed and len(self._ready[net]) < _SPARES_MAX
