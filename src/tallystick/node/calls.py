"""Calls: how code on the io thread waits for what the kernel's thread decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tallystick.kernel.draft import Answer
from tallystick.node.driver import Ticket


class Call:
    """One caller that waits for one or more tickets; told on the io thread, in any order."""

    __slots__ = ("_left", "future", "left", "tickets")

    def __init__(self, loop: asyncio.AbstractEventLoop, tickets: list[Ticket]) -> None:
        self.future: asyncio.Future[list[Ticket]] = loop.create_future()
        self.tickets = tickets
        self._left = len(tickets)
        self.left: Callable[[], None] | None = None  # told when all of them are done
        for ticket in tickets:
            ticket.waiter = self

    def told(self, ticket: Ticket) -> None:
        """One ticket is done; the caller wakes with the last one."""
        # Each holds the other: left so, thousands a second would wait for the collector.
        ticket.waiter = None
        self._left -= 1
        if self._left:
            return
        if not self.future.done():
            self.future.set_result(self.tickets)
        if self.left is not None:
            self.left()


def outcome_of(ticket: Ticket) -> Answer | Exception:
    """What a finished ticket brought."""
    if ticket.error is not None:
        return ticket.error
    assert ticket.answer is not None, "a told ticket is done"
    return ticket.answer


def detail_of(ticket: Ticket) -> Any:
    """What a look found; raises what it raised."""
    found = outcome_of(ticket)
    if isinstance(found, Exception):
        raise found
    return found.detail


def put_ahead(tickets: list[Ticket], ahead_ns: int) -> None:
    """Let inputs come so much later than they were sampled: a world may be ahead of the clock."""
    for ticket in tickets:
        given: Any = ticket.given
        sample = given.sample
        ticket.given = given._replace(sample=sample._replace(now_ns=sample.now_ns + ahead_ns))
