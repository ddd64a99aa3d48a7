"""A node with real modules behind its real listener, and people who call it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tallystick.api.app import make_app
from tallystick.api.serve import Listening, address_of
from tallystick.cli.here import modules_of
from tallystick.executors.base import Executor, Job, Ok, Outcome, Repeat, Report
from tallystick.model.bundle import Bundle
from tallystick.node.host import close_node, open_node
from tests.api.rig import Served, bearer
from tests.governance.apps import PRINT, SOLD
from tests.node.rig import config

W = "/v1/worlds/main"
SCOPES = ("read", "propose", "approve", "apply", "revoke")


class Printer:
    """Prints when it is told to, and keeps a ledger."""

    name = "printer"
    effects = frozenset({PRINT})
    repeat: Repeat = "keyed"
    slots = 4

    def __init__(self) -> None:
        self.asked: list[Job] = []
        self.paper: Any = None

    async def perform(self, job: Job, report: Report) -> Outcome:
        del report
        self.asked.append(job)
        if self.paper is not None:
            await self.paper.wait()
        return Ok({"number": len(self.asked)})

    async def cancel(self, job: Job) -> None:
        """Nothing to take back."""

    async def close(self) -> None:
        """Nothing is held."""


@asynccontextmanager
async def governed(base: Path, bundle: Bundle, *executors: Executor) -> AsyncIterator[Served]:
    """A node whose world `main` was made from a bundle."""
    settings = config(base, http={"listen": "127.0.0.1:0"})
    node = await open_node(settings, modules_of(), executors=executors)
    try:
        if "main" not in node.names:
            await node.create("main", bundle)
        listening = Listening(await make_app(node), address_of(node.config.http))
        await listening.start()
        try:
            headers = bearer(listening.api.local)
            async with httpx.AsyncClient(
                base_url=listening.url, headers=headers, trust_env=False, timeout=60
            ) as client:
                yield Served(node, listening.api, listening.url, client)
        finally:
            await listening.stop()
    finally:
        await close_node(node)


async def sold(served: Served, till: str, cents: int = 1) -> httpx.Response:
    """Sell something; what was accepted has run when it returns."""
    body = {"schema": SOLD, "value": {"till": till, "cents": cents}}
    found = await served.http.post(f"{W}/events", json=body)
    await served.ran(found)
    return found


async def ask(served: Served, who: str, verb: str, path: str, **body: Any) -> tuple[int, Any]:
    """A request of one person."""
    token = await served.token(*SCOPES, principal=who)
    send = getattr(served.http, verb)
    more = {"json": body} if verb == "post" else {}
    answer = await send(W + path, headers=bearer(token), **more)
    return answer.status_code, answer.json()
