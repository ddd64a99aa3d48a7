"""Shares: how much of the node one world may have at once while others are busy too (I40).

Theory of operation.
A flood of one world fills every queue between the wire and the disk, and an event of another then
waits for a whole round of it, however fair each queue is by itself.
So while several worlds send, each has only a few events on their way to the disk, or as many as
another one wants to have; the rest of a flood waits here, in order and counted by its lane, and
costs the others nothing.
A few are about as many as can be decided while one commit syncs: fewer would leave the disk idle.
A world that is alone has no bound, and floods of equal size do not hinder each other.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from itertools import islice
from typing import Final

from tallystick.errors import NotOwner, TallyError
from tallystick.node.calls import Call
from tallystick.node.engine import Engine
from tallystick.node.hosted import Hosted
from tallystick.node.writer import Writer

_LEAST: Final = 2
_MOST: Final = 256
_EVENT_S: Final = 0.0003  # about what it takes to decide about one
BUSY_S: Final = 1.0  # so long after its last event a world counts as busy
_NEAR: Final = 8  # so many of the worlds that sent last are asked how much they want


class Shares:
    """The events of all worlds on their way to the engine; used on the io thread."""

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer
        self._inside: dict[str, int] = {}
        self._wanted: dict[str, int] = {}  # inside, or waiting here
        self._waiting: dict[str, deque[tuple[Hosted, Call]]] = {}
        self._busy: dict[str, float] = {}  # when each world sent last, the latest at the end
        self._closing = False

    def offer(self, world: str, hosted: Hosted, call: Call) -> None:
        """Hand the tickets of a call to the engine, now or when it is their turn."""
        self._busy.pop(world, None)
        self._busy[world] = time.monotonic()
        self._wanted[world] = self._wanted.get(world, 0) + len(call.tickets)
        call.left = partial(self._left, world, len(call.tickets))
        if not self._waiting.get(world) and self._fits(world, len(call.tickets)):
            self._give(world, hosted, call)
        else:
            self._waiting.setdefault(world, deque()).append((hosted, call))
            self._go_on(world)

    def close(self) -> None:
        """Let nobody wait here any more: the engine answers all, as it does when it ends."""
        self._closing = True
        for world in list(self._waiting):
            self._go_on(world)

    def _fits(self, world: str, count: int) -> bool:
        inside = self._inside.get(world, 0)
        if not inside or self._closing:
            return True
        most = self._most(world)
        return most is None or inside + count <= most

    def _most(self, world: str) -> int | None:
        """How much a world may have inside; None when no other one has sent anything lately."""
        wanted: int | None = None
        since = time.monotonic() - BUSY_S
        for other in islice(reversed(self._busy), _NEAR):
            if other != world and self._busy[other] > since:
                wanted = max(wanted or 0, self._wanted.get(other, 0))
        return None if wanted is None else max(wanted, share_of(self._writer.least_s))

    def _give(self, world: str, hosted: Hosted, call: Call) -> None:
        self._inside[world] = self._inside.get(world, 0) + len(call.tickets)
        self._engine.offer(hosted, call.tickets, ingress=True)

    def _left(self, world: str, count: int) -> None:
        """A call is answered: others of its world may go on."""
        self._inside[world] = max(0, self._inside.get(world, 0) - count)
        self._wanted[world] -= count
        self._go_on(world)

    def _go_on(self, world: str) -> None:
        waiting = self._waiting.get(world)
        if not waiting:
            return
        why = self._lost(world, waiting[0][0])
        if why is not None:
            self._give_up(self._waiting.pop(world), why)
            return
        while waiting and self._fits(world, len(waiting[0][1].tickets)):
            self._give(world, *waiting.popleft())

    def _lost(self, world: str, hosted: Hosted) -> TallyError | None:
        """Why nobody would answer what is handed on now."""
        if self._engine.failed is not None:
            return self._engine.failed
        if self._engine.worlds.get(world) is not hosted:
            return NotOwner(f"world {world} is not here", where={"world": world})
        return None

    def _give_up(self, calls: deque[tuple[Hosted, Call]], why: TallyError) -> None:
        for _, call in calls:
            for ticket in call.tickets:
                ticket.error = why
                call.told(ticket)


def share_of(commit_s: float) -> int:
    """How many events a world may have on their way when a commit takes so long."""
    return min(max(int(commit_s / _EVENT_S), _LEAST), _MOST)
