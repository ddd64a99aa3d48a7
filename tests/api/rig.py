"""A real node behind its real listener on a free port, and callers for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tallystick.api.app import make_app
from tallystick.api.front import Api
from tallystick.api.serve import Listening, address_of
from tallystick.executors.base import Executor
from tallystick.node.node import Node
from tests import orders
from tests.node.rig import config, running

PLACED = orders.PLACED


@dataclass
class Served:
    """A node that listens, and who may call it."""

    node: Node
    api: Api
    url: str
    http: httpx.AsyncClient

    async def token(self, *scopes: str, worlds: Sequence[str] = ("*",), **more: Any) -> str:
        """A new token with these scopes."""
        body = {"principal": "test", "scopes": scopes, "worlds": worlds, **more}
        made = await self.http.post("/v1/tokens", json=body)
        assert made.status_code == 201, made.text
        return str(made.json()["token"])

    async def send(self, order_id: str, world: str = "main", **headers: str) -> httpx.Response:
        """Place an order; what was accepted has run when it returns."""
        body = {"schema": PLACED, "value": {"order_id": order_id, "cents": 5}}
        found = await self.http.post(f"/v1/worlds/{world}/events", json=body, headers=headers)
        await self.ran(found, world)
        return found

    async def ran(self, answer: httpx.Response, world: str = "main") -> None:
        """Wait until no cell is ready: an event is acknowledged before its ticks run."""
        name = self.node.names.get(world)
        while answer.status_code == 202 and name is not None:
            if await self.node.look(name, lambda live: live.frozen or not live.ring):
                return
            await asyncio.sleep(0.005)

    async def root(self, world: str = "main") -> str:
        """The state root of a world."""
        found = await self.http.get(f"/v1/worlds/{world}/root")
        return str(found.json()["state_root"])

    async def head(self, world: str = "main") -> int:
        """The last sequence of a world."""
        found = await self.http.get(f"/v1/worlds/{world}/journal/head")
        return int(found.json()["seq"])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def serving(
    base: Path, *executors: Executor, worlds: Sequence[str] = ("main",), **sections: Any
) -> AsyncIterator[Served]:
    """A node in a folder, with these worlds; those that are there already are kept."""
    http = {"listen": "127.0.0.1:0"} | sections.pop("http", {})
    async with running(config(base, http=http, **sections), *executors) as node:
        for name in worlds:
            if name not in node.names:
                await node.create(name, orders.bundle())
        listening = Listening(await make_app(node), address_of(node.config.http))
        await listening.start()
        try:
            async with httpx.AsyncClient(
                base_url=listening.url,
                headers=bearer(listening.api.local),
                trust_env=False,
                timeout=30,
            ) as client:
                yield Served(node, listening.api, listening.url, client)
        finally:
            await listening.stop()
