"""`echo`: answers every job with its own params, after a delay if one is set.

For trying out a workflow before its executor exists, and for measuring the runtime without an
outside: route an effect whose receipt has the shape of its params to it.

    [executors]
    enabled = ["echo"]
    routes = {"com.acme/ping@1" = "echo"}

It serves no effect unless a route says so.
A secret stays the reference it is in params; its value is not echoed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tallystick.executors.base import ExecutorPorts, Job, Ok, Outcome, Repeat, Report


class EchoExecutor:
    """Performs whatever is routed to it."""

    name = "echo"
    effects: frozenset[str] = frozenset()
    repeat: Repeat = "same"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.slots = int(settings.get("slots", 1_000))
        self._delay_s = float(settings.get("delay_ms", 0)) / 1_000

    def at_once(self, job: Job) -> Outcome | None:
        """The params, as they are, unless a delay is set."""
        return None if self._delay_s else Ok(job.params)

    async def perform(self, job: Job, report: Report) -> Outcome:
        """The params, as they are."""
        del report
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        return Ok(job.params)

    async def cancel(self, job: Job) -> None:
        """Nothing to tell: there is no outside."""

    async def close(self) -> None:
        """Nothing to give back."""


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> EchoExecutor:
    """The executor `echo` as settings describe it."""
    del ports
    return EchoExecutor(settings)
