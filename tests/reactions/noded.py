"""A real node with a real folder, a world that reacts, and a workspace that it watches."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tallystick.cli.here import modules_of
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.lookout import Lookout
from tallystick.node.node import Node
from tallystick.node.workspaces import Kept
from tallystick.reactions.bundle import reaction_bundle
from tallystick.views import workspaces

SETTINGS = {"watch": {"settle_ms": 30, "max_settle_ms": 200, "rescan_s": 1.0}}

COPIER = """\
reaction: copier
on: [{files: ["in/*.txt"]}]
reads: {files: ["in/*.txt"]}
writes: {files: ["out/**"]}
cooldown: 0s
actions:
  - {name: read, file.read: {paths: ["in/*.txt"]}}
  - name: page
    file.write: {path: "out/all.md", content: "{{ actions.read.files | length }} files\\n"}
"""


@asynccontextmanager
async def noded(base: Path, **sections: Any) -> AsyncIterator[Node]:
    node = await open_node(config_of(base, {**SETTINGS, **sections}, {}), modules_of())
    try:
        yield node
    finally:
        await close_node(node, 1)


class Scene:
    """A node, its world and one workspace."""

    def __init__(self, node: Node, world: str, folder: Path) -> None:
        self.node = node
        self.world = world
        self.folder = folder
        self.kept: Kept

    async def add(self, *, shared: bool = False, trust: bool = True) -> Scene:
        watching = self.node.watching
        self.kept = await watching.add(self.world, self.folder, "me", shared=shared)
        await self.lookout.scan()
        if trust:
            await watching.trust(self.kept, (), "me", follow=True)
            await self.quiet()
        return self

    @property
    def lookout(self) -> Lookout:
        return self.node.watching.lookouts[self.kept.place]

    def write(self, path: str, text: str) -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")

    async def quiet(self) -> None:
        assert await self.node.quiet(self.world, 60_000)

    async def scan(self) -> None:
        """All that is on disk is in the journal, and what follows from it has happened."""
        await self.lookout.scan()
        await self.quiet()
        await self.lookout.scan()
        await self.quiet()

    async def until(self, look: Callable[[], Any], patience_s: float = 60.0) -> Any:
        end = asyncio.get_running_loop().time() + patience_s
        while True:
            found = look()
            if found:
                return found
            assert asyncio.get_running_loop().time() < end, "it never came"
            await asyncio.sleep(0.02)

    async def runs(self) -> list[dict[str, Any]]:
        return await self.node.look(self.world, workspaces.run_list)

    async def outcomes(self) -> list[tuple[str, str, str | None]]:
        view = await self.node.watching.projected.now(self.world)
        rows = [noted.value for noted in view.outcomes.values()]
        return [(row["reaction"], row["outcome"], row["code"]) for row in rows]


async def scene(node: Node, folder: Path, **reactions: str) -> Scene:
    """A new world and a folder with these reactions."""
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - quick, and there is no other task
    world = await node.create(f"w{len(node.names)}", reaction_bundle())
    made = Scene(node, world, folder)
    for name, text in reactions.items():
        made.write(f".reactions/{name.replace('_', '-')}.yaml", text)
    return made
