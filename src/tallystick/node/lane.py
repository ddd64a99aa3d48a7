"""The lane of new events of one world: how much may wait, and the word for whoever comes too many.

It is counted at both ends: here what was given, by the engine what it has taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tallystick.errors import Busy
from tallystick.node.config import IngressSettings
from tallystick.node.driver import Ticket
from tallystick.node.hosted import Hosted

_RETRY_MS: Final = 200


class Lane:
    """How much of a world's ingress was given; used on the io thread."""

    __slots__ = ("_limits", "bytes", "count")

    def __init__(self, limits: IngressSettings) -> None:
        self._limits = limits
        self.count = 0
        self.bytes = 0

    def check(self, hosted: Hosted) -> None:
        """Refuse with `Busy` when not even one more event fits."""
        if self.count - hosted.taken >= self._limits.queue:
            raise _full()

    def enter(self, hosted: Hosted, tickets: Sequence[Ticket], size: int) -> None:
        """Let tickets in, all into one commit, or refuse them all with `Busy`."""
        waiting = self.count - hosted.taken
        too_many = waiting + len(tickets) > self._limits.queue
        if too_many or (
            self.bytes - hosted.taken_bytes + size > self._limits.queue_bytes and waiting
        ):
            raise _full()
        self.count += len(tickets)
        self.bytes += size
        tickets[0].size = size
        for ticket in tickets[:-1]:
            ticket.more = True


def _full() -> Busy:
    return Busy("the lane of new events is full", where={"retry_after_ms": _RETRY_MS})
