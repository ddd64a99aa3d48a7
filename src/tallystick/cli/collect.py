"""`tally gc`: remove blobs that no frame, snapshot or fork names, once they are old enough.

It works on a folder whose node is stopped: while a node runs, a frame that is not durable yet may
name a blob that nothing else names.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from tallystick.cli.client import live_node
from tallystick.cli.here import HereClient, modules_of
from tallystick.errors import Unavailable
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.staged import StagedBlobs
from tallystick.node.config import Config
from tallystick.node.node import Node
from tallystick.node.worlds import marks_of, world_at


def collect(config: Config, *, dry_run: bool) -> dict[str, Any]:
    """Sweep every world of a folder; refuses a folder whose node runs with `gc.node_runs`."""
    if live_node(config.data) is not None:
        raise Unavailable(
            f"a node serves {config.data}",
            code="gc.node_runs",
            hint="stop the node first; nothing is removed under its hands",
        )
    client = HereClient(config, passive=True)
    try:
        return {"dry_run": dry_run, "worlds": client.run(lambda node: _sweep(node, dry_run))}
    finally:
        client.close()


async def _sweep(node: Node, dry_run: bool) -> list[dict[str, Any]]:
    worlds = sorted(set(node.worlds().values()))
    retention = node.config.retention

    def sweep(world: str, journal: SqliteJournal) -> dict[str, Any]:
        runner = modules_of()(StagedBlobs(journal, world))
        live = world_at(journal, world, runner)
        keep = marks_of(journal, live, max(1, retention.snapshots))
        orphans = [size for digest, size in journal.blobs(world) if digest not in keep]
        found = {"world": world, "orphans": len(orphans), "bytes": sum(orphans), "removed": 0}
        if not dry_run:
            before = _grown_old(journal, world, time.time_ns() - retention.blob_grace)
            found["removed"] = journal.sweep(world, keep, before).blobs
        return found

    return [await node.write(partial(sweep, world)) for world in worlds]


def _grown_old(journal: SqliteJournal, world: str, until_ns: int) -> int:
    """The sequence behind the last frame that was flushed before a time."""
    before = 0
    for header in journal.headers(world):
        if header.flushed_ns > until_ns:
            break
        before = header.last_seq + 1
    return before
