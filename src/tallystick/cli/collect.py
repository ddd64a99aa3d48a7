"""`tally gc`: remove what nothing names, and move the floor of a journal on request.

It works on a folder whose node is stopped: while a node runs, a frame that is not durable yet may
name a blob that nothing else names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tallystick.cli.client import live_node
from tallystick.cli.here import HereClient
from tallystick.errors import Unavailable
from tallystick.journal.collect import Trim, marks_of, sweep, thin, trim
from tallystick.journal.sqlite import SqliteJournal
from tallystick.node.config import Config, RetentionSettings
from tallystick.node.node import Node


def collect(config: Config, *, dry_run: bool) -> dict[str, Any]:
    """Thin the snapshots of every world and sweep its orphans; refuses while a node runs."""

    async def act(node: Node) -> list[dict[str, Any]]:
        work = partial(_look if dry_run else _collect, config.retention)
        return [await node.write(partial(work, world)) for world in sorted(node.worlds().values())]

    return {"dry_run": dry_run, "worlds": _alone(config, act)}


def cut(config: Config, name: str, before: int, archive: Path) -> dict[str, Any]:
    """Move the floor of one world up to its newest snapshot below a sequence; see `trim`."""

    async def act(node: Node) -> dict[str, Any]:
        order = Trim(node.resolve(name), before, archive, node.key.pair, node.clock.now_ns())
        made = await node.write(lambda journal: trim(journal, order))
        return {
            "world": order.world,
            "base_seq": made.base.seq,
            "frames": made.frames,
            "archive": str(made.archive),
            "removed": made.swept.blobs,
        }

    found: dict[str, Any] = _alone(config, act)
    return found


def _alone(config: Config, act: Callable[[Node], Any]) -> Any:
    if live_node(config.data) is not None:
        raise Unavailable(
            f"a node serves {config.data}",
            code="gc.node_runs",
            hint="stop the node first; nothing is removed under its hands",
        )
    client = HereClient(config, passive=True)
    try:
        return client.run(act)
    finally:
        client.close()


def _look(_retention: RetentionSettings, world: str, journal: SqliteJournal) -> dict[str, Any]:
    keep = marks_of(journal, world)
    orphans = [size for digest, size in journal.blobs(world) if digest not in keep]
    return {
        "world": world,
        "orphans": len(orphans),
        "bytes": sum(orphans),
        "removed": 0,
        "snapshots": 0,
    }


def _collect(retention: RetentionSettings, world: str, journal: SqliteJournal) -> dict[str, Any]:
    snapshots = thin(journal, world, max(1, retention.snapshots))
    found = _look(retention, world, journal)
    gone = sweep(journal, world, time.time_ns() - retention.blob_grace)
    return {**found, "removed": gone.blobs, "snapshots": snapshots}
