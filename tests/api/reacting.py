"""A node that listens and watches one directory, for tests of workspaces over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tallystick.api.app import make_app
from tallystick.api.serve import Listening, address_of
from tallystick.node.node import Node
from tests.api.rig import bearer
from tests.reactions.noded import Scene, noded, scene

# Reads one file and writes one page; also on a person's word.
PAGER = """\
reaction: pager
on: [{files: ["in/*.txt"]}, {command: true}]
reads: {files: ["in/*.txt"]}
writes: {files: ["out/**"]}
cooldown: 0s
actions:
  - {name: read, file.read: {paths: ["in/a.txt"]}}
  - {name: page, file.write: {path: "out/page.md", content: "of {{ actions.read.text }}"}}
"""


class Reacting(Scene):
    """A workspace of a node, and a caller of that node."""

    http: httpx.AsyncClient

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request about the world of the workspace: its status and what was said."""
        more = {} if body is None else {"json": body}
        found = await self.http.request(method, f"/v1/worlds/{self.world}{path}", **more)
        return found.status_code, found.json()

    async def get(self, path: str) -> Any:
        """What a read that is answered says."""
        status, found = await self.ask("GET", path)
        assert status == 200, f"{path}: {found}"
        return found

    async def code(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """Status and code of a refusal."""
        status, found = await self.ask(method, path, body)
        return status, found["code"]

    async def done(self, path: str, body: Any) -> Any:
        """An order that is taken, with all that follows from it."""
        status, found = await self.ask("POST", path, body)
        assert status in (200, 201, 202), f"{path}: {found}"
        await self.scan()
        return found


@asynccontextmanager
async def listening(node: Node) -> AsyncIterator[httpx.AsyncClient]:
    """A caller of a node that has the right to everything."""
    server = Listening(await make_app(node), address_of(node.config.http))
    await server.start()
    try:
        async with httpx.AsyncClient(
            base_url=server.url, headers=bearer(server.api.local), trust_env=False, timeout=60
        ) as client:
            yield client
    finally:
        await server.stop()


@asynccontextmanager
async def reacting(base: Path, **reactions: str) -> AsyncIterator[Reacting]:
    """A workspace with these reactions, watched and trusted, with one input in it."""
    async with noded(base / "data", http={"listen": "127.0.0.1:0"}) as node:
        made = await scene(node, base / "ws", **reactions)
        here = Reacting(node, made.world, made.folder)
        here.write("in/a.txt", "one")
        await here.add()
        async with listening(node) as here.http:
            yield here
