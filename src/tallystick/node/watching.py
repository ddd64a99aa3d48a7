"""The workspaces of a node: which directories are watched, by which world, and how they fare.

Watching begins when the node does, unless it only came to look, and whenever one is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tallystick.errors import TallyError, UnknownName
from tallystick.executors.file import FileExecutor
from tallystick.kernel.inputs import Submit
from tallystick.node import workspaces
from tallystick.node.lookout import Lookout, not_watched
from tallystick.node.node import Node
from tallystick.node.projected import Projected
from tallystick.node.watch_counts import watch_gauges
from tallystick.node.workspaces import Kept, Place, Workspaces
from tallystick.reactions.settle import Patience
from tallystick.reactions.watch import Settings
from tallystick.views.workspaces import workspace_body

_MS: Final = 1_000_000


class Watching:
    """Everything here runs on the io thread."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.projected = Projected(node)
        self.workspaces = Workspaces(node.folder)
        self.lookouts: dict[Place, Lookout] = {}
        watch_gauges(node.metrics, self.lookouts)

    def serve(self) -> None:
        """Let writes go where they went before.

        Called before worlds open: what was on its way when the node ended is tried again at once.
        """
        for kept in self.workspaces.rows.values():
            self._serve(kept)

    async def start(self) -> None:
        """Watch what is registered for the worlds that are here."""
        for kept in list(self.workspaces.rows.values()):
            if kept.world in self._node.engine.worlds and not self._node.passive:
                self._watch(kept)

    async def stop(self) -> None:
        """Watch no more."""
        for lookout in self.lookouts.values():
            await lookout.stop()
        self.lookouts.clear()

    # ---- adding and removing ----------------------------------------------------------------

    async def add(self, world: str, folder: Path, principal: str, *, shared: bool) -> Kept:
        """Register a directory for a world and begin to watch it."""
        entropy = self._node.clock.sample().entropy
        new_id = f"ws-{entropy[:10].hex()}"
        kept = workspaces.claim(folder, world, new_id, shared=shared)
        workspaces.refuse_copy(kept, self.workspaces.rows.values())
        value = {
            "workspace_id": kept.workspace_id,
            "name": kept.name,
            "shared": shared,
            "principal": principal,
        }
        await self._submit(world, "sys/WorkspaceAdded@1", value)
        self.workspaces.put(kept)
        self._serve(kept)
        if not self._node.passive and kept.place not in self.lookouts:
            await self._ticked(kept)
            self._watch(kept)
        return kept

    async def remove(self, kept: Kept) -> None:
        """Watch a directory no more; its history stays in the journal."""
        lookout = self.lookouts.pop(kept.place, None)
        if lookout is not None:
            await lookout.stop()
        self.workspaces.drop(kept)
        for executor in self._file_executors():
            executor.forget(kept.place)
        with suppress(TallyError, OSError):  # it is given up, whatever stands in it by now
            workspaces.release(Path(kept.folder), kept.world)

    async def leave(self, world: str) -> None:
        """Give back every directory of a world that was removed."""
        for kept in self.workspaces.of(world):
            with suppress(TallyError, OSError):  # what stands in the directory may be anything
                await self.remove(kept)

    def lookout(self, kept: Kept) -> Lookout:
        """The one that watches a workspace; refuses where nobody does."""
        found = self.lookouts.get(kept.place)
        if found is None:
            raise not_watched(kept)
        return found

    def _serve(self, kept: Kept) -> None:
        """Let the file executor write there, for runs of reactions that were granted it."""
        folder = Path(kept.folder)
        stamps = folder / workspaces.STATE / workspaces.STAMPS if kept.shared else None
        for executor in self._file_executors():
            executor.admit(kept.place, folder, stamps)

    def _file_executors(self) -> list[FileExecutor]:
        found = self._node.dispatch.executors()
        return [executor for executor in found if isinstance(executor, FileExecutor)]

    def _watch(self, kept: Kept) -> None:
        watch = self._node.config.watch
        patience = Patience(
            watch.settle_ms * _MS, watch.max_settle_ms * _MS, int(watch.rescan_s * 1000) * _MS
        )
        settings = Settings(patience, watch.ignore)
        lookout = Lookout(self._node, self.projected, kept, settings)
        self.lookouts[kept.place] = lookout
        lookout.start()

    async def _ticked(self, kept: Kept) -> None:
        """Wait until the cell of a workspace is there: its first tick follows its event."""
        await self._node.quiet(kept.world, 5_000)
        await self._node.look(kept.world, lambda world: workspace_body(world, kept.workspace_id))

    # ---- what people say --------------------------------------------------------------------

    async def trust(
        self, kept: Kept, reactions: tuple[str, ...], principal: str, *, follow: bool | None
    ) -> list[str]:
        """Pin the definitions that are loaded now, or those named; the hashes."""
        body = await self._node.look(
            kept.world, lambda world: workspace_body(world, kept.workspace_id)
        )
        known = {name: row["blob"] for name, row in body["reactions"].items()}
        for name in reactions:
            if name not in known:
                raise UnknownName(
                    f"no reaction {name} is loaded",
                    code="reaction.unknown",
                    where={"reaction": name},
                    hint=f"loaded: {', '.join(sorted(known)) or 'none'}",
                )
        hashes = sorted(known[name] for name in (reactions or known))
        await self.pin(kept, hashes, principal, follow=follow)
        return hashes

    async def pin(
        self, kept: Kept, hashes: Sequence[str], principal: str, *, follow: bool | None = None
    ) -> None:
        """Trust definitions by their hash; `follow` says whether later edits are trusted too."""
        value = {
            "workspace_id": kept.workspace_id,
            "definitions": list(hashes),
            "follow": follow,
            "principal": principal,
        }
        await self._submit(kept.world, "sys/WorkspaceTrust@1", value)

    async def _submit(self, world: str, schema: str, value: dict[str, Any]) -> int:
        sample = self._node.clock.sample()
        given = Submit(sample, schema, value, lens="native", origin="system")
        return (await self._node.one(world, given)).seq
