"""Duties: what a node does beside its work: snapshots by time, checkpoints, watching the disk.

A checkpoint is the node's signed word for where a journal stood.
It needs a root, which costs as much as has changed since the last snapshot; so each snapshot is
signed with the root that it has, and a world that changed has one every minute (ADR 0011).
"""

from __future__ import annotations

import asyncio
from typing import Final

from tallystick.errors import DiskFull, TallyError, Unavailable
from tallystick.journal import checkpoints
from tallystick.journal.base import CheckpointRow, Head
from tallystick.journal.checkpoints import Stand
from tallystick.journal.reserve import ROOM_BYTES, Reserve, room
from tallystick.kernel.roots import root
from tallystick.kernel.snapshot import Plan
from tallystick.kernel.world import World
from tallystick.node.node import Node
from tallystick.node.spare import give_back

Standing = tuple[int, bytes, bytes, bytes]
"""Sequence, hash of the last frame, root and manifest of a world at one moment."""

CHECKPOINT_S: Final = 60.0
_LOOK_S: Final = 1.0


class Duties:
    """Runs beside the node, on the io thread."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._task: asyncio.Task[None] | None = None
        self._signing: dict[asyncio.Task[None], None] = {}
        self._stood: dict[str, tuple[int, float]] = {}
        self._reserve = Reserve(node.folder)
        self._full = False
        self._told: dict[str, None] = {}

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End."""
        tasks = [*self._signing, *([] if self._task is None else [self._task])]
        if self._task is not None:
            self._task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self._tell()
            if self._node.engine.read_only:
                # The last marks of a full disk are paid from the reserve.
                self._reserve.free()
                if self._has_space():
                    self._node.engine.call(self._node.engine.writable)
                continue
            if not self._reserve.whole:
                await self._make_reserve()
            for world in list(self._node.engine.worlds):
                await self._by_time(world)

    async def _make_reserve(self) -> None:
        try:
            await asyncio.to_thread(self._reserve.make)
        except OSError as why:
            code = "node.no_reserve"
            if code not in self._told:
                self._told[code] = None
                self._node.log.say("warning", code, f"the reserve cannot be taken: {why}")

    def _tell(self) -> None:
        """Say in the log what has changed since the last look."""
        node = self._node
        if node.engine.read_only != self._full:
            self._full = node.engine.read_only
            if self._full:
                node.log.say("error", "node.disk_full", "the disk is full; the node only reads")
            else:
                node.log.say("info", "node.disk_room", "there is space again; the node writes")
        for name in list(node.dispatch.unserved.values()):
            if name.effect not in self._told:
                self._told[name.effect] = None
                text = f"nobody serves {name.effect}"
                node.log.say("warning", "effect.no_executor", text, world=name.world)

    def _has_space(self) -> bool:
        return room(self._node.folder) >= ROOM_BYTES

    async def _by_time(self, world: str) -> None:
        now, head = self._node.loop.time(), self._node.feed.head(world)
        seq, since = self._stood.setdefault(world, (head, now))
        if head > seq and now - since >= CHECKPOINT_S:
            self._stood[world] = (head + 1, now)
            await self._snapshot(world)

    async def _snapshot(self, world: str) -> None:
        try:
            await self._node.snapshot(world)
        except TallyError:
            return  # the journal is whole without it; opening only folds longer. Or it is gone.

    def snapshot_taken(self, world: str, plan: Plan) -> None:
        """A snapshot is durable: sign where the world stood in it."""
        if not self._node.stopping:
            stood = (plan.seq, plan.head, plan.root, plan.manifest)
            task = asyncio.create_task(self._sign(world, stood))
            self._signing[task] = None
            task.add_done_callback(lambda done: self._signing.pop(done, None))

    async def _sign(self, world: str, stood: Standing | None = None) -> None:
        try:
            await self.checkpoint(world, stood)
        except TallyError:
            return  # the world is gone, or the node stops with an error that it tells itself

    async def last(self, until_s: float | None = None) -> None:
        """At the end: a snapshot and a checkpoint of every world that changed and is idle.

        When time is over, those that are left are told of: the next start folds them longer.
        """
        for world in list(self._node.engine.worlds):
            try:
                async with asyncio.timeout_at(until_s):
                    await self._end(world)
            except TimeoutError:
                text = "no time is left for a snapshot; the next start folds the tail"
                self._node.log.say("warning", "node.unsigned", text, world=world)
            except TallyError as why:  # the others are signed; a failed sync is told by `stopped`
                text = f"nothing was signed at the end: {why.message}"
                self._node.log.say("warning", "node.unsigned", text, world=world)

    async def _end(self, world: str) -> None:
        head = self._node.feed.head(world)
        if await self._signed(world) < head:
            # The record of a snapshot itself stands behind what it holds.
            if self._node.hosted(world, look=True).snapped < head - 1:
                await self._snapshot(world)
            await self._sign(world)

    async def _signed(self, world: str) -> int:
        """Up to where the last checkpoint of a world reaches."""
        rows = await self._node.read(lambda reader: reader.checkpoints(world))
        return rows[-1].seq if rows else 0

    async def signed(self, world: str) -> int | None:
        """Sign where a world stands behind something that is durable; None, and a line, when not.

        Who did it must not be told that it failed.
        """
        try:
            return (await self.checkpoint(world)).seq
        except (DiskFull, Unavailable) as why:
            text = f"no checkpoint stands behind it: {why.message}"
            self._node.log.say("warning", "node.unsigned", text, world=world)
            return None

    async def checkpoint(self, world: str, stood: Standing | None = None) -> CheckpointRow:
        """Sign where a world stands, or stood, keep it in the journal and beside it.

        A journal keeps only what it can prove alone: a world that came from elsewhere may not trust
        our key, and a backup with our word in it could not be verified.
        """
        node = self._node
        epoch = node.hosted(world, look=True).driver.head.epoch
        if stood is None:
            stood = await node.look(world, _standing)
        seq, head, found, manifest = stood
        stand = Stand(found, manifest, node.clock.now_ns())
        row = checkpoints.make(node.key.pair, world, Head(seq, head, epoch), stand)
        if await node.look(world, lambda live: node.key.pair.key_id in live.keys):
            await node.write(lambda journal: journal.add_checkpoint(world, row))
        await asyncio.to_thread(checkpoints.note, node.folder, world, row)
        await asyncio.to_thread(give_back)
        return row


def _standing(world: World) -> Standing:
    return world.seq, world.head, root(world), world.manifest
