"""What `/metrics` shows of a node now; asked for when somebody reads (04 section 12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tallystick.node.metrics import Labels
from tallystick.node.node import Node

Rows = Mapping[Labels, float]


class Gauges:
    """The gauges of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        asked = {
            "tally_inbox_depth": self._inbox,
            "tally_staged_frames": self._staged,
            "tally_open_intents": self._intents,
            "tally_cells": self._cells,
            "tally_journal_bytes": lambda: _alone(_size(node.folder / "tally.db")),
            "tally_wal_bytes": lambda: _alone(_size(node.folder / "tally.db-wal")),
            "tally_epoch": self._epochs,
            "tally_feed_lag": self._lag,
            "tally_read_only": lambda: _alone(float(node.engine.read_only)),
        }
        for name, ask in asked.items():
            node.metrics.gauge(name, ask)

    def _inbox(self) -> Rows:
        drivers = [hosted.driver for hosted in list(self._node.engine.worlds.values())]
        return {
            (("lane", "ingress"),): sum(len(driver.ingress) for driver in drivers),
            (("lane", "work"),): sum(len(driver.work) for driver in drivers),
            (("lane", "messages"),): self._node.engine.depth(),
        }

    def _staged(self) -> Rows:
        worlds = list(self._node.engine.worlds.values())
        return _alone(sum(len(hosted.driver.staged) for hosted in worlds))

    def _intents(self) -> Rows:
        """Those that an executor, a worker or a person owes an outcome."""
        counted = Counter(self._node.dispatch.effects())
        counted.update(job.effect for job in self._node.asks.open.values())
        return {(("effect", effect),): number for effect, number in counted.items()}

    def _cells(self) -> Rows:
        return {
            (("world", world),): hosted.driver.world.cell_count
            for world, hosted in list(self._node.engine.worlds.items())
        }

    def _epochs(self) -> Rows:
        return {
            (("world", world),): hosted.driver.head.epoch
            for world, hosted in list(self._node.engine.worlds.items())
        }

    def _lag(self) -> Rows:
        return _alone(self._node.feed.lag())


def _alone(value: float) -> Rows:
    return {(): value}


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
