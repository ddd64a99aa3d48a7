"""Shares: how much of the node one world may have at once while others are busy too (I40).

Theory of operation.
A flood of one world fills every queue between the wire and the disk, and an event of another then
waits for a whole round of it, however fair each queue is by itself.
So while several worlds send, each has only a few events on their way to the disk, or as many as
another one wants to have; the rest of a flood waits here, in order and counted by its lane, and
costs the others nothing.
A few are as many as get from the wire to their answers in half the time of a commit: whoever comes
meanwhile waits for the disk rather than for them.
While somebody who wants far less is on the way, a flood steps aside: its next ones are handed on
behind the other's answer, or after a moment if there is none.
A world that is alone has no bound, and floods of equal size do not hinder each other.
"""

from __future__ import annotations

import asyncio
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
_EVENT_S: Final = 0.002  # twice what one takes from the wire to its answer
BUSY_S: Final = 1.0  # so long after its last event a world counts as busy
ASIDE_S: Final = 0.05  # so long a flood steps aside for what another world has sent
_NEAR: Final = 8  # so many of the worlds that sent last are asked how much they want


class _Line:
    """What a world has on its way: inside, and waiting here for its turn."""

    __slots__ = ("inside", "timed", "waiting", "wanted")

    def __init__(self) -> None:
        self.inside = 0
        self.timed = False  # it goes on in a moment, whatever the others do
        self.wanted = 0  # inside, or waiting here
        self.waiting: deque[tuple[Hosted, Call]] = deque()

    def fits(self, most: int) -> bool:
        """True when the next call may go; one that is larger than its share goes alone."""
        if not self.inside:
            return most > 0
        return self.inside + len(self.waiting[0][1].tickets) <= most


class Shares:
    """The events of all worlds on their way to the engine; used on the io thread."""

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer
        self._lines: dict[str, _Line] = {}  # of the worlds that want something
        self._busy: dict[str, float] = {}  # when each world sent last, the latest at the end
        self._closing = False

    def offer(self, world: str, hosted: Hosted, call: Call) -> None:
        """Hand the tickets of a call to the engine, now or when it is their turn."""
        self._note(world)
        line = self._lines.get(world)
        if line is None:
            line = self._lines[world] = _Line()
        line.wanted += len(call.tickets)
        line.waiting.append((hosted, call))
        self._go_on(world)

    def close(self) -> None:
        """Let nobody wait here any more: the engine answers all, as it does when it ends."""
        self._closing = True
        for world in list(self._lines):
            self._go_on(world)

    def _note(self, world: str) -> None:
        """This world is busy; who was not for long is forgotten."""
        now, busy = time.monotonic(), self._busy
        busy.pop(world, None)
        busy[world] = now
        while busy[oldest := next(iter(busy))] <= now - BUSY_S:
            del busy[oldest]

    def _go_on(self, world: str, turn: bool = False) -> None:
        """Hand on what may go now; in its `turn` a flood need not step aside."""
        line = self._lines.get(world)
        if line is None or not line.waiting:
            return
        why = self._lost(world, line.waiting[0][0])
        if why is not None:
            self._give_up(world, line, why)
            return
        most = self._most(world, line, turn)
        while line.waiting and (most is None or line.fits(most)):
            hosted, call = line.waiting.popleft()
            line.inside += len(call.tickets)
            call.left = partial(self._left, world, len(call.tickets))
            self._engine.offer(hosted, call.tickets, ingress=True)
        if line.waiting and not line.inside and not line.timed:
            line.timed = True
            asyncio.get_running_loop().call_later(ASIDE_S, self._at_last, world)

    def _at_last(self, world: str) -> None:
        """Nobody steps aside for ever."""
        line = self._lines.get(world)
        if line is not None:
            line.timed = False
            self._go_on(world, turn=True)

    def _most(self, world: str, line: _Line, turn: bool) -> int | None:
        """How much a world may have inside; None when no other one has sent anything lately."""
        if self._closing:
            return None
        wanted: int | None = None
        aside = False
        now = time.monotonic()
        for other in islice(reversed(self._busy), _NEAR):
            sent = self._busy[other]
            if other != world and sent > now - BUSY_S:
                theirs = self._lines.get(other)
                wants = 0 if theirs is None else theirs.wanted
                wanted = max(wanted or 0, wants)
                aside = aside or (0 < 2 * wants < line.wanted and sent > now - ASIDE_S)
        if wanted is None:
            return None
        return 0 if aside and not turn else max(wanted, share_of(self._writer.least_s))

    def _left(self, world: str, count: int) -> None:
        """A call is answered: others may go on."""
        line = self._lines[world]
        wanted = line.wanted
        line.inside -= count
        line.wanted -= count
        if not line.wanted:
            del self._lines[world]
        self._go_on(world)
        for other, theirs in list(islice(self._lines.items(), _NEAR)):
            if other != world and theirs.waiting:
                # Behind the answer that is about to be written.
                turn = wanted < theirs.wanted
                asyncio.get_running_loop().call_soon(self._go_on, other, turn)

    def _lost(self, world: str, hosted: Hosted) -> TallyError | None:
        """Why nobody would answer what is handed on now."""
        if self._engine.failed is not None:
            return self._engine.failed
        if self._engine.worlds.get(world) is not hosted:
            return NotOwner(f"world {world} is not here", where={"world": world})
        return None

    def _give_up(self, world: str, line: _Line, why: TallyError) -> None:
        """Tell all that wait that nobody will answer them."""
        calls, line.waiting = line.waiting, deque()
        line.wanted = line.inside
        if not line.wanted:
            del self._lines[world]
        for _, call in calls:
            for ticket in call.tickets:
                ticket.error = why
                call.told(ticket)


def share_of(commit_s: float) -> int:
    """How many events a world may have on their way when a commit takes so long."""
    return min(max(int(commit_s / _EVENT_S), _LEAST), _MOST)
