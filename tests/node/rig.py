"""A whole node in this process over a real folder: real SQLite, real threads, real sync."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tallystick.executors.base import Executor, Job, Ok, Outcome, Repeat, Report
from tallystick.kernel.inputs import Submit
from tallystick.modules.python import PythonRunner
from tallystick.node.config import Config, config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tests import orders


class Bank:
    """Charges in this process, and keeps a ledger of what it was asked."""

    name = "payments"
    effects = frozenset({orders.CHARGE})
    repeat: Repeat = "keyed"

    def __init__(
        self, act: Callable[[Job], Awaitable[Outcome]] | None = None, slots: int = 64
    ) -> None:
        self.slots = slots
        self._act = act
        self.asked: list[Job] = []
        self.cancelled: list[bytes] = []
        self.now = 0
        self.most = 0

    async def perform(self, job: Job, report: Report) -> Outcome:
        self.asked.append(job)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return Ok({"ref": "pay"}) if self._act is None else await self._act(job)
        finally:
            self.now -= 1

    async def cancel(self, job: Job) -> None:
        self.cancelled.append(job.intent)

    async def close(self) -> None:
        pass


def config(base: Path, **sections: dict[str, Any]) -> Config:
    return config_of(base, sections, {})


@asynccontextmanager
async def running(
    settings: Config, *executors: Executor, passive: bool = False, vfs: str | None = None
) -> AsyncIterator[Node]:
    node = await open_node(
        settings,
        lambda blobs: PythonRunner(orders.FUNCTIONS),
        passive=passive,
        executors=executors,
        vfs=vfs,
    )
    try:
        yield node
    finally:
        await close_node(node)


def placed(node: Node, order_id: str, key: bytes | None = None, cents: int = 5) -> Submit:
    value = {"order_id": order_id, "cents": cents}
    return Submit(node.clock.sample(), orders.PLACED, value, idem_key=key)


async def phase(node: Node, world: str, order_id: str) -> str | None:
    """The phase of an order, None when there is no such cell."""
    from tallystick.model.cells import CellId
    from tallystick.values import canon

    def ask(live: Any) -> str | None:
        cell = live.cell(CellId(orders.ORDERS, canon.encode(order_id)))
        return None if cell is None else canon.decode(live.state_of(cell))["phase"]

    return await node.look(world, ask)
