"""Duties: what a node does beside its work: checkpoints, and watching the disk.

A checkpoint is the node's signed word for where a journal stood.
It is signed where a root is known anyway, at snapshots (ADR 0011), and at the end.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Final

from tallystick.errors import DiskFull, NotQuiescent
from tallystick.journal.base import CheckpointRow
from tallystick.kernel.roots import root
from tallystick.kernel.world import World
from tallystick.node.engine import Hosted
from tallystick.node.node import Node
from tallystick.values import canon
from tallystick.values.seal import checkpoint_statement

FREE_BYTES_MIN: Final = 64 * 1024 * 1024
_LOOK_S: Final = 1.0


class Duties:
    """Runs beside the node, on the io thread."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._node.engine.read_only and self._space():
                self._node.engine.call(self._node.engine.writable)

    def _space(self) -> bool:
        found = os.statvfs(self._node.folder)
        return found.f_bavail * found.f_frsize >= FREE_BYTES_MIN

    async def last(self) -> None:
        """At the end: a snapshot and a checkpoint of every world that is idle."""
        for world in list(self._node.engine.worlds):
            try:
                await self._node.snapshot(world)
                await self.checkpoint(world)
            except (NotQuiescent, DiskFull):
                continue  # the journal is whole without them; opening only folds longer

    async def checkpoint(self, world: str) -> CheckpointRow:
        """Sign where a world stands, keep it in the journal and beside it."""
        node = self._node
        seq, head, found, manifest = await node.look(world, _standing)
        hosted = node.engine.worlds[world]
        row = self._signed(world, hosted, (seq, head, found, manifest))
        await node.write(lambda journal: journal.add_checkpoint(world, row))
        await asyncio.to_thread(self._note, world, row)
        return row

    def _signed(
        self, world: str, hosted: Hosted, standing: tuple[int, bytes, bytes, bytes]
    ) -> CheckpointRow:
        seq, head, found, manifest = standing
        now_ns, epoch = self._node.clock.now_ns(), hosted.driver.head.epoch
        statement = checkpoint_statement(
            world=world,
            seq=seq,
            head=canon.text_of(head),
            root=canon.text_of(found),
            manifest=canon.text_of(manifest),
            epoch=epoch,
            at_ns=now_ns,
        )
        seal = canon.encode(self._node.key.pair.sign(statement))
        return CheckpointRow(seq, head, found, manifest, epoch, now_ns, seal)

    def _note(self, world: str, row: CheckpointRow) -> None:
        """One line for whoever keeps a copy elsewhere."""
        line = {
            "world": world,
            "seq": row.seq,
            "head": canon.text_of(row.head),
            "root": canon.text_of(row.root),
            "manifest": canon.text_of(row.manifest),
            "epoch": row.epoch,
            "at_ns": row.at_ns,
            "seal": canon.decode(row.seal),
        }
        with self._node.files.checkpoints.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=bytes.hex, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _standing(world: World) -> tuple[int, bytes, bytes, bytes]:
    return world.seq, world.head, root(world), world.manifest
